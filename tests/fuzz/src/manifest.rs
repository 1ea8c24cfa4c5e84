//! Manifests, through ingest and planner, on a fake kernel: whatever they say, transactions are
//! accepted, rows are as the planner believes, and packets go where Kubernetes wants.
//!
//! Versions of one file, each replacing the one before, are separated by a line `#next`.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeSet;

use kproxy::manifest::Source;
use svc_planner::config::{Config, LocalDetector, NodePortAddresses};
use svc_planner::fake::oracle::Oracle;
use svc_planner::fake::{Host, Kernel, Packet};
use svc_planner::object::{Change, Service};
use svc_planner::plan::Family;
use svc_planner::{Next, Planner, RowCursor};

const NODE: &str = "node-a";
/// More transactions than an input of this size takes.
const ENDLESS: usize = 10_000;
/// Inputs beyond take long and show nothing new.
const LONGEST: usize = 16 << 10;
/// Packets tried of each version.
const PACKETS: usize = 64;

pub(crate) fn run(input: &[u8]) {
    if input.len() > LONGEST {
        return;
    }
    let text = String::from_utf8_lossy(input);
    let mut source = Source::new(NODE);
    let mut halves = [Half::new(Family::Ipv4), Half::new(Family::Ipv6)];
    for version in text.split("\n#next\n") {
        let mut changes = Vec::new();
        source.load_text("fuzz", version.to_owned(), |change| changes.push(change));
        for problem in source.take_problems() {
            assert!(!problem.to_string().is_empty());
        }
        for half in &mut halves {
            for change in &changes {
                half.oracle.apply(change.clone());
                half.planner.apply(change.clone());
            }
            half.drain();
            half.compare();
        }
    }
}

struct Half {
    family: Family,
    planner: Planner,
    kernel: Kernel,
    oracle: Oracle,
    now: Duration,
}

impl Half {
    fn new(family: Family) -> Self {
        let config = Config {
            node_name: NODE.into(),
            local: LocalDetector::Iifname("cni0".into()),
            node_port_addresses: NodePortAddresses::PRIMARY,
            ..Config::default()
        };
        Self {
            family,
            planner: Planner::new(family, config.clone()),
            kernel: Kernel::new(),
            oracle: Oracle::new(family, config),
            now: Duration::ZERO,
        }
    }

    /// Commits until nothing is left to do ever.
    fn drain(&mut self) {
        for _ in 0..ENDLESS {
            match self.planner.next(self.now) {
                Next::Commit(transaction) => {
                    if let Err(error) = self.kernel.apply(&transaction, self.now) {
                        panic!("{error} in\n{transaction}");
                    }
                    self.planner.committed(self.now);
                    self.planner.recycle(transaction);
                }
                Next::Clients => self.planner.carry_over([]),
                Next::WaitUntil(time) => {
                    assert!(time > self.now, "waits for the past");
                    self.now = time;
                }
                Next::Idle => return self.kernel.forget_history(),
                other => panic!("neither commits nor waits: {other:?}"),
            }
        }
        panic!("the planner does not come to an end");
    }

    fn compare(&self) {
        let mut rows = Vec::new();
        let mut cursor = RowCursor::default();
        assert!(
            self.planner
                .expected_rows(&mut cursor, usize::MAX, &mut rows)
        );
        for row in &rows {
            let held = self.kernel.row(self.family, &row.set, &row.key);
            assert_eq!(held, Some(&row.datum), "{row:?}");
        }
        // A Service that is not served is none to ask the oracle about.
        let reports = self.planner.reports();
        let host = self.host();
        for packet in self.packets().into_iter().take(PACKETS) {
            let outcomes = self.kernel.outcomes(&packet, &host);
            let seen: BTreeSet<_> = outcomes
                .iter()
                .map(|(outcome, _)| outcome.verdict)
                .collect();
            let wanted = self.oracle.verdicts(&packet, &host);
            assert!(
                seen == wanted || !reports.is_empty(),
                "{packet}: {seen:?}, not {wanted:?}"
            );
        }
    }

    fn services(&self) -> Vec<Service> {
        let changes = self.oracle.changes().into_iter();
        changes
            .filter_map(|change| match change {
                Change::Service(service) => Some(service),
                _ => None,
            })
            .collect()
    }

    fn host(&self) -> Host {
        let changes = self.oracle.changes().into_iter();
        let node = changes.filter_map(|change| match change {
            Change::Node(node) => Some(node.addresses.to_vec()),
            _ => None,
        });
        Host::new(node.flatten())
    }

    /// To every address and port of every Service, from a pod and from outside.
    fn packets(&self) -> Vec<Packet> {
        let (pod, client) = match self.family {
            Family::Ipv4 => (
                IpAddr::from([10, 244, 0, 9]),
                IpAddr::from([203, 0, 113, 5]),
            ),
            Family::Ipv6 => (
                IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, 9]),
                IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 5]),
            ),
        };
        let mut packets = Vec::new();
        for service in self.services() {
            let addresses = service.cluster_ips.iter().chain(&service.external_ips);
            let addresses = addresses.chain(&service.load_balancer_ips);
            for address in addresses.filter(|it| Family::of(**it) == self.family) {
                for port in &service.ports {
                    let to = |interface, from| {
                        Packet::arriving(interface, from, *address, port.protocol, port.port)
                    };
                    packets.push(to("cni0", pod));
                    packets.push(to("eth0", client));
                }
            }
        }
        packets
    }
}
