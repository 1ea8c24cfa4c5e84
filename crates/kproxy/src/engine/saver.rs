//! When to write the state down while work goes on, so that a process that is killed, or another
//! one that only looks, finds what the tables stand for.

use core::time::Duration;

use nft_batch::Transport;

use super::{Engine, EngineError, StateDir, Wait};

/// Of the time, at most one part in so many goes into saving.
const SHARE: u32 = 20;
/// Shortest pause between two saves.
const PAUSE_SHORTEST: Duration = Duration::from_millis(100);
/// Longest pause between two saves.
const PAUSE_LONGEST: Duration = Duration::from_secs(10);

/// Saves the state of an engine: at once when it is idle after a change, but not all the time.
#[derive(Debug)]
pub struct Saver {
    state: Option<StateDir>,
    /// Not before this time of the engine's clock.
    due: Duration,
}

impl Saver {
    /// Saves to `state`; without one, nothing is ever saved.
    #[must_use]
    pub fn new(state: Option<StateDir>) -> Self {
        Self {
            state,
            due: Duration::ZERO,
        }
    }

    /// To be called when the engine has nothing to send: saves what was committed since the last
    /// time, or says when to call again. A failure is logged and tried again later.
    pub fn idle<T: Transport>(&mut self, engine: &mut Engine<T>) -> Wait {
        let Some(state) = &self.state else {
            return Wait::Change;
        };
        if !engine.is_unsaved() {
            return Wait::Change;
        }
        let start = engine.clock().now();
        if start < self.due {
            return Wait::Until(self.due);
        }
        let saved = engine.save_changed(state);
        let end = engine.clock().now();
        let pause = end.saturating_sub(start).saturating_mul(SHARE);
        match saved {
            Ok(()) => {
                self.due = end + pause.clamp(PAUSE_SHORTEST, PAUSE_LONGEST);
                Wait::Change
            }
            Err(error) => {
                tracing::warn!("state not saved: {error}");
                self.due = end + PAUSE_LONGEST;
                Wait::Until(self.due)
            }
        }
    }

    /// Saves the state for the next process.
    ///
    /// # Errors
    /// As [`Engine::save`].
    pub fn finish<T: Transport>(self, engine: &mut Engine<T>) -> Result<(), EngineError> {
        match &self.state {
            Some(state) => engine.save(state),
            None => Ok(()),
        }
    }
}
