//! The planner against the fake kernel.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::*;
use crate::fake::quiescence::{self, Windows};
use crate::fake::{Host, Kernel as Fake, Packet, Verdict};
use crate::object::{
    Algorithm, Endpoint, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use crate::plan::{BaseChain, ChainKind, Datum, Hook, Rule, Statement};

/// A planner with its kernel and a clock.
struct Bench {
    planner: Planner,
    kernel: Fake,
    now: Duration,
}

impl Bench {
    fn new(config: Config) -> Self {
        Self {
            planner: Planner::new(Family::Ipv4, config),
            kernel: Fake::new(),
            now: Duration::ZERO,
        }
    }

    /// Commits all there is, waiting only for classes to settle; gives the rows changed.
    fn settle(&mut self) -> usize {
        let limit = self.now + Duration::from_millis(900);
        self.run(limit)
    }

    /// As [`settle`](Self::settle), deferred deletions included.
    fn drain(&mut self) -> usize {
        self.run(Duration::MAX)
    }

    fn run(&mut self, limit: Duration) -> usize {
        let mut changed = 0;
        for _ in 0..1000 {
            self.now += Duration::from_micros(10);
            match self.planner.next(self.now) {
                Next::Commit(transaction) => {
                    assert_eq!(self.planner.next(self.now), Next::InFlight);
                    if let Err(error) = self.kernel.apply(&transaction, self.now) {
                        panic!("{error}\n{transaction:#?}");
                    }
                    let changes = transaction
                        .elements
                        .iter()
                        .filter(|c| !c.set.starts_with("state"));
                    changed += changes.map(|c| c.delete.len() + c.add.len()).sum::<usize>();
                    self.planner.committed(self.now);
                }
                Next::WaitUntil(time) if time <= limit => self.now = self.now.max(time),
                Next::WaitUntil(_) | Next::Idle => return changed,
                Next::InFlight => panic!("nothing is in flight"),
            }
        }
        panic!("no end");
    }

    fn apply(&mut self, change: Change) {
        self.planner.apply(change);
    }

    fn set(&self, name: &str) -> BTreeMap<Key, Datum> {
        let rows = self.kernel.rows(Family::Ipv4, name).into_iter();
        rows.map(|row| (row.key, row.datum)).collect()
    }

    /// Where connections from a pod of this node end.
    fn verdicts(&self, address: &str, port: u16) -> BTreeSet<String> {
        let source = "10.0.9.9".parse().unwrap();
        let address = address.parse().unwrap();
        let packet = Packet::arriving("pod", source, address, Protocol::Tcp, port);
        let outcomes = self.kernel.outcomes(&packet, &host());
        let outcomes = outcomes.into_iter().inspect(|(outcome, _)| {
            assert!(
                outcome.scratch == 0 || outcome.verdict == Verdict::Dropped,
                "{outcome:?}"
            );
        });
        outcomes
            .map(|(outcome, _)| outcome.verdict.to_string())
            .collect()
    }

    fn balances(&self, address: &str) -> Vec<String> {
        let verdicts = self.verdicts(address, 80).into_iter();
        verdicts
            .map(|v| v.trim_start_matches("delivered to ").to_owned())
            .collect()
    }

    /// No packet was lost or misled by any commit so far.
    fn check(&self) {
        let hold = Duration::from_millis(900);
        let windows = Windows {
            hold,
            settle: Duration::from_millis(4),
        };
        let sources = ["10.0.9.9", "203.0.113.2"].map(|source| source.parse().unwrap());
        let keys = quiescence::frontends(&self.kernel, Family::Ipv4);
        let packets = keys.into_iter().flat_map(|key| {
            sources.map(|source| match key {
                Key::Frontend {
                    address,
                    protocol,
                    port,
                } => Packet::arriving("eth0", source, address, protocol, port),
                Key::NodePort { protocol, port } => {
                    let node = "192.168.0.2".parse().unwrap();
                    Packet::arriving("eth0", source, node, protocol, port)
                }
                key => panic!("{key:?} is no frontend"),
            })
        });
        let packets: Vec<_> = packets.collect();
        let violations = quiescence::check(&self.kernel, windows, &packets, &host());
        assert!(violations.is_empty(), "{}", violations[0]);
        assert_eq!(
            quiescence::check_order(&self.kernel, Family::Ipv4, hold),
            []
        );
    }
}

fn host() -> Host {
    Host::new(["192.168.0.2".parse().unwrap()])
}

fn name(name: &str) -> ObjectName {
    ObjectName {
        namespace: "default".into(),
        name: name.into(),
    }
}

fn service(text: &str, ip: &str) -> Service {
    Service {
        name: name(text),
        created: Some(1),
        cluster_ips: smallvec![ip.parse().unwrap()],
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
    }
}

fn slice(text: &str, service: &str, addresses: &[&str]) -> Change {
    let endpoint = |address: &&str| Endpoint {
        address: address.trim_end_matches('@').parse().unwrap(),
        ready: true,
        serving: true,
        terminating: false,
        node: address.ends_with('@').then(|| "here".into()),
        zone_hints: smallvec![],
        node_hints: smallvec![],
        weight: 1,
    };
    Change::EndpointSlice(EndpointSlice {
        name: name(text),
        service: service.into(),
        ports: smallvec![SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 8080
        }],
        endpoints: addresses.iter().map(endpoint).collect(),
    })
}

