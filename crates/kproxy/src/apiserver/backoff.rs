//! How long to wait before the next try: from 0.8 s, twice as long each time, 30 s at most, and then
//! any time up to that ("full jitter"), so that thousands of nodes do not come back at once. After
//! two minutes without a failure it begins anew, as client-go's reflector does.

use core::hash::BuildHasher as _;
use core::time::Duration;
use std::hash::RandomState;

use tokio::time::Instant;

/// See the module.
#[derive(Debug)]
pub(super) struct Backoff {
    limits: Limits,
    next: Duration,
    failed: Option<Instant>,
    random: Random,
}

/// Bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) first: Duration,
    pub(super) most: Duration,
    pub(super) healthy: Duration,
}

impl Backoff {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            next: limits.first,
            failed: None,
            random: Random::default(),
        }
    }

    /// How long to wait after a failure at `now`.
    pub(super) fn fail(&mut self, now: Instant) -> Duration {
        let healthy =
            |failed: Instant| now.saturating_duration_since(failed) >= self.limits.healthy;
        if self.failed.is_some_and(healthy) {
            self.next = self.limits.first;
        }
        self.failed = Some(now);
        let bound = self.next;
        self.next = bound.saturating_mul(2).min(self.limits.most);
        bound.mul_f64(self.random.fraction())
    }
}

/// Numbers that differ from node to node and from call to call; no secret depends on them.
#[derive(Debug, Default)]
pub(super) struct Random {
    keys: RandomState,
    calls: u64,
}

impl Random {
    /// At least 0, less than 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.calls = self.calls.wrapping_add(1);
        let bits = u32::try_from(self.keys.hash_one(self.calls) >> 32).unwrap_or_default();
        f64::from(bits) / (f64::from(u32::MAX) + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew_after_health() {
        let seconds = |seconds: f64| Duration::from_secs_f64(seconds);
        let mut backoff = Backoff::new(Limits {
            first: seconds(0.8),
            most: seconds(30.0),
            healthy: seconds(120.0),
        });
        let mut now = Instant::now();
        for bound in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0] {
            let pause = backoff.fail(now);
            assert!(pause < seconds(bound), "{pause:?} {bound}");
            now += pause;
        }
        now += seconds(120.0);
        assert!(backoff.fail(now) < seconds(0.8));
    }

    #[test]
    fn pauses_are_spread_over_the_whole_range() {
        let mut random = Random::default();
        let mut tenths = [0_u32; 10];
        for _ in 0..10_000 {
            let tenth = (0..10).find(|tenth| random.fraction() < f64::from(*tenth + 1) / 10.0);
            tenths[usize::try_from(tenth.unwrap_or(9)).unwrap()] += 1;
        }
        assert!(tenths[0] > 0);
        let mut random = Random::default();
        let mean = (0..10_000).map(|_| random.fraction()).sum::<f64>() / 10_000.0;
        assert!((0.47..0.53).contains(&mean), "{mean}");
    }
}
