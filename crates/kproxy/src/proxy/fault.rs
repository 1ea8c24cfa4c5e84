//! What the log says of a family that cannot be programmed: a line when that begins or has another reason,
//! a reminder once a minute while it goes on, and a line when it is over. Not one a try: with each change
//! there is one.

use core::time::Duration;

use svc_planner::plan::Family;

use crate::engine::EngineError;

/// How often it is mentioned that something still fails.
const REMINDER: Duration = Duration::from_secs(60);

/// See the module. Times are of the engine's clock.
#[derive(Debug, Default)]
pub(super) struct Fault(Option<Failing>);

#[derive(Debug)]
struct Failing {
    since: Duration,
    tries: u64,
    /// What was said last, and when it is said again.
    said: String,
    reminder: Duration,
}

impl Fault {
    /// A try failed; the next one is after `pause`.
    pub(super) fn failed(
        &mut self,
        family: Family,
        error: &EngineError,
        pause: Duration,
        now: Duration,
    ) {
        let text = error.to_string();
        let next = pause.as_secs_f64();
        match self.note(&text, now) {
            Some(1) => tracing::error!("{family}: {text}; next try in {next:.1} s"),
            Some(tries) => {
                tracing::error!("{family}: failed {tries} times: {text}; next try in {next:.1} s");
            }
            None => tracing::debug!("{family}: {text}; next try in {next:.1} s"),
        }
    }

    /// A try succeeded.
    pub(super) fn succeeded(&mut self, family: Family, now: Duration) {
        if let Some(Failing { since, tries, .. }) = self.0.take() {
            let seconds = now.saturating_sub(since).as_secs_f64();
            tracing::info!(
                "{family}: in force again; {tries} tries had failed, the first {seconds:.1} s ago"
            );
        }
    }

    /// Counts a failure; the number if it is to be told.
    fn note(&mut self, text: &str, now: Duration) -> Option<u64> {
        let failing = self.0.get_or_insert_with(|| Failing {
            since: now,
            tries: 0,
            said: String::new(),
            reminder: now,
        });
        failing.tries += 1;
        if failing.said == text && now < failing.reminder {
            return None;
        }
        failing.said = text.to_owned();
        failing.reminder = now.saturating_add(REMINDER);
        Some(failing.tries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_fault_and_a_reminder() {
        let mut fault = Fault::default();
        let at = Duration::from_secs;
        let told = [
            (0, "a"),
            (1, "a"),
            (2, "b"),
            (3, "b"),
            (61, "b"),
            (62, "b"),
            (63, "b"),
        ]
        .map(|(time, text)| fault.note(text, at(time)));
        let expected = [Some(1), None, Some(3), None, None, Some(6), None];
        assert_eq!(told, expected);
        fault.succeeded(Family::Ipv4, at(70));
        assert_eq!(fault.note("b", at(71)), Some(1));
    }
}