fn config() -> Config {
    Config {
        node_name: "here".into(),
        ..Config::default()
    }
}

#[test]
fn a_service_is_balanced_and_its_change_costs_what_it_changes() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]));
    assert_eq!(bench.drain(), 5); // class, ClusterIP, frontend, two slots
    assert_eq!(
        bench.balances("10.96.0.1"),
        ["10.0.0.1:8080", "10.0.0.2:8080"]
    );

    // One endpoint for another: one slot.
    bench.apply(slice("web-a", "web", &["10.0.0.1", "10.0.0.3"]));
    assert_eq!(bench.drain(), 2);
    // Nothing new: nothing.
    bench.apply(slice("web-a", "web", &["10.0.0.3", "10.0.0.1"]));
    assert_eq!(bench.drain(), 0);
    // One more: class, slot, frontend.
    bench.apply(slice("web-a", "web", &["10.0.0.1", "10.0.0.3", "10.0.0.4"]));
    assert_eq!(bench.drain(), 1 + 1 + 2);
    // One less: hole, frontend; the tail later.
    bench.apply(slice("web-a", "web", &["10.0.0.3", "10.0.0.4"]));
    assert_eq!(bench.settle(), 2 + 2);
    assert_eq!(bench.drain(), 1);
    assert_eq!(
        bench.balances("10.96.0.1"),
        ["10.0.0.3:8080", "10.0.0.4:8080"]
    );

    bench.apply(Change::ServiceGone(name("web")));
    assert_eq!(bench.settle(), 2);
    assert_eq!(bench.drain(), 2);
    for set in ["services", "endpoints", "cluster-ips", "reject-services"] {
        assert!(bench.set(set).is_empty(), "{set}");
    }
    bench.check();
}

#[test]
fn a_service_without_endpoints_is_refused_on_all_its_frontends() {
    let mut bench = Bench::new(config());
    let mut web = service("web", "10.96.0.1");
    web.external_ips.push("192.0.2.1".parse().unwrap());
    web.load_balancer_ips.push("192.0.2.2".parse().unwrap());
    web.ports[0].node_port = 30_001;
    bench.apply(Change::Service(web));
    bench.drain();
    assert_eq!(bench.set("reject-services").len(), 3);
    assert_eq!(bench.set("reject-nodeports").len(), 1);
    // The refusal outlives the first endpoint.
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.settle();
    assert_eq!(bench.set("services").len(), 3);
    assert_eq!(bench.set("nodeports").len(), 1);
    assert_eq!(bench.set("reject-services").len(), 3);
    bench.drain();
    assert!(bench.set("reject-services").is_empty());
    assert!(bench.set("reject-nodeports").is_empty());
    // And is back with the last one's end, while its slot stays for a while.
    bench.apply(Change::EndpointSliceGone(name("web-a")));
    bench.settle();
    assert!(bench.set("services").is_empty());
    assert_eq!(bench.set("reject-services").len(), 3);
    assert_eq!(bench.set("endpoints").len(), 1);
    bench.drain();
    assert!(bench.set("endpoints").is_empty());
    bench.check();
}

