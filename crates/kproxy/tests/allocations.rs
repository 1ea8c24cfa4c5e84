//! A small change costs no heap allocation on its way from the planner to the kernel's answer, once
//! the buffers are there. Taking the change in is not counted.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

use core::net::IpAddr;
use core::time::Duration;

use allocation_counter::measure;
use kproxy::conntrack::Reconciler;
use kproxy::engine::{Engine, Saver, TABLE};
use kproxy::lower::{Lowered, lower};
use kproxy::netns::Netns;
use kproxy::proxy::Periods;
use nft_batch::{Batch, BatchOptions, Connection};
use smallvec::smallvec;
use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use svc_planner::plan::{Family, Transaction};
use svc_planner::{Config, Next, Planner};
use test_support::in_new_netns;

const OWN_NODE: &str = "own";
/// Rounds of each change before and while allocations are counted.
const ROUNDS: usize = 100;

/// Changes of the first Service's endpoints, there and back.
const CHANGES: [(&str, [Pods; 2]); 4] = [
    (
        "replaced",
        [
            &[(1, Pod::Ready), (2, Pod::Ready), (3, Pod::Ready)],
            &[(1, Pod::Ready), (9, Pod::Ready), (3, Pod::Ready)],
        ],
    ),
    (
        "replaced on this node",
        [
            &[(1, Pod::Ready), (2, Pod::Local)],
            &[(1, Pod::Ready), (8, Pod::Local)],
        ],
    ),
    (
        "added and removed",
        [
            &[
                (1, Pod::Ready),
                (2, Pod::Ready),
                (3, Pod::Ready),
                (4, Pod::Ready),
            ],
            &[(1, Pod::Ready), (3, Pod::Ready), (4, Pod::Ready)],
        ],
    ),
    (
        "ready or not",
        [
            &[(1, Pod::Ready), (2, Pod::Unready), (3, Pod::Ready)],
            &[(1, Pod::Ready), (2, Pod::Ready), (3, Pod::Ready)],
        ],
    ),
];

/// Endpoints by the last byte of their address.
type Pods = &'static [(u8, Pod)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Pod {
    Ready,
    Unready,
    /// Ready, on the own node.
    Local,
}

fn name(number: u8) -> ObjectName {
    ObjectName {
        namespace: "default".into(),
        name: format!("svc{number}").into(),
    }
}

fn service(number: u8, affinity: Option<u32>) -> Change {
    Change::Service(Service {
        name: name(number),
        created: None,
        uid: None,
        cluster_ips: smallvec![IpAddr::from([10, 96, 0, number])],
        external_ips: smallvec![IpAddr::from([192, 0, 2, number])],
        load_balancer_ips: smallvec![],
        source_ranges: smallvec![],
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity,
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: smallvec![ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: 30_000 + u16::from(number),
        }],
    })
}

fn slice(number: u8, pods: impl IntoIterator<Item = (u8, Pod)>) -> Change {
    let endpoints = pods.into_iter().map(|(pod, state)| Endpoint {
        address: IpAddr::from([10, 0, number, pod]),
        ready: state != Pod::Unready,
        serving: state != Pod::Unready,
        terminating: false,
        node: (state == Pod::Local).then(|| OWN_NODE.into()),
        zone_hints: smallvec![],
        node_hints: smallvec![],
        weight: 1,
    });
    Change::EndpointSlice(EndpointSlice {
        name: name(number),
        service: name(number).name,
        triggers: Default::default(),
        ports: smallvec![SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 8080,
        }],
        endpoints: endpoints.collect(),
    })
}

/// A Node, and Services with 0 to 9 endpoints each: all classes that the changes lead to are in use.
fn cluster(affinity: Option<u32>) -> Vec<Change> {
    let mut changes = vec![
        Change::Node(Node {
            name: OWN_NODE.into(),
            addresses: smallvec![IpAddr::from([192, 0, 2, 200])],
            pod_cidrs: smallvec!["10.0.0.0/16".parse().unwrap()],
            zone: None,
            eligible: true,
        }),
        Change::ServiceCidr {
            name: "kubernetes".into(),
            cidrs: smallvec!["10.96.0.0/16".parse().unwrap()],
        },
    ];
    for number in 0..100 {
        changes.push(service(number, affinity));
        changes.push(slice(number, (0..number % 10).map(|pod| (pod, Pod::Ready))));
    }
    changes
}

fn config() -> Config {
    Config {
        node_name: OWN_NODE.into(),
        ..Config::default()
    }
}

struct Proxy {
    planner: Planner,
    connection: Connection,
    batch: Option<Batch>,
    lowered: Lowered,
    /// Moved on by hand.
    clock: Duration,
}

