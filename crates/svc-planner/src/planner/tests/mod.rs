//! The planner against the fake kernel.

mod failure;
mod flows;
mod listeners;
mod overview;
mod restart;
mod services;
mod source_lists;
mod source_ranges;
mod sticky;
mod table;

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::*;
use crate::fake::quiescence::{self, Violation, Windows};
use crate::fake::{Host, Kernel as Fake, Packet, Verdict};
use crate::object::{
    Algorithm, Endpoint, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use crate::plan::{BaseChain, Chain, ChainKind, Datum, Hook, KeyType, Name, Rule, Statement};

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
                next => panic!("{next:?}"),
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
        let violations = self.violations();
        assert!(violations.is_empty(), "{}", violations[0]);
    }

    fn violations(&self) -> Vec<Violation> {
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
        assert_eq!(
            quiescence::check_order(&self.kernel, Family::Ipv4, hold),
            []
        );
        quiescence::check(&self.kernel, windows, &packets, &host())
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
        uid: None,
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
        triggers: Default::default(),
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
