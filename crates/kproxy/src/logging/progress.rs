//! How far long work has come.

use core::time::Duration;
use std::time::Instant;

/// How often it is told at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Tells of long work once a second at most, and of short work not at all.
#[derive(Debug)]
pub struct Progress {
    begun: Instant,
    next: Instant,
    told: bool,
}

impl Progress {
    /// Work begins.
    #[must_use]
    pub fn start() -> Self {
        let begun = Instant::now();
        Self {
            begun,
            next: begun + PERIOD,
            told: false,
        }
    }

    /// Is it time to tell? Then for how long it has been at work.
    pub fn due(&mut self) -> Option<Duration> {
        self.due_at(Instant::now())
    }

    fn due_at(&mut self, now: Instant) -> Option<Duration> {
        if now < self.next {
            return None;
        }
        self.next = now + PERIOD;
        self.told = true;
        Some(now.saturating_duration_since(self.begun))
    }

    /// How long it took, if it was told of before.
    #[must_use]
    pub fn end(self) -> Option<Duration> {
        self.told.then(|| self.begun.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_a_second_at_most() {
        let mut progress = Progress::start();
        let begun = progress.begun;
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        let due = [0, 999, 1000, 1500, 1999, 2000, 5000, 5001]
            .map(|time| progress.due_at(at(time)).is_some());
        assert_eq!(due, [false, false, true, false, false, true, true, false]);
        assert!(progress.end().is_some());
        assert_eq!(Progress::start().end(), None);
    }
}
