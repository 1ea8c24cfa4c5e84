//! What is told of flows.

use super::*;
use crate::flows::{FlowChanges, Frontend, Served};

const NODE_PORT: u16 = 30_053;

/// The Service `dns` with a UDP and a TCP port, both with a node port.
fn dns(external_ips: &[&str]) -> Change {
    let mut dns = service("dns", "10.96.0.10");
    let port = |protocol| ServicePort {
        name: "http".into(),
        protocol,
        port: 53,
        node_port: NODE_PORT,
    };
    dns.ports = smallvec![port(Protocol::Udp), port(Protocol::Tcp)];
    dns.external_ips = external_ips.iter().map(|ip| ip.parse().unwrap()).collect();
    Change::Service(dns)
}

/// A slice of it; endpoints marked `-` are terminating, those marked `!` do not serve.
fn dns_slice(text: &str, addresses: &[&str]) -> Change {
    let plain: Vec<_> = addresses
        .iter()
        .map(|it| it.trim_end_matches(['-', '!']))
        .collect();
    let Change::EndpointSlice(mut slice) = slice(text, "dns", &plain) else {
        panic!("a slice is a slice");
    };
    slice.ports = [Protocol::Udp, Protocol::Tcp]
        .map(|protocol| SlicePort {
            name: "http".into(),
            protocol,
            port: 5353,
        })
        .into_iter()
        .collect();
    for (endpoint, mark) in slice.endpoints.iter_mut().zip(addresses) {
        endpoint.terminating = mark.ends_with('-');
        endpoint.serving = !mark.ends_with('!');
        endpoint.ready = endpoint.serving && !endpoint.terminating;
    }
    Change::EndpointSlice(slice)
}

fn frontend(address: &str, protocol: Protocol) -> Frontend {
    Frontend {
        address: Some(address.parse().unwrap()),
        protocol,
        port: 53,
    }
}

fn node_port(protocol: Protocol) -> Frontend {
    Frontend {
        address: None,
        protocol,
        port: NODE_PORT,
    }
}

/// Frontends with the last byte of each endpoint's address.
fn serving(changes: &FlowChanges) -> BTreeMap<Frontend, Vec<u8>> {
    let last = |served: &Served| -> Vec<u8> { served.by.iter().map(last_byte).collect() };
    let serving = changes.serving.iter();
    serving.map(|(key, list)| (*key, last(list))).collect()
}

fn gone(changes: &FlowChanges) -> BTreeMap<Frontend, Vec<u8>> {
    let gone = changes.gone.iter();
    gone.map(|(key, list)| (*key, list.iter().map(last_byte).collect()))
        .collect()
}

fn last_byte(endpoint: &core::net::SocketAddr) -> u8 {
    assert_eq!(endpoint.port(), 5353);
    match endpoint.ip() {
        core::net::IpAddr::V4(ip) => ip.octets()[3],
        core::net::IpAddr::V6(ip) => panic!("{ip}"),
    }
}

impl Bench {
    /// Applies, commits, and gives what is told then.
    fn told(&mut self, changes: impl IntoIterator<Item = Change>) -> FlowChanges {
        changes.into_iter().for_each(|change| self.apply(change));
        self.settle();
        self.planner.take_flow_changes().unwrap()
    }
}

fn serving_bench() -> Bench {
    let mut bench = Bench::new(config());
    let node = Change::Node(Node {
        name: "here".into(),
        addresses: smallvec!["192.168.0.2".parse().unwrap()],
        pod_cidrs: smallvec![],
        zone: None,
        eligible: true,
    });
    assert_eq!(bench.planner.take_flow_changes(), None);
    let told = bench.told([node, dns(&[]), dns_slice("a", &["10.0.0.1", "10.0.0.2"])]);
    let all = [
        frontend("10.96.0.10", Protocol::Udp),
        node_port(Protocol::Udp),
    ];
    let all: BTreeMap<_, _> = all.into_iter().map(|it| (it, vec![1, 2])).collect();
    assert_eq!(serving(&told), all);
    let at_cluster_ip = told.serving.iter().filter(|(_, it)| it.at_cluster_ip);
    assert!(
        at_cluster_ip
            .map(|(key, _)| key)
            .eq([&frontend("10.96.0.10", Protocol::Udp)])
    );
    let mut appeared = told.appeared;
    appeared.sort_unstable();
    let tcp = [
        node_port(Protocol::Tcp),
        frontend("10.96.0.10", Protocol::Tcp),
    ];
    assert_eq!(appeared, tcp);
    assert_eq!(told.node_ports, Some(vec!["192.168.0.2".parse().unwrap()]));
    assert_eq!(told.gone, []);
    bench
}

