use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use svc_planner::config::Config;
use svc_planner::fake::oracle::Oracle;
use svc_planner::fake::quiescence::{self, Windows};
use svc_planner::fake::{
    Endpoint, Errno, Fault, Host, Kernel, Packet, Transport, Verdict, operations,
};
use svc_planner::object::{Change, EndpointSlice, Service};
use svc_planner::plan::{Chain, DataType, Datum, Family, Key, KeyType, Name, Route};
use svc_planner::{ExpectedSet, Inventory, Next, Planner, RowCursor, Snapshot};

use crate::names;

/// More transactions than any drain needs here.
const ENDLESS: usize = 10_000;

/// A planner and the kernel it plans for, with the oracle told the same.
pub(crate) struct Driver {
    pub(crate) family: Family,
    pub(crate) config: Config,
    pub(crate) planner: Planner,
    pub(crate) kernel: Kernel,
    pub(crate) oracle: Oracle,
    pub(crate) now: Duration,
    /// All Services and slices there ever were.
    services: Vec<Service>,
    slices: Vec<EndpointSlice>,
}

impl Driver {
    pub(crate) fn new(family: Family, config: Config) -> Self {
        Self {
            family,
            planner: Planner::new(family, config.clone()),
            oracle: Oracle::new(family, config.clone()),
            kernel: Kernel::new(),
            config,
            now: Duration::ZERO,
            services: Vec::new(),
            slices: Vec::new(),
        }
    }

    /// A new process takes over: it knows the cluster, and the names of what is in the table.
    pub(crate) fn restart(&mut self) {
        self.config.instance += 1;
        self.planner = Planner::new(self.family, self.config.clone());
        for change in self.oracle.changes() {
            self.planner.apply(change);
        }
        if self.kernel.has_table(self.family) {
            self.planner.rebuild(self.found());
        }
    }

    /// Somebody changed chains or rules.
    pub(crate) fn mend(&mut self) {
        self.planner.mend(self.found());
    }

    fn found(&self) -> Inventory {
        let chains = self.kernel.chains(self.family).into_iter();
        let sets = self.kernel.sets(self.family).into_iter();
        Inventory {
            chains: chains.map(|(name, base)| Chain { name, base }).collect(),
            sets: sets.map(|set| set.name.clone()).collect(),
        }
    }

    /// A new process goes on where a snapshot says the old one was; it knows the cluster.
    pub(crate) fn resume(&mut self) {
        let Some(snapshot) = self.planner.snapshot() else {
            return self.restart();
        };
        let (live, copy) = (
            self.planner.live_snapshot(),
            serde_json::to_value(&snapshot),
        );
        assert_eq!(serde_json::to_value(live).unwrap(), copy.unwrap());
        let text = serde_json::to_string(&snapshot).unwrap();
        let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
        let set = snapshot.state_set();
        let row = self.kernel.row(self.family, &set, &snapshot.state());
        assert!(row.is_some(), "the snapshot is of another table");
        self.planner = Planner::restore(self.config.clone(), snapshot, self.now).unwrap();
        for change in self.oracle.changes() {
            self.planner.apply(change);
        }
    }

    /// Changes the configuration of a running process.
    pub(crate) fn reconfigure(&mut self, config: Config) {
        let instance = self.config.instance;
        self.config = Config { instance, ..config };
        self.planner.reconfigure(self.config.clone());
        self.oracle.reconfigure(self.config.clone());
    }

    pub(crate) fn change(&mut self, change: Change) {
        match &change {
            Change::Service(service) => self.services.push(service.clone()),
            Change::EndpointSlice(slice) => self.slices.push(slice.clone()),
            _ => {}
        }
        self.oracle.apply(change.clone());
        self.planner.apply(change);
    }

    /// Commits the next transaction, if there is one now; returns how many operations it had.
    pub(crate) fn commit(&mut self) -> Option<usize> {
        let Next::Commit(transaction) = self.planner.next(self.now) else {
            return None;
        };
        assert_eq!(self.planner.next(self.now), Next::InFlight);
        let operations = operations(&transaction);
        assert!(operations > 0, "an empty transaction");
        names::check(&transaction);
        if let Err(error) = self.kernel.apply(&transaction, self.now) {
            panic!("{error} in\n{transaction}");
        }
        self.planner.committed(self.now);
        self.planner.recycle(transaction);
        Some(operations)
    }

