//! What fails again and again.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

/// How often it is mentioned that something still fails.
const REMINDER: Duration = Duration::from_secs(60);

/// What the log says of something that is tried until it succeeds: a line when that begins to fail or has another
/// reason, a reminder once a minute while it goes on, and one when it is over. Not one a try.
#[derive(Debug, Default)]
pub(crate) struct Repeats(Option<Failing>);

#[derive(Debug)]
struct Failing {
    since: Instant,
    tries: u64,
    /// What was said last, and when it is said again.
    said: String,
    reminder: Instant,
}

impl Repeats {
    /// Counts a failure. Returns how many there are by now if it is to be told.
    pub(crate) fn failed(&mut self, reason: &str) -> Option<Tries> {
        self.failed_at(reason, Instant::now())
    }

    /// It succeeded. Returns what had failed before, if anything.
    pub(crate) fn over(&mut self) -> Option<Over> {
        let Failing { tries, since, .. } = self.0.take()?;
        let since = since.elapsed();
        Some(Over { tries, since })
    }

    fn failed_at(&mut self, reason: &str, now: Instant) -> Option<Tries> {
        let failing = self.0.get_or_insert_with(|| Failing {
            since: now,
            tries: 0,
            said: String::new(),
            reminder: now,
        });
        failing.tries += 1;
        if failing.said == reason && now < failing.reminder {
            return None;
        }
        reason.clone_into(&mut failing.said);
        failing.reminder = now + REMINDER;
        Some(Tries(failing.tries))
    }
}

/// How often something has failed by now. Shown before the reason: nothing, the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tries(u64);

impl fmt::Display for Tries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => Ok(()),
            tries => write!(f, "failed {tries} times: "),
        }
    }
}

/// How often it had failed, and since when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Over {
    tries: u64,
    since: Duration,
}

impl fmt::Display for Over {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tries, seconds) = (self.tries, self.since.as_secs_f64());
        write!(f, "{tries} tries had failed, the first {seconds:.1} s ago")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_fault_and_a_reminder() {
        let mut repeats = Repeats::default();
        assert!(repeats.over().is_none());
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let told = [
            (0, "a"),
            (1, "a"),
            (2, "b"),
            (3, "b"),
            (61, "b"),
            (62, "b"),
            (63, "b"),
        ]
        .map(|(time, reason)| repeats.failed_at(reason, at(time)));
        let expected = [Some(1), None, Some(3), None, None, Some(6), None];
        assert_eq!(told, expected.map(|it| it.map(Tries)));
        assert_eq!(repeats.over().map(|it| it.tries), Some(7));
        assert_eq!(repeats.failed("b"), Some(Tries(1)));
        let shown = [1, 3].map(|tries| Tries(tries).to_string());
        assert_eq!(shown, ["", "failed 3 times: "]);
    }
}
