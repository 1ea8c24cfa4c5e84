//! Packet flows that kube-proxy's own tests expect (`pkg/proxy/nftables/proxier_test.go`), through
//! the planner's rules and through the oracle.

mod masquerade;

use core::time::Duration;
use std::collections::BTreeSet;

use svc_planner::config::{Config, LocalDetector, LocalhostNodePorts, NodePortAddresses};
use svc_planner::fake::{Endpoint, Host, Packet, Verdict};
use svc_planner::object::{Change, Protocol, Service, TrafficPolicy};
use svc_planner::plan::Family;

use crate::driver::Driver;
use crate::objects::{endpoint, ip, name, node, service, slice};

const HERE: &str = "here";
const NODE_IP: &str = "192.168.0.2";
const SECONDARY_IP: &str = "192.168.1.2";
const POD: &str = "10.0.0.2";
const EXTERNAL: &str = "203.0.113.2";

fn config() -> Config {
    Config {
        node_name: HERE.into(),
        local: LocalDetector::Cidr("10.0.0.0/8".parse().unwrap()),
        ..Config::default()
    }
}

/// A node with two addresses in a cluster with a ServiceCIDR.
fn cluster(config: Config) -> Driver {
    let mut driver = Driver::new(Family::Ipv4, config);
    driver.change(Change::Node(node(HERE, &[NODE_IP, SECONDARY_IP])));
    driver.change(Change::HostAddresses(vec![ip(NODE_IP), ip(SECONDARY_IP)]));
    driver.change(Change::ServiceCidr {
        name: "kubernetes".into(),
        cidrs: ["172.30.0.0/16".parse().unwrap()].into_iter().collect(),
    });
    driver
}

fn host() -> Host {
    Host::new([ip(NODE_IP), ip(SECONDARY_IP)])
}

/// Addresses, `@` and the node, blank between them.
fn endpoints(port: (&str, Protocol, u16), of: &str, text: &str) -> Change {
    let endpoints = text.split_whitespace().map(|endpoint_at| {
        let (address, at) = endpoint_at.split_once('@').unwrap();
        let node = match at {
            "L" => Some(HERE),
            "R" => Some("there"),
            _ => None,
        };
        endpoint(ip(address), node)
    });
    Change::EndpointSlice(slice(of, of, &[port], endpoints))
}

/// Checks one flow: `from` an address, `to` a protocol, address and port, `expected` either a
/// verdict or endpoints, with `masq` behind them.
#[track_caller]
fn flow(driver: &mut Driver, from: &str, to: &str, expected: &str) {
    driver.drain();
    let (protocol, to) = to.split_once(' ').unwrap_or(("tcp", to));
    let (address, port) = to.rsplit_once(':').unwrap();
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        other => panic!("no protocol {other}"),
    };
    let address = ip(address.trim_matches(['[', ']']));
    let port = port.parse().unwrap();
    let packet = match from {
        NODE_IP => Packet::local(ip(from), address, protocol, port),
        pod if pod.starts_with("10.") => Packet::arriving("cni0", ip(pod), address, protocol, port),
        other => Packet::arriving("eth0", ip(other), address, protocol, port),
    };
    let expected = match expected {
        "REJECT" => BTreeSet::from([Verdict::Rejected]),
        "DROP" => BTreeSet::from([Verdict::Dropped]),
        "none" => BTreeSet::from([Verdict::Untouched { masqueraded: false }]),
        endpoints => {
            let masqueraded = endpoints.ends_with("masq");
            endpoints
                .split_whitespace()
                .filter(|word| *word != "masq")
                .map(|word| {
                    let (address, port) = word.split_once(':').unwrap();
                    let port = port.parse().unwrap();
                    let endpoint = Endpoint {
                        address: ip(address),
                        port,
                    };
                    Verdict::Delivered {
                        endpoint,
                        masqueraded,
                    }
                })
                .collect()
        }
    };
    assert_eq!(
        driver.oracle.verdicts(&packet, &host()),
        expected,
        "oracle, {packet}"
    );
    driver.compare(&[packet], &host());
}

