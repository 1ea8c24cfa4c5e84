//! What is told of listeners.

use super::*;
use crate::config::{LocalhostNodePorts, NodePortAddresses};
use crate::listeners::{HealthCheck, ListenOn, ListenerChanges, LocalhostPort};
use crate::report::PortName;

/// Commits what there is and takes what is told.
fn told(bench: &mut Bench) -> ListenerChanges {
    bench.settle();
    bench.planner.take_listener_changes().unwrap()
}

fn balanced(text: &str, ip: &str, health: u16) -> Service {
    Service {
        external_policy: TrafficPolicy::Local,
        health_check_node_port: health,
        load_balancer_ips: smallvec!["192.0.2.1".parse().unwrap()],
        ..service(text, ip)
    }
}

fn health(text: &str, port: u16, local_endpoints: usize) -> (ObjectName, Option<HealthCheck>) {
    let check = HealthCheck {
        port,
        local_endpoints,
        uid: None,
    };
    (name(text), Some(check))
}

#[test]
fn counts_follow_endpoints_and_nothing_else_is_told() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32000)));
    bench.apply(Change::Service(service("other", "10.96.0.2")));
    assert_eq!(told(&mut bench).health, [health("web", 32000, 0)]);
    assert!(told(&mut bench).is_empty());

    // Two on this node, one of them in two slices, one elsewhere.
    bench.apply(slice(
        "web-1",
        "web",
        &["10.0.0.1@", "10.0.0.2@", "10.0.0.3"],
    ));
    bench.apply(slice("web-2", "web", &["10.0.0.2@"]));
    bench.apply(slice("other-1", "other", &["10.0.0.1@"]));
    assert_eq!(told(&mut bench).health, [health("web", 32000, 2)]);

    bench.apply(slice("other-1", "other", &["10.0.0.4@"]));
    assert!(told(&mut bench).is_empty());
    bench.apply(Change::EndpointSliceGone(name("web-1")));
    assert_eq!(told(&mut bench).health, [health("web", 32000, 1)]);
}

/// Parity U11: those that are not ready do not count, whether they serve or not.
#[test]
fn terminating_endpoints_do_not_count() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32000)));
    let Change::EndpointSlice(mut object) = slice("web-1", "web", &["10.0.0.1@", "10.0.0.2@"])
    else {
        unreachable!()
    };
    object.endpoints[0].ready = false;
    object.endpoints[0].terminating = true;
    bench.apply(Change::EndpointSlice(object.clone()));
    assert_eq!(told(&mut bench).health, [health("web", 32000, 1)]);
    object.endpoints[1] = Endpoint {
        address: "10.0.0.2".parse().unwrap(),
        ..object.endpoints[0].clone()
    };
    bench.apply(Change::EndpointSlice(object));
    assert_eq!(told(&mut bench).health, [health("web", 32000, 0)]);
}

/// What counts of an endpoint that a slice has twice counts here, too.
#[test]
fn duplicates_count_as_they_are_served() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32000)));
    let twice = slice("web-1", "web", &["10.0.0.1@", "10.0.0.1@", "10.0.0.2@"]);
    let Change::EndpointSlice(mut object) = twice else {
        unreachable!()
    };
    bench.apply(Change::EndpointSlice(object.clone()));
    assert_eq!(told(&mut bench).health, [health("web", 32000, 2)]);
    object.endpoints[1].ready = false;
    bench.apply(Change::EndpointSlice(object));
    assert_eq!(told(&mut bench).health, [health("web", 32000, 1)]);
}

#[test]
fn health_checks_come_move_and_go() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32000)));
    told(&mut bench);
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32001)));
    assert_eq!(told(&mut bench).health, [health("web", 32001, 0)]);
    // Policy Cluster has none.
    let cluster = Service {
        external_policy: TrafficPolicy::Cluster,
        ..balanced("web", "10.96.0.1", 32001)
    };
    bench.apply(Change::Service(cluster));
    assert_eq!(told(&mut bench).health, [(name("web"), None)]);
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32001)));
    assert_eq!(told(&mut bench).health, [health("web", 32001, 0)]);
    bench.apply(Change::ServiceGone(name("web")));
    assert_eq!(told(&mut bench).health, [(name("web"), None)]);
    // Gone and back between two looks.
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32001)));
    told(&mut bench);
    bench.apply(Change::ServiceGone(name("web")));
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32002)));
    assert_eq!(told(&mut bench).health, [health("web", 32002, 0)]);
    bench.apply(Change::ServiceGone(name("web")));
    bench.apply(Change::Service(service("new", "10.96.0.7")));
    assert_eq!(told(&mut bench).health, [(name("web"), None)]);
}

#[test]
fn nothing_is_told_before_it_is_in_force() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(balanced("web", "10.96.0.1", 32000)));
    assert_eq!(bench.planner.take_listener_changes(), None);
    assert!(matches!(bench.planner.next(bench.now), Next::Commit(_)));
    assert_eq!(bench.planner.take_listener_changes(), None);
}

