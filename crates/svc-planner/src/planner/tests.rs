//! The planner against rows alone: every deletion must find its row, every addition a free key.

use std::collections::BTreeMap;

use smallvec::smallvec;

use super::*;
use crate::object::{
    Algorithm, Endpoint, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use crate::plan::Route;

/// Rows by set, and chains.
#[derive(Debug, Default)]
struct Rows {
    sets: BTreeMap<Name, BTreeMap<Key, Datum>>,
    chains: BTreeMap<Name, usize>,
}

impl Rows {
    fn apply(&mut self, transaction: &Transaction) {
        for name in transaction.flush_chains.iter() {
            *self.chains.get_mut(name).unwrap() = 0;
        }
        for set in &transaction.add_sets {
            assert!(
                self.sets
                    .insert(set.name.clone(), BTreeMap::new())
                    .is_none()
            );
        }
        for chain in &transaction.add_chains {
            assert!(
                self.chains.insert(chain.name.clone(), 0).is_none(),
                "{}",
                chain.name
            );
        }
        for change in &transaction.elements {
            let rows = self.sets.get_mut(&change.set).unwrap();
            for key in &change.delete {
                assert!(rows.remove(key).is_some(), "no {key:?} in {}", change.set);
            }
            for row in &change.add {
                let before = rows.insert(row.key, row.datum.clone());
                assert_eq!(before, None, "{:?} in {}", row.key, change.set);
            }
        }
        for rule in &transaction.add_rules {
            *self.chains.get_mut(&rule.chain).unwrap() += 1;
        }
        for name in &transaction.delete_sets {
            self.sets.remove(name).unwrap();
        }
        for name in &transaction.delete_chains {
            self.chains.remove(name).unwrap();
        }
    }

    fn set(&self, name: &str) -> &BTreeMap<Key, Datum> {
        &self.sets[name]
    }

    /// Chain and endpoints of a frontend.
    fn balances(
        &self,
        address: &str,
        port: u16,
        protocol: Protocol,
    ) -> Option<(Name, Vec<String>)> {
        let key = Key::Frontend {
            address: address.parse().unwrap(),
            protocol,
            port,
        };
        let Datum::Route(route) = self.set("services").get(&key)? else {
            panic!("not a route");
        };
        let class = Key::Class(route.0 & Route::CLASS_MASK);
        let Datum::Goto(chain) = &self.set("dispatch")[&class] else {
            panic!("not a chain");
        };
        assert!(self.chains[chain] > 0, "{chain} is empty");
        let slots: u32 = chain.rsplit('-').next().unwrap().parse().unwrap();
        let endpoint = |slot| {
            let key = Key::Slot {
                group: route.group(),
                slot,
            };
            let Datum::Endpoint { address, port } = self.set("endpoints")[&key] else {
                panic!("not an endpoint");
            };
            format!("{address}:{port}")
        };
        let mut endpoints: Vec<_> = (0..slots).map(endpoint).collect();
        endpoints.sort();
        Some((chain.clone(), endpoints))
    }
}

/// A planner with its table and a clock.
struct Bench {
    planner: Planner,
    rows: Rows,
    now: Duration,
}

impl Bench {
    fn new(config: Config) -> Self {
        Self {
            planner: Planner::new(Family::Ipv4, config),
            rows: Rows::default(),
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
            match self.planner.next(self.now) {
                Next::Commit(transaction) => {
                    assert_eq!(self.planner.next(self.now), Next::InFlight);
                    self.rows.apply(&transaction);
                    let changes = transaction.elements.iter().filter(|c| &*c.set != "state");
                    changed += changes.map(|c| c.delete.len() + c.add.len()).sum::<usize>();
                    self.planner.committed(self.now);
                }
                Next::WaitUntil(time) if time <= limit => self.now = time,
                Next::WaitUntil(_) | Next::Idle => return changed,
                Next::InFlight => panic!("nothing is in flight"),
            }
        }
        panic!("no end");
    }

    fn apply(&mut self, change: Change) {
        self.planner.apply(change);
    }
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
    let (chain, endpoints) = bench.rows.balances("10.96.0.1", 80, Protocol::Tcp).unwrap();
    assert_eq!(
        (&*chain, endpoints),
        (
            "internal-2",
            vec!["10.0.0.1:8080".into(), "10.0.0.2:8080".into()]
        )
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
    let (_, endpoints) = bench.rows.balances("10.96.0.1", 80, Protocol::Tcp).unwrap();
    assert_eq!(endpoints, ["10.0.0.3:8080", "10.0.0.4:8080"]);

    bench.apply(Change::ServiceGone(name("web")));
    assert_eq!(bench.settle(), 2);
    assert_eq!(bench.drain(), 2);
    for set in ["services", "endpoints", "cluster-ips", "reject-services"] {
        assert!(bench.rows.set(set).is_empty(), "{set}");
    }
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
    assert_eq!(bench.rows.set("reject-services").len(), 3);
    assert_eq!(bench.rows.set("reject-nodeports").len(), 1);
    // The refusal outlives the first endpoint.
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.settle();
    assert_eq!(bench.rows.set("services").len(), 3);
    assert_eq!(bench.rows.set("nodeports").len(), 1);
    assert_eq!(bench.rows.set("reject-services").len(), 3);
    bench.drain();
    assert!(bench.rows.set("reject-services").is_empty());
    assert!(bench.rows.set("reject-nodeports").is_empty());
    // And is back with the last one's end, while its slot stays for a while.
    bench.apply(Change::EndpointSliceGone(name("web-a")));
    bench.settle();
    assert!(bench.rows.set("services").is_empty());
    assert_eq!(bench.rows.set("reject-services").len(), 3);
    assert_eq!(bench.rows.set("endpoints").len(), 1);
    bench.drain();
    assert!(bench.rows.set("endpoints").is_empty());
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
    let (_, endpoints) = bench.rows.balances("10.96.0.1", 80, Protocol::Tcp).unwrap();
    assert_eq!(
        endpoints,
        ["10.0.0.2:8080", "10.0.0.3:8080", "10.0.0.4:8080"]
    );
    assert_eq!(bench.rows.set("hairpin-connections").len(), 1);
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
    let served = |bench: &Bench| {
        bench
            .rows
            .balances("192.0.2.1", 80, Protocol::Tcp)
            .unwrap()
            .1
    };
    assert_eq!(served(&bench), ["10.0.0.2:8080"]);
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(&*report.port.service.name, "young");
    bench.apply(Change::ServiceGone(name("old")));
    bench.drain();
    assert_eq!(served(&bench), ["10.0.0.1:8080"]);
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
    let listed: Vec<_> = bench.rows.set("nodeport-ips").keys().copied().collect();
    assert_eq!(listed, [Key::Address("192.168.0.2".parse().unwrap())]);
}
