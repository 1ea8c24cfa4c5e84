//! API objects with defaults, to be changed where it matters.

use core::net::IpAddr;

use svc_planner::object::{
    Algorithm, Endpoint, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};

pub(crate) fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

pub(crate) fn name(text: &str) -> ObjectName {
    ObjectName {
        namespace: "ns".into(),
        name: text.into(),
    }
}

/// A Service with a ClusterIP and ports (name, protocol, port, node port).
pub(crate) fn service(
    service: &str,
    cluster_ip: IpAddr,
    ports: &[(&str, Protocol, u16, u16)],
) -> Service {
    let ports = ports
        .iter()
        .map(|&(name, protocol, port, node_port)| ServicePort {
            name: name.into(),
            protocol,
            port,
            node_port,
        });
    Service {
        name: name(service),
        created: None,
        uid: None,
        cluster_ips: [cluster_ip].into_iter().collect(),
        external_ips: [].into_iter().collect(),
        load_balancer_ips: [].into_iter().collect(),
        source_ranges: [].into_iter().collect(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: None,
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: ports.collect(),
    }
}

/// A slice of that name for a Service, with ports (name, protocol, port).
pub(crate) fn slice(
    slice: &str,
    service: &str,
    ports: &[(&str, Protocol, u16)],
    endpoints: impl IntoIterator<Item = Endpoint>,
) -> EndpointSlice {
    let ports = ports.iter().map(|&(name, protocol, port)| SlicePort {
        name: name.into(),
        protocol,
        port,
    });
    EndpointSlice {
        name: name(slice),
        service: service.into(),
        triggers: Default::default(),
        ports: ports.collect(),
        endpoints: endpoints.into_iter().collect(),
    }
}

/// A ready endpoint.
pub(crate) fn endpoint(address: IpAddr, node: Option<&str>) -> Endpoint {
    Endpoint {
        address,
        ready: true,
        serving: true,
        terminating: false,
        node: node.map(Into::into),
        zone_hints: [].into_iter().collect(),
        node_hints: [].into_iter().collect(),
        weight: 1,
    }
}

pub(crate) fn node(name: &str, addresses: &[&str]) -> Node {
    Node {
        name: name.into(),
        addresses: addresses.iter().map(|address| ip(address)).collect(),
        pod_cidrs: [].into_iter().collect(),
        zone: None,
        eligible: true,
    }
}
