//! What the loop counts while it works. Everything is made before: counting allocates nothing.
//!
//! A *sync* of a family is what is sent from when the loop turns to it until nothing can be sent for now, or
//! something fails: one transaction or several. It is *full* if the whole table was planned: the first of
//! the process until it succeeded, and whenever the table is made anew or taken over. All others are
//! *partial*. A look that finds nothing to do is no sync.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use svc_planner::Planner;
use svc_planner::mailbox::Bell;
use svc_planner::object::{Change, UnixNanos};
use svc_planner::plan::Family;

use super::buckets;
use super::{PerFamily, Tables};
use crate::engine::{AffinityFill, Applied, Tally};

type Seconds = Gauge<f64, AtomicU64>;

/// See the module.
#[derive(Debug)]
pub struct SyncMetrics {
    started: UnixNanos,
    durations: PerFamily<Histogram>,
    full: PerFamily<Histogram>,
    partial: PerFamily<Histogram>,
    last_queued: PerFamily<Seconds>,
    last_success: PerFamily<Seconds>,
    network_programming: PerFamily<Histogram>,
    failures: PerFamily<Counter>,
    /// Taken in without having waited in the mailbox.
    direct: Changes<Counter>,
    /// Taken in and not yet in force.
    taken: Changes<Gauge>,
    mailbox: OnceLock<Bell>,
    plan: PerFamily<Histogram>,
    encode: PerFamily<Histogram>,
    commit: PerFamily<Histogram>,
    bytes: PerFamily<Histogram>,
    operations: PerFamily<Histogram>,
    rows: PerFamily<Counter>,
    conflicts: PerFamily<Counter>,
    not_committed: PerFamily<Counter>,
    not_tidied: PerFamily<Counter>,
    tables: Tables,
}

/// By the kind of object that changed.
#[derive(Debug, Default)]
struct Changes<M> {
    services: M,
    slices: M,
}

impl<M> Changes<M> {
    const fn of(&self, change: &Change) -> Option<&M> {
        match change {
            Change::Service(_) | Change::ServiceGone(_) => Some(&self.services),
            Change::EndpointSlice(_) | Change::EndpointSliceGone(_) => Some(&self.slices),
            _ => None,
        }
    }
}

/// How a sync of a family went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncOutcome {
    /// Time spent on it, that of the other family not counted.
    pub spent: Duration,
    /// The whole table was planned.
    pub full: bool,
}

impl SyncMetrics {
    /// For these families.
    #[must_use]
    pub fn new(families: &[Family]) -> Self {
        let metrics = Self {
            started: unix_nanos(),
            durations: PerFamily::new(families, buckets::syncs),
            full: PerFamily::new(families, buckets::syncs),
            partial: PerFamily::new(families, buckets::syncs),
            last_queued: PerFamily::new(families, Gauge::default),
            last_success: PerFamily::new(families, Gauge::default),
            network_programming: PerFamily::new(families, buckets::network_programming),
            failures: PerFamily::new(families, Counter::default),
            direct: Changes::default(),
            taken: Changes::default(),
            mailbox: OnceLock::new(),
            plan: PerFamily::new(families, buckets::transaction_parts),
            encode: PerFamily::new(families, buckets::transaction_parts),
            commit: PerFamily::new(families, buckets::transaction_parts),
            bytes: PerFamily::new(families, buckets::transaction_bytes),
            operations: PerFamily::new(families, buckets::transaction_operations),
            rows: PerFamily::new(families, Counter::default),
            conflicts: PerFamily::new(families, Counter::default),
            not_committed: PerFamily::new(families, Counter::default),
            not_tidied: PerFamily::new(families, Counter::default),
            tables: Tables::new(families),
        };
        metrics.queued();
        metrics
    }

    /// Changes wait in this mailbox from now on.
    pub(crate) fn attach(&self, bell: Bell) {
        // A loop runs once.
        let _ = self.mailbox.set(bell);
    }

    /// A change was taken in; `waited` in the mailbox, which has counted it.
    pub(crate) fn taken_in(&self, change: &Change, waited: bool) {
        if let Some(taken) = self.taken.of(change) {
            taken.inc();
        }
        if let Some(direct) = self.direct.of(change).filter(|_| !waited) {
            direct.inc();
        }
    }

    /// There is something to send.
    pub(crate) fn queued(&self) {
        let now = unix_seconds();
        for (_, gauge) in self.last_queued.iter() {
            gauge.set(now);
        }
    }

