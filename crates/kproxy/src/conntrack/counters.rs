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
    /// Passes by the time spent on them, see [`Counters::times`].
    times: [AtomicU64; TIMES],
}

/// Number of limits of [`Counters::times`], and one without a limit.
const TIMES: usize = 16;
/// The first of them; each is twice the one before, as kube-proxy's are.
const FIRST_LIMIT: Duration = Duration::from_millis(1);

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

    /// How many passes of a family took up to each time, and longer than the time before it; the last
    /// took longer than all ([`Duration::MAX`]).
    #[must_use]
    pub fn times(&self, family: Family) -> Vec<(Duration, u64)> {
        let counts = self.family(family).times.iter();
        let limits = limits().chain([Duration::MAX]);
        limits
            .zip(counts.map(|counter| counter.load(Ordering::Relaxed)))
            .collect()
    }

    /// Adds a pass.
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
        let longer = limits().take_while(|limit| *limit < totals.busy).count();
        if let Some(counter) = counters.times.get(longer) {
            add(counter, 1);
        }
    }

    fn family(&self, family: Family) -> &FamilyCounters {
        match family {
            Family::Ipv4 => &self.ipv4,
            Family::Ipv6 => &self.ipv6,
        }
    }
}

fn limits() -> impl Iterator<Item = Duration> {
    let limits = core::iter::successors(Some(FIRST_LIMIT), |limit| limit.checked_mul(2));
    limits.take(TIMES - 1)
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

    #[test]
    fn passes_are_counted_by_their_time() {
        let counters = Counters::default();
        for milliseconds in [0, 1, 2, 3, 16_384, 16_385, 99_999] {
            let busy = Duration::from_millis(milliseconds);
            let pass = Totals {
                busy,
                ..Totals::default()
            };
            counters.add(Family::Ipv4, &pass);
        }
        let times = counters.times(Family::Ipv4);
        let counts: Vec<_> = times.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(times[14].0, Duration::from_millis(16_384));
        assert_eq!(times[15].0, Duration::MAX);
    }
}