#[test]
fn a_rejected_transaction_leaves_no_trace() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(slice("web-a", "web", &["10.0.0.1@", "10.0.0.2"]));
    bench.drain();
    bench.apply(slice(
        "web-a",
        "web",
        &["10.0.0.4@", "10.0.0.2", "10.0.0.3"],
    ));
    bench.apply(Change::Service(service("api", "10.96.0.2")));
    let mut previous = None;
    for _ in 0..3 {
        let Next::Commit(transaction) = bench.planner.next(bench.now) else {
            panic!("nothing to commit");
        };
        bench.planner.rejected(bench.now, None);
        let rows = transaction.rows();
        assert!(
            previous.is_none_or(|previous| previous == rows),
            "{transaction:#?}"
        );
        previous = Some(rows);
    }
    bench.drain();
    assert_eq!(
        bench.balances("10.96.0.1"),
        ["10.0.0.2:8080", "10.0.0.3:8080", "10.0.0.4:8080"]
    );
    assert_eq!(bench.set("hairpin-connections").len(), 1);
}

#[test]
fn the_older_service_owns_a_shared_address() {
    let mut bench = Bench::new(config());
    for (text, ip, created) in [("young", "10.96.0.1", 5), ("old", "10.96.0.2", 3)] {
        let mut service = service(text, ip);
        service.created = Some(created);
        service.external_ips.push("192.0.2.1".parse().unwrap());
        bench.apply(Change::Service(service));
    }
    bench.apply(slice("a", "young", &["10.0.0.1"]));
    bench.apply(slice("b", "old", &["10.0.0.2"]));
    bench.drain();
    let served = |bench: &Bench| bench.balances("192.0.2.1");
    assert_eq!(served(&bench), ["10.0.0.2:8080, masqueraded"]);
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(&*report.port.service.name, "young");
    bench.apply(Change::ServiceGone(name("old")));
    bench.drain();
    assert_eq!(served(&bench), ["10.0.0.1:8080, masqueraded"]);
    assert_eq!(bench.planner.reports(), []);
}

#[test]
fn node_ports_are_served_on_the_nodes_address() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Node(Node {
        name: "here".into(),
        addresses: smallvec![
            "192.168.0.2".parse().unwrap(),
            "192.168.1.2".parse().unwrap()
        ],
        pod_cidrs: smallvec![],
        zone: None,
    }));
    bench.drain();
    let listed: Vec<_> = bench.set("nodeport-ips").keys().copied().collect();
    assert_eq!(listed, [Key::Address("192.168.0.2".parse().unwrap())]);
}

#[test]
fn policy_local_keeps_external_clients_on_this_node() {
    let mut bench = Bench::new(Config {
        local: crate::config::LocalDetector::Cidr("10.0.0.0/8".parse().unwrap()),
        ..config()
    });
    let mut web = service("web", "10.96.0.1");
    web.load_balancer_ips.push("192.0.2.1".parse().unwrap());
    web.external_policy = TrafficPolicy::Local;
    web.internal_policy = TrafficPolicy::Local;
    bench.apply(Change::Service(web));
    bench.apply(slice("web-a", "web", &["10.0.0.1@", "10.0.0.2"]));
    bench.drain();
    let external = |bench: &Bench| -> Vec<String> {
        let [source, vip] = ["203.0.113.2", "192.0.2.1"].map(|ip| ip.parse().unwrap());
        let packet = Packet::arriving("eth0", source, vip, Protocol::Tcp, 80);
        let outcomes = bench.kernel.outcomes(&packet, &host()).into_iter();
        outcomes
            .map(|(outcome, _)| outcome.verdict.to_string())
            .collect()
    };
    assert_eq!(external(&bench), ["delivered to 10.0.0.1:8080"]);
    assert_eq!(
        bench.balances("192.0.2.1"),
        ["10.0.0.1:8080", "10.0.0.2:8080"]
    );
    assert_eq!(bench.balances("10.96.0.1"), ["10.0.0.1:8080"]);
    // None left here: silence, but pods still reach the others through the shortcut.
    bench.apply(slice("web-a", "web", &["10.0.0.3", "10.0.0.2"]));
    bench.drain();
    assert_eq!(external(&bench), ["dropped"]);
    assert_eq!(
        bench.balances("192.0.2.1"),
        ["10.0.0.2:8080", "10.0.0.3:8080"]
    );
    assert_eq!(bench.balances("10.96.0.1"), ["dropped"]);
    bench.apply(Change::EndpointSliceGone(name("web-a")));
    bench.drain();
    assert_eq!(external(&bench), ["rejected"]);
    assert!(bench.set("shortcuts").is_empty() && bench.set("endpoints").is_empty());
    bench.check();
}

