//! What was done, for metrics.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use svc_planner::plan::Family;

/// Counters of both families, which only grow.
#[derive(Debug, Default)]
pub struct Counters {
    ipv4: FamilyCounters,
    ipv6: FamilyCounters,
}

#[derive(Debug, Default)]
struct FamilyCounters {
    passes: AtomicU64,
    failures: AtomicU64,
    seen: AtomicU64,
    deleted: AtomicU64,
    not_deleted: AtomicU64,
    /// Nanoseconds.
    busy: AtomicU64,
}

/// What was done in one family, since the start or in one pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Passes that came to their end.
    pub passes: u64,
    /// Passes that did not, or not completely.
    pub failures: u64,
    /// Entries that were looked at.
    pub seen: u64,
    /// Entries that were deleted.
    pub deleted: u64,
    /// Entries whose deletion was refused.
    pub not_deleted: u64,
    /// Time spent on all passes, pauses in between not counted.
    pub busy: Duration,
}

impl Counters {
    /// The counters of one family.
    #[must_use]
    pub fn of(&self, family: Family) -> Totals {
        let counters = self.family(family);
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            passes: read(&counters.passes),
            failures: read(&counters.failures),
            seen: read(&counters.seen),
            deleted: read(&counters.deleted),
            not_deleted: read(&counters.not_deleted),
            busy: Duration::from_nanos(read(&counters.busy)),
        }
    }

    pub(super) fn add(&self, family: Family, totals: &Totals) {
        let counters = self.family(family);
        let add = |counter: &AtomicU64, by: u64| {
            counter.fetch_add(by, Ordering::Relaxed);
        };
        add(&counters.passes, totals.passes);
        add(&counters.failures, totals.failures);
        add(&counters.seen, totals.seen);
        add(&counters.deleted, totals.deleted);
        add(&counters.not_deleted, totals.not_deleted);
        let busy = u64::try_from(totals.busy.as_nanos()).unwrap_or(u64::MAX);
        add(&counters.busy, busy);
    }

    fn family(&self, family: Family) -> &FamilyCounters {
        match family {
            Family::Ipv4 => &self.ipv4,
            Family::Ipv6 => &self.ipv6,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_counted_apart() {
        let counters = Counters::default();
        let once = Totals {
            passes: 1,
            deleted: 3,
            busy: Duration::from_micros(5),
            ..Totals::default()
        };
        counters.add(Family::Ipv6, &once);
        counters.add(Family::Ipv6, &once);
        assert_eq!(counters.of(Family::Ipv4), Totals::default());
        let twice = counters.of(Family::Ipv6);
        assert_eq!((twice.passes, twice.deleted), (2, 6));
        assert_eq!(twice.busy, Duration::from_micros(10));
    }
}
