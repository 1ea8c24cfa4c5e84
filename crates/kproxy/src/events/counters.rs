//! What became of events, in numbers.

use core::sync::atomic::{AtomicU64, Ordering};

/// Counted since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) created: AtomicU64,
    pub(super) known: AtomicU64,
    pub(super) failed: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) withdrawn: AtomicU64,
}

/// [`Counters`] at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Events written.
    pub created: u64,
    /// Events that another node had written.
    pub known: u64,
    /// Events given up: the API server refused them, or could not be reached.
    pub failed: u64,
    /// Events that were too many at once, or the same as one before.
    pub dropped: u64,
    /// Faults that were over before they were told.
    pub withdrawn: u64,
}

impl Counters {
    /// The numbers now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            created: read(&self.created),
            known: read(&self.known),
            failed: read(&self.failed),
            dropped: read(&self.dropped),
            withdrawn: read(&self.withdrawn),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