const HTTP: (&str, Protocol, u16) = ("http", Protocol::Tcp, 80);

/// One Service with everything that leads to it.
fn balanced(cluster_ip: &str, node_port: u16, balancer: &str) -> Service {
    let ports = [("http", Protocol::Tcp, 80, node_port)];
    let mut service = service("svc1", ip(cluster_ip), &ports);
    service.load_balancer_ips.push(ip(balancer));
    service
}

#[test]
fn no_endpoints_reject() {
    let mut driver = cluster(config());
    let mut service = balanced("172.30.0.41", 3001, "1.2.3.4");
    service.external_ips.push(ip("192.168.99.11"));
    driver.change(Change::Service(service));
    for (from, to) in [
        (POD, "172.30.0.41:80"),
        (EXTERNAL, "192.168.99.11:80"),
        (POD, "192.168.0.2:3001"),
        (EXTERNAL, "192.168.0.2:3001"),
        (POD, "1.2.3.4:80"),
        (EXTERNAL, "1.2.3.4:80"),
        (NODE_IP, "172.30.0.41:80"),
        (NODE_IP, "192.168.0.2:3001"),
    ] {
        flow(&mut driver, from, to, "REJECT");
    }
    flow(&mut driver, EXTERNAL, "192.168.1.2:3001", "none");
}

#[test]
fn cluster_ip_general() {
    let mut driver = cluster(config());
    let first = service("svc1", ip("172.30.0.41"), &[("http", Protocol::Tcp, 80, 0)]);
    let second = service(
        "svc2",
        ip("172.30.0.42"),
        &[
            ("http", Protocol::Tcp, 80, 0),
            ("https", Protocol::Tcp, 443, 0),
            ("dns-udp", Protocol::Udp, 53, 0),
            ("dns-tcp", Protocol::Tcp, 53, 0),
            ("dns-sctp", Protocol::Sctp, 53, 0),
        ],
    );
    driver.change(Change::Service(first));
    driver.change(Change::Service(second));
    driver.change(endpoints(HTTP, "svc1", "10.180.0.1@L"));
    driver.change(Change::EndpointSlice(slice(
        "svc2",
        "svc2",
        &[
            ("http", Protocol::Tcp, 80),
            ("https", Protocol::Tcp, 8443),
            ("dns-udp", Protocol::Udp, 53),
            ("dns-tcp", Protocol::Tcp, 5353),
            ("dns-sctp", Protocol::Sctp, 53),
        ],
        [
            endpoint(ip("10.180.0.1"), Some(HERE)),
            endpoint(ip("10.180.2.1"), Some("there")),
        ],
    )));
    for (from, to, expected) in [
        ("10.180.0.2", "172.30.0.41:80", "10.180.0.1:80"),
        ("10.180.0.1", "172.30.0.41:80", "10.180.0.1:80 masq"),
        (
            "10.180.0.2",
            "172.30.0.42:80",
            "10.180.0.1:80 10.180.2.1:80",
        ),
        (
            "10.180.0.2",
            "172.30.0.42:443",
            "10.180.0.1:8443 10.180.2.1:8443",
        ),
        (
            "10.180.0.2",
            "172.30.0.42:53",
            "10.180.0.1:5353 10.180.2.1:5353",
        ),
        (
            "10.180.0.2",
            "udp 172.30.0.42:53",
            "10.180.0.1:53 10.180.2.1:53",
        ),
        (
            "10.180.0.2",
            "sctp 172.30.0.42:53",
            "10.180.0.1:53 10.180.2.1:53",
        ),
        ("10.180.0.2", "udp 172.30.0.42:80", "REJECT"),
        ("10.180.0.2", "172.30.0.41:443", "REJECT"),
        ("10.180.0.2", "172.30.0.50:80", "DROP"),
        (NODE_IP, "172.30.0.41:443", "REJECT"),
        (NODE_IP, "172.30.0.50:80", "DROP"),
        (EXTERNAL, "198.51.100.1:80", "none"),
    ] {
        flow(&mut driver, from, to, expected);
    }
    driver.change(Change::ServiceGone(name("svc1")));
    flow(&mut driver, POD, "172.30.0.41:80", "DROP");
    driver.change(Change::ServiceCidrGone("kubernetes".into()));
    flow(&mut driver, POD, "172.30.0.41:80", "none");
}