#[test]
fn endpoints_that_serve_are_told_once() {
    let mut bench = serving_bench();
    assert!(bench.told([]).is_empty());
    // Moved to another slice, in both, and in other order.
    let both = [
        dns_slice("a", &["10.0.0.2"]),
        dns_slice("b", &["10.0.0.1", "10.0.0.2"]),
    ];
    assert!(bench.told(both).is_empty());
    let moved = [Change::EndpointSliceGone(name("a"))];
    assert!(bench.told(moved).is_empty());
    // Terminating, but it serves: connections to it go on.
    assert!(
        bench
            .told([dns_slice("b", &["10.0.0.1-", "10.0.0.2"])])
            .is_empty()
    );

    let key = frontend("10.96.0.10", Protocol::Udp);
    for (endpoints, expected) in [
        (&["10.0.0.1!", "10.0.0.2"][..], &[2][..]),
        (&[], &[]),
        (&["10.0.0.9"], &[9]),
    ] {
        let told = bench.told([dns_slice("b", endpoints)]);
        assert_eq!(serving(&told)[&key], expected);
        assert_eq!(serving(&told)[&node_port(Protocol::Udp)], expected);
        assert_eq!(gone(&told), BTreeMap::new());
    }
}

#[test]
fn frontends_come_and_go() {
    let mut bench = serving_bench();
    let told = bench.told([dns(&["192.0.2.1"])]);
    let external = frontend("192.0.2.1", Protocol::Udp);
    assert_eq!(serving(&told)[&external], [1, 2]);
    assert_eq!(told.appeared, [frontend("192.0.2.1", Protocol::Tcp)]);

    let told = bench.told([dns(&[])]);
    assert_eq!(gone(&told), BTreeMap::from([(external, vec![1, 2])]));
    assert_eq!(told.appeared, []);
    // Away and back at once: it was never gone.
    let told = bench.told([Change::ServiceGone(name("dns")), dns(&[])]);
    assert_eq!(gone(&told), BTreeMap::new());

    let told = bench.told([Change::ServiceGone(name("dns"))]);
    let all = [
        frontend("10.96.0.10", Protocol::Udp),
        node_port(Protocol::Udp),
    ];
    assert_eq!(
        gone(&told),
        all.into_iter().map(|it| (it, vec![1, 2])).collect()
    );
    assert!(bench.told([]).is_empty());
}

#[test]
fn a_frontend_that_changes_hands_is_served_by_its_new_owner() {
    let mut bench = serving_bench();
    bench.told([dns(&["192.0.2.1"])]);
    let mut rival = service("rival", "10.96.0.11");
    rival.created = Some(0);
    rival.ports[0].protocol = Protocol::Udp;
    rival.ports[0].port = 53;
    rival.external_ips = smallvec!["192.0.2.1".parse().unwrap()];
    let told = bench.told([Change::Service(rival)]);
    let external = frontend("192.0.2.1", Protocol::Udp);
    assert_eq!(serving(&told)[&external], [0_u8; 0]);
    let told = bench.told([Change::ServiceGone(name("rival"))]);
    assert_eq!(serving(&told)[&external], [1, 2]);
    assert!(
        gone(&told)
            .keys()
            .all(|key| key.address != external.address)
    );
}

#[test]
fn what_was_rejected_is_told_when_it_is_in_force() {
    let mut bench = serving_bench();
    bench.apply(dns_slice("a", &["10.0.0.3"]));
    let Next::Commit(_) = bench.planner.next(bench.now) else {
        panic!("nothing to commit");
    };
    assert_eq!(bench.planner.take_flow_changes(), None);
    bench.planner.rejected(bench.now, &[]);
    assert!(bench.planner.take_flow_changes().unwrap().is_empty());
    let told = bench.told([]);
    assert_eq!(serving(&told)[&frontend("10.96.0.10", Protocol::Udp)], [3]);
}

#[test]
fn a_restart_tells_everything_and_what_is_gone_meanwhile() {
    let mut bench = serving_bench();
    bench.told([dns(&["192.0.2.1"])]);
    let snapshot = bench.planner.snapshot().unwrap();
    bench.planner = Planner::restore(config(), snapshot, bench.now).unwrap();
    let told = bench.told([dns(&[]), dns_slice("a", &["10.0.0.2", "10.0.0.3"])]);
    assert_eq!(
        serving(&told)[&frontend("10.96.0.10", Protocol::Udp)],
        [2, 3]
    );
    let external = frontend("192.0.2.1", Protocol::Udp);
    assert_eq!(gone(&told), BTreeMap::from([(external, vec![1, 2])]));
    // Connections were led away from the others before.
    assert_eq!(told.appeared, []);
}

#[test]
fn after_damage_everything_is_told_again() {
    let mut bench = serving_bench();
    bench.kernel = Fake::new();
    bench.planner.rebuild(Inventory::default());
    let told = bench.told([]);
    assert_eq!(serving(&told).len(), 2);
    assert_eq!(told.appeared.len(), 2);
}

#[test]
fn sctp_is_told_only_if_so_configured() {
    for sctp in [false, true] {
        let mut bench = Bench::new(Config {
            reconcile_sctp: sctp,
            ..config()
        });
        let mut web = service("web", "10.96.0.1");
        web.ports[0].protocol = Protocol::Sctp;
        let told = bench.told([Change::Service(web)]);
        assert_eq!(told.serving.len(), usize::from(sctp));
        assert_eq!(told.appeared, []);
        let told = bench.told([Change::ServiceGone(name("web"))]);
        assert_eq!(told.gone.len(), usize::from(sctp));
    }
}
