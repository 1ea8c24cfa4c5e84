//! A token bucket.

use core::time::Duration;

/// Some tokens at once, then one a period.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bucket {
    period: Duration,
    burst: u32,
    /// When it will have been full again: the earlier, the more tokens there are.
    full: Duration,
}

impl Bucket {
    pub(super) const fn new(burst: u32, period: Duration) -> Self {
        Self {
            period,
            burst,
            full: Duration::ZERO,
        }
    }

    /// Takes a token; without one says when there will be one.
    pub(super) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let full = self.full.max(now).saturating_add(self.period);
        let room = self.period.saturating_mul(self.burst.max(1));
        match full.checked_sub(room) {
            Some(there) if there > now => Err(there),
            _ => {
                self.full = full;
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_a_period() {
        let at = Duration::from_secs;
        let mut bucket = Bucket::new(3, at(10));
        let mut take = |seconds| bucket.take(at(seconds));
        assert_eq!([take(0), take(0), take(1)], [Ok(()); 3]);
        assert_eq!(take(2), Err(at(10)));
        assert_eq!(take(10), Ok(()));
        assert_eq!(take(19), Err(at(20)));
        // After a rest there is no more than a burst.
        assert_eq!([take(500), take(500), take(500)], [Ok(()); 3]);
        assert_eq!(take(500), Err(at(510)));
    }
}