#[test]
fn node_ports() {
    let run = |addresses: NodePortAddresses, secondary: &str| {
        let mut driver = cluster(Config {
            node_port_addresses: addresses,
            ..config()
        });
        let ports = [("http", Protocol::Tcp, 80, 3001)];
        driver.change(Change::Service(service("svc1", ip("172.30.0.41"), &ports)));
        driver.change(endpoints(HTTP, "svc1", "10.180.0.1@? 10.180.2.1@L"));
        let both = "10.180.0.1:80 10.180.2.1:80";
        let both_masqueraded = "10.180.0.1:80 10.180.2.1:80 masq";
        flow(&mut driver, POD, "172.30.0.41:80", both);
        flow(&mut driver, EXTERNAL, "192.168.0.2:3001", both_masqueraded);
        flow(&mut driver, NODE_IP, "192.168.0.2:3001", both_masqueraded);
        flow(&mut driver, EXTERNAL, "192.168.1.2:3001", secondary);
        flow(&mut driver, NODE_IP, "127.0.0.1:3001", "none");
    };
    let both = "10.180.0.1:80 10.180.2.1:80 masq";
    let prefix = |text: &str| text.parse().unwrap();
    run(NodePortAddresses::PRIMARY, "none");
    run(NodePortAddresses::ALL, both);
    let prefixes = vec![
        prefix("192.168.0.0/24"),
        prefix("192.168.1.0/24"),
        prefix("2001:db8::/64"),
    ];
    run(NodePortAddresses::prefixes(prefixes), both);
    run(
        NodePortAddresses::prefixes(vec![prefix("192.168.0.0/24")]),
        "none",
    );
    // None of this family, or all: everywhere.
    run(
        NodePortAddresses::prefixes(vec![prefix("2001:db8::/64")]),
        both,
    );
    run(NodePortAddresses::prefixes(vec![prefix("0.0.0.0/0")]), both);
}

/// Parity LN-1 and LN-6: what is rejected at loopback addresses, with endpoints and without.
#[test]
fn node_ports_at_loopback_addresses() {
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    for (localhost_node_ports, rejected) in [
        (LocalhostNodePorts::Off, &[][..]),
        (LocalhostNodePorts::Proxied, &protocols[1..]),
        (LocalhostNodePorts::Rejected, &protocols[..]),
    ] {
        let mut driver = cluster(Config {
            localhost_node_ports,
            ..config()
        });
        let ports = protocols.map(|protocol| ("http", protocol, 80, 3001));
        driver.change(Change::Service(service("svc1", ip("172.30.0.41"), &ports)));
        let ports = protocols.map(|protocol| ("http", protocol, 80, 3002));
        driver.change(Change::Service(service("svc2", ip("172.30.0.42"), &ports)));
        let http = protocols.map(|protocol| ("http", protocol, 80));
        let one = endpoint(ip("10.180.0.1"), None);
        driver.change(Change::EndpointSlice(slice("svc1", "svc1", &http, [one])));
        driver.drain();
        for (protocol, port) in protocols
            .into_iter()
            .flat_map(|it| [(it, 3001), (it, 3002), (it, 9)])
        {
            let loopback = ip("127.0.0.1");
            let packet = Packet::local(loopback, loopback, protocol, port);
            let outcomes = driver.kernel.outcomes(&packet, &host());
            let verdicts: Vec<_> = outcomes.iter().map(|(it, _)| it.verdict).collect();
            let expected = if port != 9 && rejected.contains(&protocol) {
                Verdict::Rejected
            } else {
                Verdict::Untouched { masqueraded: false }
            };
            assert_eq!(verdicts, [expected], "{localhost_node_ports:?} {packet}");
            driver.compare(&[packet], &host());
        }
    }
}