#[test]
fn full_maps_are_replaced_while_changes_go_on() {
    let mut bench = Bench::new(Config {
        chunk: 300,
        ..config()
    });
    bench.drain();
    let add = |bench: &mut Bench, from: u32, to: u32| {
        for i in from..to {
            let (a, b) = (i / 250, i % 250 + 1);
            let text = format!("s{i}");
            bench.apply(Change::Service(service(&text, &format!("10.96.{a}.{b}"))));
            let endpoints = [format!("10.1.{a}.{b}"), format!("10.2.{a}.{b}")];
            bench.apply(slice(&text, &text, &[&endpoints[0], &endpoints[1]]));
        }
    };
    add(&mut bench, 0, 700);
    bench.drain();
    let sizes = |bench: &Bench| -> Vec<(Name, Option<u32>)> {
        let sets = bench.kernel.sets(Family::Ipv4).into_iter();
        sets.filter(|set| set.size.is_some())
            .map(|set| (set.name.clone(), set.size))
            .collect()
    };
    assert!(
        sizes(&bench).contains(&("endpoints-1".into(), Some(3072))),
        "{:?}",
        sizes(&bench)
    );
    add(&mut bench, 700, 1700);
    // Changes in the midst of it.
    for round in 0..40 {
        if let Next::Commit(transaction) = bench.planner.next(bench.now) {
            bench.kernel.apply(&transaction, bench.now).unwrap();
            bench.planner.committed(bench.now);
        }
        bench.now += Duration::from_millis(50);
        let text = format!("s{}", round * 17);
        bench.apply(slice(&text, &text, &["10.3.0.1", "10.3.0.2", "10.3.0.3"]));
    }
    bench.drain();
    assert_eq!(sizes(&bench).len(), 6, "{:?}", sizes(&bench));
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    assert_eq!(
        bench.balances("10.96.6.1"),
        ["10.1.6.1:8080", "10.2.6.1:8080"]
    );
    assert_eq!(
        bench.balances("10.96.0.18"),
        ["10.3.0.1:8080", "10.3.0.2:8080", "10.3.0.3:8080"]
    );
    assert_eq!(bench.planner.reports(), []);
}

#[test]
fn a_map_at_its_limit_refuses_by_name_and_serves_the_rest() {
    let mut bench = Bench::new(Config {
        max_rows: 3,
        ..config()
    });
    for (text, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2")] {
        bench.apply(Change::Service(service(text, ip)));
        bench.apply(slice(text, text, &["10.0.0.1", "10.0.0.2"]));
    }
    bench.drain();
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(
        (&*report.port.service.name, &report.reason),
        ("b", &Reason::MapFull { map: "endpoints" })
    );
    assert_eq!(bench.balances("10.96.0.1").len(), 2);
    bench.apply(Change::ServiceGone(name("a")));
    bench.drain();
    assert_eq!(bench.planner.reports(), []);
    assert_eq!(bench.balances("10.96.0.2").len(), 2);
    bench.check();
}

/// A table like kube-proxy's: names in common, others besides, one base chain at another priority.
fn foreign_table(kernel: &mut Fake) -> Inventory {
    let base = |name: &str, kind, hook, priority| Chain {
        name: name.into(),
        base: Some(BaseChain {
            kind,
            hook,
            priority,
        }),
    };
    let regular = |name: &str| Chain {
        name: name.into(),
        base: None,
    };
    let chains = vec![
        regular("services"),
        regular("service-X/web"),
        regular("internal-2"),
        base("nat-prerouting", ChainKind::Nat, Hook::Prerouting, -90),
        base("filter-input", ChainKind::Filter, Hook::Input, 0),
        base("filter-old", ChainKind::Filter, Hook::Forward, 5),
    ];
    let jump = |chain: &str, to: &str| Rule {
        chain: chain.into(),
        statements: vec![Statement::Jump(to.into())],
        comment: None,
    };
    let set = crate::plan::Set {
        name: "cluster-ips".into(),
        key: crate::plan::KeyType::Address,
        data: crate::plan::DataType::None,
        interval: false,
        dynamic: false,
        size: None,
    };
    let transaction = Transaction {
        add_table: true,
        add_sets: vec![set],
        add_chains: chains.clone(),
        add_rules: vec![
            jump("services", "service-X/web"),
            jump("nat-prerouting", "services"),
        ],
        ..Transaction::new(Family::Ipv4)
    };
    kernel.apply(&transaction, Duration::ZERO).unwrap();
    Inventory {
        chains,
        sets: vec!["cluster-ips".into()],
    }
}

