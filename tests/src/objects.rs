//! Services and slices for tests that need many or change them fast.

use core::net::IpAddr;

use smallvec::SmallVec;
use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};

/// Namespace of all objects here.
const NAMESPACE: &str = "test";

/// Name of a Service and of its only slice.
#[must_use]
pub fn name(service: &str) -> ObjectName {
    ObjectName {
        namespace: NAMESPACE.into(),
        name: service.into(),
    }
}

/// A Service with one unnamed port per protocol, all of the same number.
#[must_use]
pub fn service(service: &str, address: IpAddr, protocols: &[Protocol], port: u16) -> Change {
    let port = |&protocol| ServicePort {
        name: port_name(protocol),
        protocol,
        port,
        node_port: 0,
    };
    Change::Service(Service {
        name: name(service),
        created: None,
        uid: None,
        cluster_ips: [address].into_iter().collect(),
        external_ips: SmallVec::new(),
        load_balancer_ips: SmallVec::new(),
        source_ranges: SmallVec::new(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: None,
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: protocols.iter().map(port).collect(),
    })
}

/// The slice of such a Service: ready endpoints, all on the same port.
#[must_use]
pub fn slice(service: &str, addresses: &[IpAddr], protocols: &[Protocol], port: u16) -> Change {
    let endpoint = |&address| Endpoint {
        address,
        ready: true,
        serving: true,
        terminating: false,
        node: None,
        zone_hints: SmallVec::new(),
        node_hints: SmallVec::new(),
        weight: 1,
    };
    let port = |&protocol| SlicePort {
        name: port_name(protocol),
        protocol,
        port,
    };
    Change::EndpointSlice(EndpointSlice {
        name: name(service),
        service: service.into(),
        triggers: Default::default(),
        ports: protocols.iter().map(port).collect(),
        endpoints: addresses.iter().map(endpoint).collect(),
    })
}

fn port_name(protocol: Protocol) -> Box<str> {
    format!("{protocol:?}").to_lowercase().into()
}