    /// A transaction was committed.
    pub(crate) fn applied(&self, applied: &Applied) {
        let family = applied.family;
        let observe = |metric: &PerFamily<Histogram>, value: f64| {
            if let Some(histogram) = metric.of(family) {
                histogram.observe(value);
            }
        };
        observe(&self.plan, applied.plan.as_secs_f64());
        observe(&self.encode, applied.encode.as_secs_f64());
        observe(&self.commit, applied.commit.as_secs_f64());
        observe(&self.bytes, count(applied.bytes));
        observe(&self.operations, f64::from(applied.operations));
        if let Some(rows) = self.rows.of(family) {
            rows.inc_by(u64::try_from(applied.rows).unwrap_or(u64::MAX));
        }
    }

    /// A sync has ended, well or not.
    pub(crate) fn synced(&self, family: Family, outcome: SyncOutcome) {
        let kind = if outcome.full {
            &self.full
        } else {
            &self.partial
        };
        for metric in [&self.durations, kind] {
            if let Some(histogram) = metric.of(family) {
                histogram.observe(outcome.spent.as_secs_f64());
            }
        }
    }

    /// What became of a family's transactions so far.
    pub(crate) fn tallied(&self, family: Family, tally: Tally) {
        let numbers = [
            (&self.conflicts, tally.conflicts),
            (&self.not_committed, tally.not_committed),
            (&self.not_tidied, tally.not_tidied),
        ];
        for (metric, number) in numbers {
            if let Some(counter) = metric.of(family) {
                counter.inner().store(number, Ordering::Relaxed);
            }
        }
    }

    /// What is planned by now.
    pub(crate) fn planned(&self, family: Family, planner: &Planner) {
        self.tables.publish(family, planner);
    }

    /// How many clients the kernel remembers.
    pub(crate) fn clients(&self, fill: AffinityFill) {
        self.tables.publish_clients(fill);
    }

    /// When this process began to count.
    #[must_use]
    pub fn started(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.started)
    }

    /// What is planned, as of the last sync.
    #[must_use]
    pub const fn tables(&self) -> &Tables {
        &self.tables
    }

    /// A family has nothing left to send.
    pub(crate) fn succeeded(&self, family: Family) {
        if let Some(gauge) = self.last_success.of(family) {
            gauge.set(unix_seconds());
        }
    }

    /// A family could not be programmed.
    pub(crate) fn failed(&self, family: Family) {
        if let Some(counter) = self.failures.of(family) {
            counter.inc();
        }
    }

    /// Nothing that was taken in is left to send, in any family.
    pub(crate) fn all_in_force(&self) {
        self.taken.services.set(0);
        self.taken.slices.set(0);
    }

    /// What happened at a time is in force in a family. What happened before the start is not measured:
    /// it was not this process that was slow.
    pub(crate) fn programmed(&self, family: Family, trigger: UnixNanos) {
        if trigger <= self.started {
            return;
        }
        if let Some(histogram) = self.network_programming.of(family) {
            let nanos = unix_nanos().saturating_sub(trigger);
            histogram.observe(Duration::from_nanos(nanos).as_secs_f64());
        }
    }
}

impl SyncMetrics {
    /// Changes that wait: in the mailbox, or taken in and not yet in force. Services, slices.
    #[must_use]
    pub fn pending(&self) -> [u64; 2] {
        let waiting = self.mailbox.get().map(Bell::traffic).unwrap_or_default();
        let taken = |gauge: &Gauge| u64::try_from(gauge.get()).unwrap_or_default();
        [
            waiting
                .waiting_services
                .saturating_add(taken(&self.taken.services)),
            waiting
                .waiting_slices
                .saturating_add(taken(&self.taken.slices)),
        ]
    }