    /// Has the next transaction refused, without a culprit.
    pub(crate) fn reject(&mut self) {
        if let Next::Commit(transaction) = self.planner.next(self.now) {
            self.kernel
                .set_faults(|_| Some(Fault::Reject(Errno::Enomem)));
            self.kernel.apply(&transaction, self.now).unwrap_err();
            self.kernel.clear_faults();
            self.planner.rejected(self.now, &[]);
            self.planner.recycle(transaction);
        }
    }

    /// Commits until nothing is left to do now.
    pub(crate) fn settle(&mut self) -> usize {
        let mut total = 0;
        for _ in 0..ENDLESS {
            match self.commit() {
                Some(operations) => total += operations,
                None => return total,
            }
        }
        panic!("the planner does not come to an end");
    }

    /// Commits until nothing is left to do ever, and returns how many operations that took.
    pub(crate) fn drain(&mut self) -> usize {
        let mut total = 0;
        for _ in 0..ENDLESS {
            total += self.settle();
            match self.planner.next(self.now) {
                Next::Idle => return total,
                Next::WaitUntil(time) => {
                    assert!(time > self.now, "waits for the past");
                    self.now = time;
                }
                next => panic!("neither commits nor waits: {next:?}"),
            }
        }
        panic!("the planner does not come to an end");
    }

    /// Compares what becomes of packets with what the oracle says, and how often.
    pub(crate) fn compare(&self, packets: &[Packet], host: &Host) {
        self.check_expected();
        for packet in packets {
            let shares = self.compare_ends(packet, host);
            let fair = 1.0 / f64::from(u32::try_from(shares.len()).unwrap());
            for (verdict, share) in &shares {
                assert!(
                    (share - fair).abs() < 1e-9,
                    "{packet}: {verdict} gets {share}, not {fair}"
                );
            }
        }
    }

    /// Compares what may become of a packet with what the oracle says.
    pub(crate) fn compare_ends(&self, packet: &Packet, host: &Host) -> BTreeMap<Verdict, f64> {
        let outcomes = self.kernel.outcomes(packet, host);
        let mut shares: BTreeMap<Verdict, f64> = BTreeMap::new();
        for (outcome, share) in &outcomes {
            *shares.entry(outcome.verdict).or_default() += share;
            let dropped = outcome.verdict == Verdict::Dropped;
            assert!(
                outcome.scratch == 0 || dropped,
                "{packet}: scratch left: {outcome:?}"
            );
        }
        let expected = self.oracle.verdicts(packet, host);
        assert!(
            shares.keys().eq(&expected),
            "{packet}: {shares:?}, expected {expected:?}\n{}",
            outcomes
                .iter()
                .flat_map(|(outcome, _)| &outcome.trace)
                .map(|step| format!("  {step}\n"))
                .collect::<String>()
        );
        shares
    }

    /// Compares the rows that the planner believes in with those of the kernel, in walks of any step,
    /// and one by one.
    pub(crate) fn check_expected(&self) {
        if !self.planner.is_present() {
            return;
        }
        let walk = |limit| {
            let (mut cursor, mut rows) = (RowCursor::default(), Vec::new());
            for _ in 0..ENDLESS * ENDLESS {
                let mut some = Vec::new();
                let done = self.planner.expected_rows(&mut cursor, limit, &mut some);
                assert!(done || some.len() >= limit);
                rows.append(&mut some);
                if done {
                    return rows;
                }
            }
            panic!("a walk without end");
        };
        let expected = walk(usize::MAX);
        assert_eq!(walk(7), expected);
        let mut count = 0;
        for set in self.planner.expected_sets() {
            let held = self.kernel.rows(self.family, set.name);
            assert!(
                set.rows.is_none_or(|rows| rows as usize == held.len()),
                "{set:?}"
            );
            if set.interval {
                continue;
            }
            count += held.len();
            for row in held {
                let found = self.planner.expected_row(set.name, &row.key);
                assert_eq!(found, Some(Some(row.datum.clone())), "{set:?}");
            }
        }
        assert_eq!(expected.len(), count, "{expected:?}");
        for row in &expected {
            let held = self.kernel.row(self.family, &row.set, &row.key);
            assert_eq!(held, Some(&row.datum), "{row:?}");
        }
        let gone = Key::Class(Route::CLASS_MASK | 1);
        let told = |set: &ExpectedSet<'_>| !set.interval && !set.dynamic;
        for set in self.planner.expected_sets().filter(told) {
            assert_eq!(self.planner.expected_row(set.name, &gone), Some(None));
        }
        assert_eq!(self.planner.expected_row("none", &gone), None);
    }

