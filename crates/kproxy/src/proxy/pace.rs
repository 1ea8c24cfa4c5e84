//! When to send: at once after a rest, then at most once a period; after a failure after a while.

use core::time::Duration;

/// How often to synchronise, kube-proxy's `minSyncPeriod` and `syncPeriod`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Periods {
    /// Shortest time from the end of one sync to the next change taken in. What comes meanwhile is
    /// taken in together.
    pub min_sync: Duration,
    /// Longest time from a failure to the next try.
    pub sync: Duration,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            min_sync: Duration::from_secs(1),
            sync: Duration::from_secs(30),
        }
    }
}

/// Lets changes in: the first at once, the next ones not before a period is over.
#[derive(Debug)]
pub(super) struct Gate {
    period: Duration,
    opens: Duration,
}

impl Gate {
    pub(super) const fn new(period: Duration) -> Self {
        Self {
            period,
            opens: Duration::ZERO,
        }
    }

    /// Something was sent.
    pub(super) fn close(&mut self, now: Duration) {
        self.opens = now.saturating_add(self.period);
    }

    /// Nothing will come any more: what is there is taken in at once.
    pub(super) const fn open(&mut self) {
        self.opens = Duration::ZERO;
        self.period = Duration::ZERO;
    }

    /// From when on changes are taken in.
    pub(super) const fn opens(&self) -> Duration {
        self.opens
    }
}

/// Shortest pause after a failure, which a change does not shorten either: a failed transaction
/// costs the kernel tens of milliseconds.
const PAUSE_SHORTEST: Duration = Duration::from_secs(1);

/// When to try again after a failure: after a pause that doubles each time up to the sync period,
/// or when there is a change.
#[derive(Debug)]
pub(super) struct Backoff {
    periods: Periods,
    /// The last pause; zero if the last try succeeded.
    pause: Duration,
    /// Not before this time, whatever happens.
    earliest: Duration,
    /// At this time at the latest.
    until: Duration,
}

impl Backoff {
    pub(super) const fn new(periods: Periods) -> Self {
        Self {
            periods,
            pause: Duration::ZERO,
            earliest: Duration::ZERO,
            until: Duration::ZERO,
        }
    }

    /// Notes a failure; returns the pause.
    pub(super) fn fail(&mut self, now: Duration) -> Duration {
        let shortest = self.periods.min_sync.max(PAUSE_SHORTEST);
        let shortest = shortest.min(self.periods.sync);
        self.pause = (self.pause * 2).clamp(shortest, self.periods.sync.max(shortest));
        self.earliest = now.saturating_add(shortest);
        self.until = now.saturating_add(self.pause);
        self.pause
    }

    /// Notes a success.
    pub(super) const fn reset(&mut self) {
        self.pause = Duration::ZERO;
        self.until = Duration::ZERO;
    }

    /// There is a change: no longer pause than needed.
    pub(super) fn hurry(&mut self) {
        self.until = self.until.min(self.earliest);
    }

    /// Until when there is nothing to try.
    pub(super) const fn until(&self) -> Duration {
        self.until
    }

    /// Is it time to try?
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_first_change_is_taken_at_once_the_next_after_the_period() {
        let mut gate = Gate::new(seconds(1));
        assert_eq!(gate.opens(), Duration::ZERO);
        gate.close(seconds(5));
        assert_eq!(gate.opens(), seconds(6));
        gate.open();
        gate.close(seconds(7));
        assert_eq!(gate.opens(), seconds(7), "nothing is held back any more");
    }

    #[test]
    fn pauses_double_up_to_the_sync_period() {
        let mut backoff = Backoff::new(Periods::default());
        let pauses: Vec<_> = (0..7)
            .map(|_| backoff.fail(seconds(10)).as_secs())
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert!(!backoff.is_over(seconds(39)));
        assert!(backoff.is_over(seconds(40)));
        backoff.hurry();
        assert!(!backoff.is_over(seconds(10)), "not at once, even so");
        assert!(backoff.is_over(seconds(11)));
        backoff.reset();
        assert!(backoff.is_over(seconds(10)));
        assert_eq!(backoff.fail(seconds(50)), seconds(1), "from the beginning");
    }

    #[test]
    fn a_short_sync_period_is_kept() {
        let mut backoff = Backoff::new(Periods {
            min_sync: Duration::ZERO,
            sync: Duration::from_millis(100),
        });
        assert_eq!(backoff.fail(seconds(1)), Duration::from_millis(100));
        assert_eq!(backoff.fail(seconds(2)), Duration::from_millis(100));
    }
}