#[test]
fn external_traffic_policy() {
    let both = "10.180.0.1:80 10.180.2.1:80";
    let both_masqueraded = "10.180.0.1:80 10.180.2.1:80 masq";
    let local = "10.180.2.1:80";
    for (from, to, with_local, with_cluster) in [
        (POD, "172.30.0.41:80", both, both),
        (POD, "192.168.99.11:80", both, both_masqueraded),
        (EXTERNAL, "192.168.99.11:80", local, both_masqueraded),
        (POD, "1.2.3.4:80", both, both_masqueraded),
        (EXTERNAL, "1.2.3.4:80", local, both_masqueraded),
        (POD, "192.168.0.2:3001", both, both_masqueraded),
        (EXTERNAL, "192.168.0.2:3001", local, both_masqueraded),
    ] {
        for (policy, expected) in [
            (TrafficPolicy::Local, with_local),
            (TrafficPolicy::Cluster, with_cluster),
        ] {
            let mut driver = cluster(config());
            let mut service = balanced("172.30.0.41", 3001, "1.2.3.4");
            service.external_ips.push(ip("192.168.99.11"));
            service.external_policy = policy;
            driver.change(Change::Service(service));
            driver.change(endpoints(HTTP, "svc1", "10.180.0.1@? 10.180.2.1@L"));
            flow(&mut driver, from, to, expected);
        }
    }
}

/// Feature gate `AllowServiceExternalIPs` is off.
#[test]
fn external_ips_that_are_not_allowed() {
    let mut driver = cluster(Config {
        external_ips: false,
        ..config()
    });
    let mut service = balanced("172.30.0.41", 3001, "1.2.3.4");
    // One of each that is an address of another kind as well.
    for address in ["192.168.99.11", "172.30.0.41", "1.2.3.4"] {
        service.external_ips.push(ip(address));
    }
    driver.change(Change::Service(service));
    driver.change(endpoints(HTTP, "svc1", "10.180.0.1@?"));
    for (to, expected) in [
        ("192.168.99.11:80", "none"),
        ("172.30.0.41:80", "10.180.0.1:80 masq"),
        ("1.2.3.4:80", "10.180.0.1:80 masq"),
        ("192.168.0.2:3001", "10.180.0.1:80 masq"),
    ] {
        flow(&mut driver, EXTERNAL, to, expected);
    }
    driver.change(endpoints(HTTP, "svc1", ""));
    flow(&mut driver, EXTERNAL, "192.168.99.11:80", "none");
    flow(&mut driver, EXTERNAL, "1.2.3.4:80", "REJECT");
}

#[test]
fn internal_traffic_policy() {
    use TrafficPolicy::{Cluster, Local};
    for (policy, pods, expected) in [
        (
            Cluster,
            "10.0.1.1@L 10.0.1.2@R 10.0.1.3@R",
            "10.0.1.1:80 10.0.1.2:80 10.0.1.3:80",
        ),
        (Local, "10.0.1.1@L 10.0.1.2@R 10.0.1.3@R", "10.0.1.1:80"),
        (
            Local,
            "10.0.1.1@L 10.0.1.2@L 10.0.1.3@R",
            "10.0.1.1:80 10.0.1.2:80",
        ),
        (Local, "10.0.1.1@R 10.0.1.2@R 10.0.1.3@R", "DROP"),
    ] {
        let mut driver = cluster(config());
        let mut service = service("svc1", ip("172.30.1.1"), &[("", Protocol::Tcp, 80, 0)]);
        service.internal_policy = policy;
        driver.change(Change::Service(service));
        driver.change(endpoints(("", Protocol::Tcp, 80), "svc1", pods));
        flow(&mut driver, POD, "172.30.1.1:80", expected);
        driver.change(Change::EndpointSliceGone(name("svc1")));
        flow(&mut driver, POD, "172.30.1.1:80", "REJECT");
    }
}