    /// Changes that came so far, those that others replaced before they were looked at included.
    #[must_use]
    pub fn seen(&self) -> [u64; 2] {
        let seen = self.mailbox.get().map(Bell::traffic).unwrap_or_default();
        [
            seen.services.saturating_add(self.direct.services.get()),
            seen.slices.saturating_add(self.direct.slices.get()),
        ]
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let mut histogram = |name: &str, help: &str, metric: &PerFamily<Histogram>| {
            registry.register(name, help, metric.clone());
        };
        histogram(
            "kubeproxy_sync_proxy_rules_duration_seconds",
            "Time that a sync took",
            &self.durations,
        );
        histogram(
            "kubeproxy_sync_full_proxy_rules_duration_seconds",
            "Time that a sync took in which the whole table was planned",
            &self.full,
        );
        histogram(
            "kubeproxy_sync_partial_proxy_rules_duration_seconds",
            "Time that a sync of changes took",
            &self.partial,
        );
        histogram(
            "kubeproxy_network_programming_duration_seconds",
            "Time from a change of a pod or Service to the kernel, as EndpointSlices tell it",
            &self.network_programming,
        );
        histogram(
            "kproxy_transaction_plan_duration_seconds",
            "Time that planning a committed transaction took",
            &self.plan,
        );
        histogram(
            "kproxy_transaction_encode_duration_seconds",
            "Time that lowering and encoding a committed transaction took",
            &self.encode,
        );
        histogram(
            "kproxy_transaction_commit_duration_seconds",
            "Time from sending a committed transaction to the kernel's answer",
            &self.commit,
        );
        histogram(
            "kproxy_transaction_bytes",
            "Length of a committed transaction",
            &self.bytes,
        );
        histogram(
            "kproxy_transaction_operations",
            "Objects, rules, and element changes by set and direction of a committed transaction",
            &self.operations,
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
            "When last there was something to send",
            self.last_queued.clone(),
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "When last the kernel held all that was wanted",
            self.last_success.clone(),
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_nftables_sync_failures",
            "Times that a family could not be programmed",
            self.failures.clone(),
        );
        registry.register(
            "kproxy_rows_changed",
            "Rows of sets and maps deleted and added",
            self.rows.clone(),
        );
        registry.register(
            "kubeproxy_sync_proxy_rules_nftables_cleanup_failures",
            "Transactions that only delete what is out of use, and were not committed",
            self.not_tidied.clone(),
        );
        registry.register(
            "kproxy_transactions_not_committed",
            "Transactions that the kernel refused or did not get, those that were sent again in parts \
             included",
            self.not_committed.clone(),
        );
        registry.register(
            "kproxy_generation_conflicts",
            "Times that others had changed the table since a transaction was planned",
            self.conflicts.clone(),
        );
    }
}

fn unix_nanos() -> UnixNanos {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

fn unix_seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs_f64()
}

fn count(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use svc_planner::object::{EndpointSlice, ObjectName};

    use super::*;

    const FAMILIES: [Family; 1] = [Family::Ipv4];

    fn slice() -> Change {
        let name = ObjectName {
            namespace: "default".into(),
            name: "web".into(),
        };
        Change::EndpointSlice(EndpointSlice {
            service: name.name.clone(),
            name,
            triggers: Default::default(),
            ports: Default::default(),
            endpoints: Vec::new(),
        })
    }

    #[test]
    fn changes_are_pending_until_they_are_in_force() {
        let (publisher, receiver) = svc_planner::mailbox::open();
        let metrics = SyncMetrics::new(&FAMILIES);
        metrics.taken_in(&slice(), false);
        assert_eq!((metrics.pending(), metrics.seen()), ([0, 1], [0, 1]));
        metrics.attach(receiver.bell());
        // Of two changes of an object that wait one is pending.
        publisher.publish_all([slice(), slice()]).unwrap();
        assert_eq!((metrics.pending(), metrics.seen()), ([0, 2], [0, 3]));
        let mut receiver = receiver;
        for change in receiver.drain() {
            metrics.taken_in(&change, true);
        }
        assert_eq!((metrics.pending(), metrics.seen()), ([0, 2], [0, 3]));
        metrics.all_in_force();
        assert_eq!((metrics.pending(), metrics.seen()), ([0, 0], [0, 3]));
    }

    #[test]
    fn what_happened_before_the_start_is_not_measured() {
        let metrics = SyncMetrics::new(&FAMILIES);
        let count = |metrics: &SyncMetrics| {
            let mut text = String::new();
            let mut registry = Registry::default();
            metrics.register(&mut registry);
            prometheus_client::encoding::prometheus_text::encode(&mut text, &registry).unwrap();
            let name = "kubeproxy_network_programming_duration_seconds_count{ip_family=\"IPv4\"} ";
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::to_owned).unwrap()
        };
        metrics.programmed(Family::Ipv4, metrics.started);
        assert_eq!(count(&metrics), "0");
        metrics.programmed(Family::Ipv4, metrics.started + 1);
        assert_eq!(count(&metrics), "1");
        // Clocks of other machines may be ahead.
        metrics.programmed(Family::Ipv4, u64::MAX);
        assert_eq!(count(&metrics), "2");
    }
}
