//! When something went out of use: only so long after may it be deleted.

use core::time::Duration;

/// It is in use.
pub(crate) const IN_USE: u64 = u64::MAX;

/// It goes out of use with the transaction in flight.
pub(crate) const PENDING: u64 = u64::MAX - 1;

/// Nanoseconds of a time.
pub(crate) fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).map_or(PENDING - 1, |ticks| ticks.min(PENDING - 1))
}

/// Has something been out of use for that long?
pub(crate) fn is_over(since: u64, hold: u64, now: u64) -> bool {
    since < PENDING && since.saturating_add(hold) <= now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_out_of_use_long_enough_is_over() {
        let now = ticks(Duration::from_secs(5));
        assert!(is_over(now - 10, 10, now));
        assert!(!is_over(now - 9, 10, now));
        assert!(!is_over(IN_USE, 0, now));
        assert!(!is_over(PENDING, 0, now));
        assert!(ticks(Duration::MAX) < PENDING);
    }
}