/// Endpoints as last number of the address, R ready, S serving and terminating, T terminating, and
/// the node.
fn conditions(text: &str) -> Change {
    let endpoints = text.split_whitespace().map(|word| {
        let (number, rest) = word.split_at(1);
        let (state, at) = rest.split_once('@').unwrap();
        let node = if at == "L" { HERE } else { "there" };
        let mut endpoint = endpoint(ip(&format!("10.0.1.{number}")), Some(node));
        endpoint.ready = state == "R";
        endpoint.serving = state != "T";
        endpoint.terminating = state != "R";
        endpoint
    });
    Change::EndpointSlice(slice("svc1", "svc1", &[("", Protocol::Tcp, 80)], endpoints))
}

#[test]
fn terminating_endpoints() {
    let addresses = |text: &str| match text {
        "REJECT" | "DROP" => text.to_owned(),
        numbers => numbers
            .split_whitespace()
            .map(|word| match word {
                "masq" => "masq".to_owned(),
                number => format!("10.0.1.{number}:80"),
            })
            .collect::<Vec<_>>()
            .join(" "),
    };
    use TrafficPolicy::{Cluster, Local};
    for (policy, endpoints, internal, external) in [
        (Local, "1R@L 2R@L 3S@L 4T@L 5R@R", "1 2 5", "1 2"),
        (Cluster, "1R@L 2R@L 3S@R 4T@R 5R@R", "1 2 5", "1 2 5 masq"),
        (Local, "2S@L 3S@L 4T@L 5R@R", "5", "2 3"),
        (Cluster, "2S@L 3S@L 4T@R 5S@R", "2 3 5", "2 3 5 masq"),
        (Local, "5S@R", "5", "DROP"),
        (Cluster, "5S@R", "5", "5 masq"),
        (Local, "5T@L 5T@R", "REJECT", "REJECT"),
        (Cluster, "5T@L 5T@R", "REJECT", "REJECT"),
    ] {
        let mut driver = cluster(config());
        let mut service = service("svc1", ip("172.30.1.1"), &[("", Protocol::Tcp, 80, 0)]);
        service.load_balancer_ips.push(ip("1.2.3.4"));
        service.external_policy = policy;
        driver.change(Change::Service(service));
        driver.change(conditions(endpoints));
        flow(&mut driver, POD, "172.30.1.1:80", &addresses(internal));
        flow(&mut driver, EXTERNAL, "1.2.3.4:80", &addresses(external));
        driver.change(Change::EndpointSliceGone(name("svc1")));
        flow(&mut driver, POD, "172.30.1.1:80", "REJECT");
        flow(&mut driver, EXTERNAL, "1.2.3.4:80", "REJECT");
    }
}

/// Packets that came under the rules of one configuration still find its rows.
#[test]
fn node_ports_move_between_addresses_without_loss() {
    let mut driver = cluster(config());
    let ports = [("http", Protocol::Tcp, 80, 3001)];
    driver.change(Change::Service(service("svc1", ip("172.30.0.41"), &ports)));
    driver.change(endpoints(HTTP, "svc1", "10.180.0.1@L"));
    driver.drain();
    for addresses in [
        NodePortAddresses::ALL,
        NodePortAddresses::PRIMARY,
        NodePortAddresses::ALL,
    ] {
        driver.now += Duration::from_millis(500);
        driver.reconfigure(Config {
            node_port_addresses: addresses,
            ..config()
        });
        driver.settle();
    }
    driver.drain();
    let packet = |to| Packet::arriving("eth0", ip(EXTERNAL), ip(to), Protocol::Tcp, 3001);
    let packets = [packet(NODE_IP), packet(SECONDARY_IP)];
    driver.compare(&packets, &host());
    driver.check_quiescence(&packets, &host());
    let (_, sets) = driver.inventory();
    assert!(sets.contains(&("nodeport-ips".to_owned(), 0)), "{sets:?}");
}