#[test]
fn addresses_follow_the_node() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    let listed = |addresses: &[&str]| {
        let addresses = addresses.iter().map(|it| it.parse().unwrap());
        Some(ListenOn::Listed(addresses.collect()))
    };
    assert_eq!(told(&mut bench).addresses, listed(&[]));
    let node = |address: &str| {
        Change::Node(Node {
            name: "here".into(),
            addresses: smallvec![address.parse().unwrap()],
            pod_cidrs: smallvec![],
            zone: None,
            eligible: true,
        })
    };
    bench.apply(node("192.168.0.2"));
    assert_eq!(told(&mut bench).addresses, listed(&["192.168.0.2"]));
    bench.apply(node("192.168.0.2"));
    assert_eq!(told(&mut bench).addresses, None);
    bench.apply(node("192.168.0.3"));
    assert_eq!(told(&mut bench).addresses, listed(&["192.168.0.3"]));
    bench.planner.reconfigure(Config {
        node_port_addresses: NodePortAddresses::ALL,
        ..config()
    });
    assert_eq!(told(&mut bench).addresses, Some(ListenOn::All));
    for (prefix, expected) in [
        ("127.0.0.0/8", listed(&["127.0.0.1"])),
        ("127.1.0.0/16", listed(&[])),
        ("::1/128", Some(ListenOn::All)),
    ] {
        bench.planner.reconfigure(Config {
            node_port_addresses: NodePortAddresses::prefixes(vec![prefix.parse().unwrap()]),
            ..config()
        });
        assert_eq!(told(&mut bench).addresses, expected, "{prefix}");
    }
    bench.planner.reconfigure(Config {
        node_port_addresses: NodePortAddresses {
            localhost: true,
            ..NodePortAddresses::PRIMARY
        },
        ..config()
    });
    let both = listed(&["127.0.0.1", "192.168.0.3"]);
    assert_eq!(told(&mut bench).addresses, both);
    assert_eq!(told(&mut bench).addresses, None);
}

fn node_port(text: &str, ip: &str, number: u16) -> Service {
    let mut service = service(text, ip);
    service.ports[0].node_port = number;
    service
}

fn localhost(text: &str, endpoints: &[&str], affinity: Option<u32>) -> Option<LocalhostPort> {
    Some(LocalhostPort {
        port: PortName {
            service: name(text),
            port: "http".into(),
            protocol: Protocol::Tcp,
        },
        endpoints: endpoints.iter().map(|it| it.parse().unwrap()).collect(),
        affinity,
    })
}

#[test]
fn node_ports_at_loopback_addresses() {
    let mut bench = Bench::new(Config {
        localhost_node_ports: LocalhostNodePorts::Proxied,
        ..config()
    });
    bench.apply(Change::Service(node_port("web", "10.96.0.1", 30080)));
    bench.apply(Change::Service(service("other", "10.96.0.2")));
    assert_eq!(told(&mut bench).localhost, [(30080, None)]);
    bench.apply(slice("web-1", "web", &["10.0.0.1@", "10.0.0.2"]));
    let both = &["10.0.0.1:8080", "10.0.0.2:8080"];
    assert_eq!(
        told(&mut bench).localhost,
        [(30080, localhost("web", both, None))]
    );
    bench.apply(slice("other-1", "other", &["10.0.0.3"]));
    assert!(told(&mut bench).is_empty());

    let local = Service {
        external_policy: TrafficPolicy::Local,
        affinity: Some(60),
        ..node_port("web", "10.96.0.1", 30080)
    };
    bench.apply(Change::Service(local));
    let here = localhost("web", &["10.0.0.1:8080"], Some(60));
    assert_eq!(told(&mut bench).localhost, [(30080, here)]);

    // A port that moves, and one that another Service takes over.
    bench.apply(Change::Service(node_port("web", "10.96.0.1", 30081)));
    let moved = told(&mut bench).localhost;
    assert_eq!(
        moved,
        [(30080, None), (30081, localhost("web", both, None))]
    );
    bench.apply(Change::Service(Service {
        created: Some(9),
        ..node_port("other", "10.96.0.2", 30081)
    }));
    told(&mut bench);
    bench.apply(Change::ServiceGone(name("web")));
    let taken = localhost("other", &["10.0.0.3:8080"], None);
    assert_eq!(told(&mut bench).localhost, [(30081, taken)]);
    bench.apply(Change::ServiceGone(name("other")));
    assert_eq!(told(&mut bench).localhost, [(30081, None)]);
}

#[test]
fn the_gate_opens_and_closes() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(node_port("web", "10.96.0.1", 30080)));
    bench.apply(slice("web-1", "web", &["10.0.0.1"]));
    assert_eq!(told(&mut bench).localhost, []);
    let gate = |localhost_node_ports| Config {
        localhost_node_ports,
        ..config()
    };
    bench.planner.reconfigure(gate(LocalhostNodePorts::Proxied));
    let served = localhost("web", &["10.0.0.1:8080"], None);
    assert_eq!(told(&mut bench).localhost, [(30080, served)]);
    bench
        .planner
        .reconfigure(gate(LocalhostNodePorts::Rejected));
    assert_eq!(told(&mut bench).localhost, [(30080, None)]);
}
