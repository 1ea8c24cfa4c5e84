//! What the log says of a family that cannot be programmed.

use core::time::Duration;

use svc_planner::plan::Family;

use crate::engine::EngineError;
use crate::logging::Repeats;

/// Not a line a try: with each change there is one.
#[derive(Debug, Default)]
pub(super) struct Fault(Repeats);

impl Fault {
    /// A try failed; the next one is after `pause`.
    pub(super) fn failed(&mut self, family: Family, error: &EngineError, pause: Duration) {
        let text = error.to_string();
        let next = pause.as_secs_f64();
        match self.0.failed(&text) {
            Some(tries) => tracing::error!("{family}: {tries}{text}; next try in {next:.1} s"),
            None => tracing::debug!("{family}: {text}; next try in {next:.1} s"),
        }
    }

    /// A try succeeded.
    pub(super) fn succeeded(&mut self, family: Family) {
        if let Some(over) = self.0.over() {
            tracing::info!("{family}: in force again; {over}");
        }
    }
}
