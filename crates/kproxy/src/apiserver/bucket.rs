//! Not more than `qps` requests a second in the long run, `burst` at once: a token bucket.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use tokio::time::{Instant, sleep_until};

/// See the module.
#[derive(Debug)]
pub(super) struct Bucket(Option<Limited>);

#[derive(Debug)]
struct Limited {
    /// How long one request takes up.
    each: Duration,
    burst: u32,
    /// When the bucket will be (or was) full.
    full: Mutex<Option<Instant>>,
}

impl Bucket {
    /// `None` is no limit.
    pub(super) fn new(rate: Option<(f32, u32)>) -> Self {
        Self(rate.map(|(qps, burst)| Limited {
            each: Duration::try_from_secs_f32(qps.recip()).unwrap_or(Duration::MAX),
            burst,
            full: Mutex::new(None),
        }))
    }

    /// Waits for a token, first come, first served. Returns how long it took.
    pub(super) async fn take(&self) -> Duration {
        let Some(limited) = &self.0 else {
            return Duration::ZERO;
        };
        let now = Instant::now();
        let ready = limited.reserve(now);
        sleep_until(ready).await;
        ready.saturating_duration_since(now)
    }
}

impl Limited {
    /// Takes the next token; when it is there.
    fn reserve(&self, now: Instant) -> Instant {
        let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
        let from = full.map_or(now, |full| full.max(now));
        let until = from.checked_add(self.each).unwrap_or(from);
        *full = Some(until);
        // There are as many tokens less than `burst` as requests are still taking up time.
        let slack = self.each.saturating_mul(self.burst);
        until.checked_sub(slack).map_or(now, |ready| ready.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_free_then_one_after_the_other() {
        let bucket = Bucket::new(Some((5.0, 3))).0.unwrap();
        let start = Instant::now();
        let waits: Vec<_> = (0..6)
            .map(|_| bucket.reserve(start).duration_since(start).as_millis())
            .collect();
        assert_eq!(waits, [0, 0, 0, 200, 400, 600]);
        // A second later five tokens have come, three of which were owed.
        let later = start + Duration::from_secs(1);
        let waits: Vec<_> = (0..3)
            .map(|_| bucket.reserve(later).duration_since(later).as_millis())
            .collect();
        assert_eq!(waits, [0, 0, 200]);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn no_limit_is_no_wait() {
        let bucket = Bucket::new(None);
        for _ in 0..1_000 {
            assert_eq!(bucket.take().await, Duration::ZERO);
        }
    }
}
