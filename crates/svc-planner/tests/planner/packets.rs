//! Packets to the addresses of random clusters.

use core::net::IpAddr;

use svc_planner::fake::Packet;
use svc_planner::object::Protocol;
use svc_planner::plan::Family;

use crate::cluster::{
    BALANCER_NET, CLIENT_NET, CLUSTER_NET, EXTERNAL_NET, NODE_NET, NODE_PORT, POD_NET, PORTS,
    address, host_addresses, prefix,
};

/// Packets from everywhere to every address and port that a Service may have, and to some that
/// none has.
pub(crate) fn packets(family: Family) -> Vec<Packet> {
    let mut packets = Vec::new();
    for (to, protocol, port) in destinations(family) {
        packets.push(Packet::local(
            address(family, NODE_NET, 1),
            to,
            protocol,
            port,
        ));
        for (interface, from) in [
            ("cni0", address(family, POD_NET, 1)),
            ("cni1", address(family, POD_NET, 2)),
            ("eth0", address(family, CLIENT_NET, 1)),
        ] {
            packets.push(Packet::arriving(interface, from, to, protocol, port));
        }
        // Where a balancer's address is the node's own as well, the node comes from it.
        if is_balancer(family, &to) {
            packets.push(Packet::local(to, to, protocol, port));
        }
    }
    let loopback = match family {
        Family::Ipv4 => IpAddr::V4(core::net::Ipv4Addr::LOCALHOST),
        Family::Ipv6 => IpAddr::V6(core::net::Ipv6Addr::LOCALHOST),
    };
    let to_node = |(to, _, _): &(IpAddr, Protocol, u16)| host_addresses(family).contains(to);
    for (_, protocol, port) in destinations(family).into_iter().filter(to_node) {
        packets.push(Packet::local(loopback, loopback, protocol, port));
    }
    packets
}

fn is_balancer(family: Family, to: &IpAddr) -> bool {
    prefix(family, BALANCER_NET).contains(to)
}

/// One packet to each destination, two where it matters who sends it.
pub(crate) fn few_packets(family: Family) -> Vec<Packet> {
    let (client, pod) = (address(family, CLIENT_NET, 1), address(family, POD_NET, 2));
    let mut packets = Vec::new();
    for (to, protocol, port) in destinations(family) {
        packets.push(Packet::arriving("eth0", client, to, protocol, port));
        if is_balancer(family, &to) {
            packets.push(Packet::arriving("cni1", pod, to, protocol, port));
        }
    }
    packets
}

fn destinations(family: Family) -> Vec<(IpAddr, Protocol, u16)> {
    let nets = [(CLUSTER_NET, 8), (EXTERNAL_NET, 2), (BALANCER_NET, 2)];
    let mut destinations = Vec::new();
    for (net, last) in nets {
        for host in 1..=last {
            for (_, protocol, port) in PORTS {
                destinations.push((address(family, net, host), protocol, port));
            }
        }
    }
    for to in host_addresses(family) {
        for (template, (_, protocol, _)) in (0..).zip(PORTS) {
            for node_port in 1..3_u16 {
                destinations.push((to, protocol, NODE_PORT + template * 2 + node_port));
            }
        }
    }
    let unknown = address(family, CLUSTER_NET, 99);
    destinations.push((unknown, Protocol::Tcp, 80));
    destinations.push((address(family, CLUSTER_NET, 1), Protocol::Udp, 1));
    destinations.push((address(family, CLIENT_NET, 2), Protocol::Tcp, 80));
    destinations
}
