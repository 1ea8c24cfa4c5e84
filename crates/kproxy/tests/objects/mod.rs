//! Services with one TCP port, told apart by a number.
#![allow(dead_code, reason = "each test file uses its own part")]

use core::net::IpAddr;

use smallvec::smallvec;
use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use svc_planner::plan::Family;

/// Of a Service and its only slice.
pub(crate) fn name(number: u16) -> ObjectName {
    ObjectName {
        namespace: "shop".into(),
        name: format!("s{number}").into(),
    }
}

pub(crate) fn cluster_ip(number: u16) -> IpAddr {
    cluster_ip_of(Family::Ipv4, number)
}

pub(crate) fn cluster_ip_of(family: Family, number: u16) -> IpAddr {
    address(family, 96, number)
}

fn address(family: Family, net: u8, number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    match family {
        Family::Ipv4 => [10, net, high, low].into(),
        Family::Ipv6 => [0xfd00, 0x10, net.into(), 0, 0, 0, 0, number].into(),
    }
}

/// A Service with one ready endpoint.
pub(crate) fn served(number: u16) -> [Change; 2] {
    served_of(Family::Ipv4, number)
}

/// As [`served`], in a family.
pub(crate) fn served_of(family: Family, number: u16) -> [Change; 2] {
    [
        service_of(family, number),
        slice(number, address(family, 1, number)),
    ]
}

pub(crate) fn service(number: u16) -> Change {
    service_of(Family::Ipv4, number)
}

pub(crate) fn service_of(family: Family, number: u16) -> Change {
    Change::Service(Service {
        name: name(number),
        created: None,
        uid: None,
        cluster_ips: smallvec![cluster_ip_of(family, number)],
        external_ips: smallvec![],
        load_balancer_ips: smallvec![],
        source_ranges: smallvec![],
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: None,
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: smallvec![ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: 0,
        }],
    })
}

pub(crate) fn slice(number: u16, endpoint: IpAddr) -> Change {
    Change::EndpointSlice(EndpointSlice {
        name: name(number),
        service: name(number).name,
        triggers: Default::default(),
        ports: smallvec![SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 8080,
        }],
        endpoints: vec![Endpoint {
            address: endpoint,
            ready: true,
            serving: true,
            terminating: false,
            node: None,
            zone_hints: smallvec![],
            node_hints: smallvec![],
            weight: 1,
        }],
    })
}