impl Proxy {
    /// Commits until nothing is left to do, deferred deletions included; gives the rows changed.
    fn drain(&mut self) -> usize {
        let mut rows = 0;
        loop {
            self.clock += Duration::from_millis(1);
            match self.planner.next(self.clock) {
                Next::Commit(transaction) => {
                    rows += transaction.rows();
                    self.commit(transaction);
                }
                Next::WaitUntil(time) => self.clock = time,
                _ => return rows,
            }
        }
    }

    fn commit(&mut self, transaction: Box<Transaction>) {
        let mut batch = self.batch.take().unwrap();
        lower(&transaction, TABLE, &mut batch, &mut self.lowered).unwrap();
        let mut sealed = batch.seal();
        let outcome = self.connection.commit(&mut sealed);
        assert!(outcome.is_committed(), "{outcome}");
        self.batch = Some(sealed.reuse());
        self.planner.committed(self.clock);
        self.planner.recycle(transaction);
    }
}

#[test]
fn planning_lowering_and_committing_a_change_of_endpoints_allocates_nothing() {
    without_allocations(None);
}

#[test]
fn nor_does_a_change_of_endpoints_that_clients_stick_to() {
    without_allocations(Some(10_800));
}

fn without_allocations(affinity: Option<u32>) {
    in_new_netns(move || {
        let mut proxy = Proxy {
            planner: Planner::new(Family::Ipv4, config()),
            connection: Connection::open().unwrap(),
            batch: Some(Batch::new(BatchOptions::default())),
            lowered: Lowered::default(),
            clock: Duration::ZERO,
        };
        cluster(affinity)
            .into_iter()
            .for_each(|change| proxy.planner.apply(change));
        // The counter sees the allocations of the first transactions.
        assert_ne!(measure(|| _ = proxy.drain()).count_total, 0);
        for (what, directions) in CHANGES {
            for round in 0..2 * ROUNDS {
                for pods in directions {
                    proxy.planner.apply(slice(0, pods.iter().copied()));
                    let mut rows = 0;
                    let counted = measure(|| rows = proxy.drain());
                    if round >= ROUNDS {
                        assert_eq!(counted.count_total, 0, "{what}: {pods:?}");
                        // The row that marks the state, and at least one more.
                        assert!(rows > 2, "{what}: {rows} rows");
                    }
                }
            }
        }
    });
}

#[test]
fn the_engine_allocates_nothing_for_a_change_of_endpoints() {
    in_new_netns(|| {
        let mut engine = Engine::new(Connection::open().unwrap(), |_| Config {
            hold: Duration::ZERO,
            settle: Duration::ZERO,
            ..config()
        });
        cluster(None)
            .into_iter()
            .for_each(|change| engine.apply(change));
        // It is told, if there is something to tell.
        let reconciler = Reconciler::start(&Netns::Current).unwrap();
        engine.tell_flows(reconciler.publisher());
        engine.sync(|_, _| ()).unwrap();
        for (what, directions) in CHANGES {
            for round in 0..2 * ROUNDS {
                for pods in directions {
                    engine.apply(slice(0, pods.iter().copied()));
                    let mut applied = 0;
                    let counted = measure(|| _ = engine.sync(|_, _| applied += 1).unwrap());
                    if round >= ROUNDS {
                        assert_eq!(counted.count_total, 0, "{what}: {pods:?}");
                        assert!(applied > 0, "{what}");
                    }
                }
            }
        }
    });
}

/// Neither do the loop's metrics, history and status. Its log is not counted: nobody listens to it.
#[test]
fn nor_does_the_loop_around_it() {
    in_new_netns(|| {
        let engine = Engine::new(Connection::open().unwrap(), |_| Config {
            hold: Duration::ZERO,
            settle: Duration::ZERO,
            ..config()
        });
        let mut proxy = kproxy::proxy::Proxy::new(engine, Saver::new(None), Periods::default());
        cluster(None)
            .into_iter()
            .for_each(|change| proxy.apply(change));
        proxy.sync();
        for (what, directions) in CHANGES {
            for round in 0..2 * ROUNDS {
                for pods in directions {
                    let Change::EndpointSlice(mut slice) = slice(0, pods.iter().copied()) else {
                        panic!("a slice");
                    };
                    // As of a change that happens now.
                    slice.triggers = smallvec![u64::MAX];
                    proxy.apply(Change::EndpointSlice(slice));
                    let mut applied = 0;
                    let counted = measure(|| _ = proxy.sync_with(|_, _| applied += 1));
                    if round >= ROUNDS {
                        assert_eq!(counted.count_total, 0, "{what}: {pods:?}");
                        assert!(applied > 0, "{what}");
                    }
                }
            }
        }
        let history = proxy.history().read();
        assert_eq!(history.transactions.len(), 120);
    });
}