#[test]
fn a_foreign_table_is_taken_over() {
    let mut bench = Bench::new(Config {
        chunk: 4,
        ..config()
    });
    let found = foreign_table(&mut bench.kernel);
    bench.planner.rebuild(found);
    for i in 1..9 {
        bench.apply(Change::Service(service(
            &format!("s{i}"),
            &format!("10.96.0.{i}"),
        )));
        bench.apply(slice(
            &format!("s{i}"),
            &format!("s{i}"),
            &["10.0.0.1", "10.0.0.2"],
        ));
    }
    bench.drain();
    let chains: Vec<_> = bench.kernel.chains(Family::Ipv4);
    let names: Vec<&str> = chains.iter().map(|(name, _)| &**name).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.contains('/') || *name == "filter-old"),
        "{names:?}"
    );
    assert!(
        names.contains(&"internal-2-1") && !names.contains(&"internal-2"),
        "{names:?}"
    );
    let priority = chains
        .iter()
        .find(|(name, _)| &**name == "nat-prerouting")
        .unwrap()
        .1;
    assert_eq!(priority.unwrap().priority, -100);
    assert_eq!(bench.set("cluster-ips-1").len(), 8);
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    assert_eq!(bench.balances("10.96.0.8").len(), 2);

    // And once more, beside our own.
    let found = Inventory {
        chains: chains
            .into_iter()
            .map(|(name, base)| Chain { name, base })
            .collect(),
        sets: bench
            .kernel
            .sets(Family::Ipv4)
            .iter()
            .map(|set| set.name.clone())
            .collect(),
    };
    bench.kernel.forget_history();
    bench.planner.rebuild(found);
    bench.drain();
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    assert_eq!(bench.set("cluster-ips-2").len(), 8);
    assert_eq!(bench.balances("10.96.0.8").len(), 2);
    bench.check();
}

#[test]
fn an_offender_is_set_aside_until_it_changes() {
    let mut bench = Bench::new(config());
    bench.drain();
    for (text, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2")] {
        bench.apply(Change::Service(service(text, ip)));
        bench.apply(slice(text, text, &["10.0.0.1"]));
    }
    bench.settle();
    bench.apply(slice("a", "a", &["10.0.0.3"]));
    bench.apply(slice("b", "b", &["10.0.0.3"]));
    let Next::Commit(transaction) = bench.planner.next(bench.now) else {
        panic!("nothing to commit");
    };
    let change = &transaction.elements[0];
    assert_eq!(&*change.set, "endpoints");
    let offender = bench.planner.owner(&change.delete[0]).unwrap();
    bench.planner.rejected(bench.now, Some(&offender));
    bench.drain();
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(
        (&report.port, &report.reason),
        (&offender, &Reason::SetAside)
    );
    let moved = ["10.96.0.1", "10.96.0.2"].map(|ip| bench.balances(ip) == ["10.0.0.3:8080"]);
    assert_eq!(moved.iter().filter(|moved| **moved).count(), 1);
    let text = offender.service.name;
    bench.apply(slice(&text, &text, &["10.0.0.4"]));
    bench.drain();
    assert_eq!(bench.planner.reports(), []);
}

#[test]
fn restricted_load_balancer_addresses_stay_closed() {
    let mut bench = Bench::new(config());
    let mut web = service("web", "10.96.0.1");
    web.load_balancer_ips.push("192.0.2.1".parse().unwrap());
    web.source_ranges.push("203.0.113.0/24".parse().unwrap());
    bench.apply(Change::Service(web.clone()));
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.drain();
    assert_eq!(bench.verdicts("192.0.2.1", 80), ["untouched".into()].into());
    assert_eq!(bench.balances("10.96.0.1"), ["10.0.0.1:8080"]);
    assert_eq!(bench.planner.reports()[0].reason, Reason::SourceRanges);
    web.source_ranges.push("0.0.0.0/0".parse().unwrap());
    bench.apply(Change::Service(web));
    bench.drain();
    assert_eq!(bench.balances("192.0.2.1"), ["10.0.0.1:8080, masqueraded"]);
    assert_eq!(bench.planner.reports(), []);
}