    /// Checks that no packet was lost or misled on the way here.
    pub(crate) fn check_quiescence(&self, packets: &[Packet], host: &Host) {
        let Config { hold, settle, .. } = self.config;
        let windows = Windows { hold, settle };
        if let Some(violation) = quiescence::check_with_owners(
            &self.kernel,
            windows,
            packets,
            host,
            &|packet, endpoint| self.is_own(packet, endpoint),
        )
        .first()
        {
            panic!("{violation}\n{}", self.times());
        }
        let order = quiescence::check_order(&self.kernel, self.family, hold);
        assert!(order.is_empty(), "{order:?}\n{}", self.times());
    }

    /// Whether a packet is for a Service, as it once was, that admitted it and once had an endpoint.
    fn is_own(&self, packet: &Packet, endpoint: &Endpoint) -> bool {
        let Transport::Ports {
            protocol,
            destination,
            ..
        } = packet.transport
        else {
            return false;
        };
        self.services.iter().any(|service| {
            let balancers = self.oracle.admits(service, &packet.saddr);
            let balancers = service.load_balancer_ips.iter().filter(|_| balancers);
            let outside = service.external_ips.iter().chain(balancers);
            let mut addresses = service.cluster_ips.iter().chain(outside);
            let by_address = addresses.any(|address| *address == packet.daddr);
            service.ports.iter().any(|port| {
                let is_for = port.protocol == protocol
                    && (port.node_port == destination || by_address && port.port == destination);
                is_for
                    && self.slices.iter().any(|slice| {
                        let mut ports = slice.ports.iter();
                        slice.service == service.name.name
                            && ports.any(|other| {
                                (&other.name, other.protocol, other.port)
                                    == (&port.name, protocol, endpoint.port)
                            })
                            && slice
                                .endpoints
                                .iter()
                                .any(|pod| pod.address == endpoint.address)
                    })
            })
        })
    }

    /// Names of chains, and names of sets with their number of rows: equal for equal clusters. Class
    /// chains and the rows that lead to them are left out: some outlive their use to be used again.
    /// So are numbers at the end of names, which tell a successor from what it replaced.
    pub(crate) fn inventory(&self) -> (Vec<String>, Vec<(String, usize)>) {
        let classes = self.class_chains();
        let chains = self.kernel.chains(self.family).into_iter();
        let chains = chains.map(|(name, _)| name);
        let sets = self.kernel.sets(self.family).into_iter();
        let sets = sets.filter(|set| set.key != KeyType::Class);
        let sets = sets.map(|set| {
            let rows = self.kernel.row_count(self.family, &set.name);
            (unnumbered(&set.name).to_owned(), rows)
        });
        let mut chains: Vec<_> = chains
            .filter(|name| !classes.contains(name) && !name.starts_with("stick-"))
            .map(|name| unnumbered(&name).to_owned())
            .collect();
        let mut sets: Vec<_> = sets.collect();
        chains.sort();
        sets.sort();
        (chains, sets)
    }

    /// Chains that verdict rows lead to.
    pub(crate) fn class_chains(&self) -> BTreeSet<Name> {
        let sets = self.kernel.sets(self.family).into_iter();
        let maps = sets.filter(|set| set.data == DataType::Verdict);
        maps.flat_map(|map| self.kernel.rows(self.family, &map.name))
            .filter_map(|row| match row.datum {
                Datum::Goto(chain) => Some(chain),
                _ => None,
            })
            .collect()
    }

    /// Class chains without what tells a successor's from those it found.
    pub(crate) fn class_stems(&self) -> BTreeSet<String> {
        let is_number = |part: &&str| part.parse::<u32>().is_ok();
        let stem = |name: Name| {
            let parts: Vec<&str> = name.split('-').collect();
            let numbers = parts
                .iter()
                .rev()
                .take_while(|part| is_number(part))
                .count();
            parts[..parts.len() + 1 - numbers.max(1)].join("-")
        };
        self.class_chains().into_iter().map(stem).collect()
    }

    /// Rows in maps of endpoints.
    pub(crate) fn endpoint_rows(&self) -> usize {
        let sets = self.kernel.sets(self.family);
        let maps = sets.iter().filter(|set| set.data == DataType::Endpoint);
        maps.map(|set| self.kernel.row_count(self.family, &set.name))
            .sum()
    }

    fn times(&self) -> String {
        let commits = self.kernel.commits().iter();
        commits
            .map(|commit| format!("generation {}: {:?}\n", commit.generation, commit.time))
            .collect()
    }
}

fn unnumbered(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((stem, number)) if number.parse::<u32>().is_ok() => stem,
        _ => name,
    }
}