#[test]
fn without_classes_left_a_service_is_balanced_over_some_of_its_endpoints() {
    let mut bench = Bench::new(Config {
        max_classes: 34,
        ..config()
    });
    bench.drain();
    let addresses: Vec<String> = (1..=40).map(|i| format!("10.0.0.{i}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(|address| &**address).collect();
    for count in 1..=40 {
        let text = format!("s{count}");
        bench.apply(Change::Service(service(&text, &format!("10.96.0.{count}"))));
        bench.apply(slice(&text, &text, &addresses[..count]));
        bench.drain();
    }
    assert_eq!(bench.planner.classes(), 32);
    let reports = bench.planner.reports();
    assert_eq!(reports.len(), 8);
    for report in reports {
        let count: u32 = report.port.service.name[1..].parse().unwrap();
        assert_eq!(report.reason, Reason::NoClass { slots: count });
        assert_eq!(bench.balances(&format!("10.96.0.{count}")).len(), 32);
    }
    // Small shapes still have numbers; and what becomes free is used.
    bench.apply(slice("s40", "s40", &[]));
    let mut web = service("web", "10.96.1.1");
    web.external_ips.push("192.0.2.1".parse().unwrap());
    bench.apply(Change::Service(web));
    bench.apply(slice("web", "web", &["10.0.0.1"]));
    bench.drain();
    assert_eq!(bench.balances("192.0.2.1").len(), 1);
    assert_eq!(bench.planner.classes(), 33);
}

#[test]
fn a_restart_over_an_unchanged_table_changes_nothing_and_finishes_what_was_due() {
    let mut bench = Bench::new(config());
    let objects = |bench: &mut Bench, last: &[&str]| {
        for i in 1..6 {
            let text = format!("s{i}");
            let mut web = service(&text, &format!("10.96.0.{i}"));
            web.load_balancer_ips
                .push(format!("192.0.2.{i}").parse().unwrap());
            web.external_policy = TrafficPolicy::Local;
            web.ports[0].node_port = 30_000 + i;
            bench.apply(Change::Service(web));
        }
        for (i, endpoints) in [&["10.0.0.1@", "10.0.0.2"][..], &["10.0.0.3"], &[], last]
            .iter()
            .enumerate()
        {
            let text = format!("s{}", i + 1);
            bench.apply(slice(&text, &text, endpoints));
        }
    };
    objects(&mut bench, &["10.0.0.5", "10.0.0.6@", "10.0.0.7"]);
    bench.drain();
    // Leave deletions due: a tail, and a reject row.
    let last = &["10.0.0.5", "10.0.0.6@"];
    bench.apply(slice("s4", "s4", last));
    bench.settle();
    let snapshot = bench.planner.snapshot().unwrap();
    let text = serde_json::to_string(&snapshot).unwrap();
    let read: Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(read, snapshot);
    assert_eq!(
        read.state(),
        *bench.set(&read.state_set()).keys().next().unwrap()
    );
    let restart = |bench: &mut Bench| {
        let read = serde_json::from_str(&text).unwrap();
        bench.planner = Planner::restore(config(), read, bench.now).unwrap();
    };

    restart(&mut bench);
    objects(&mut bench, last);
    assert_eq!(bench.settle(), 0);
    assert_eq!(bench.planner.snapshot().unwrap(), snapshot);
    // The tail goes as if nothing had happened.
    let (before, due) = (bench.set("endpoints").len(), bench.drain());
    assert_eq!((before - bench.set("endpoints").len(), due), (1, 1));
    bench.check();

    // Nobody comes back: everything goes.
    let snapshot = bench.planner.snapshot().unwrap();
    bench.planner = Planner::restore(config(), snapshot, bench.now).unwrap();
    bench.drain();
    for set in [
        "services",
        "nodeports",
        "endpoints",
        "shortcuts",
        "reject-services",
        "cluster-ips",
    ] {
        assert!(bench.set(set).is_empty(), "{set}: {:?}", bench.set(set));
    }
    assert!(bench.set("hairpin-connections").is_empty());
    bench.check();
}

#[test]
fn contradicting_snapshots_are_refused() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(slice("web", "web", &["10.0.0.1@"]));
    bench.drain();
    let saved = serde_json::to_value(bench.planner.snapshot().unwrap()).unwrap();
    let restore = |edit: fn(&mut serde_json::Value)| {
        let mut saved = saved.clone();
        edit(&mut saved);
        Planner::restore(
            config(),
            serde_json::from_value(saved).unwrap(),
            Duration::ZERO,
        )
    };
    assert!(restore(|_| {}).is_ok());
    let edits: [fn(&mut serde_json::Value); 6] = [
        |saved| saved["version"] = 999.into(),
        |saved| saved["sets"] = serde_json::json!([]),
        |saved| saved["classes"] = serde_json::json!([]),
        |saved| saved["groups"] = serde_json::json!([]),
        |saved| saved["hairpins"] = serde_json::json!([]),
        |saved| saved["cluster_ips"] = serde_json::json!(["fd00::1"]),
    ];
    for edit in edits {
        assert!(restore(edit).is_err());
    }
}
