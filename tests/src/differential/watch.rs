//! A limit for what must not take for ever, wherever it stays.

use core::time::Duration;
use std::{
    process,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result};

/// Ends the process, with a message, should a step take longer than its limit. Ended when dropped.
#[derive(Debug)]
pub(super) struct Watch(Arc<Watched>);

#[derive(Debug)]
struct Watched {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// What is done, and since when; nothing when all is done.
    doing: Option<(String, Instant)>,
}

impl Watch {
    /// Begins.
    pub(super) fn start(doing: String, limit: Duration) -> Result<Self> {
        let watched = Arc::new(Watched {
            state: Mutex::new(State {
                doing: Some((doing, Instant::now())),
            }),
            changed: Condvar::new(),
        });
        let other = Arc::clone(&watched);
        thread::Builder::new()
            .name("watch".into())
            .spawn(move || {
                if let Some(late) = other.first_over(limit) {
                    // Nothing else gets a thread back that waits for ever; the kernel kills the
                    // programs.
                    eprintln!("{late} is not over after {limit:?}; this run ends here");
                    process::exit(1);
                }
            })
            .context("start a thread")?;
        Ok(Self(watched))
    }

    /// What is done from now on.
    pub(super) fn next(&self, doing: String) {
        self.0.lock().doing = Some((doing, Instant::now()));
        self.0.changed.notify_all();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.lock().doing = None;
        self.0.changed.notify_all();
    }
}

impl Watched {
    /// What took longer than the limit; nothing when all was over in time.
    fn first_over(&self, limit: Duration) -> Option<String> {
        let mut state = self.lock();
        loop {
            let (doing, since) = state.doing.as_ref()?;
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Some(doing.clone());
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched() -> Watched {
        Watched {
            state: Mutex::new(State {
                doing: Some(("first".into(), Instant::now())),
            }),
            changed: Condvar::new(),
        }
    }

    #[test]
    fn what_does_not_end_is_named() {
        let late = watched().first_over(Duration::from_millis(1));
        assert_eq!(late.as_deref(), Some("first"));
    }

    #[test]
    fn each_step_has_the_whole_limit() {
        let watch = Watch(Arc::new(watched()));
        let waiting = Arc::clone(&watch.0);
        let waiting = thread::spawn(move || waiting.first_over(Duration::from_secs(3600)));
        watch.next("second".into());
        drop(watch);
        assert_eq!(waiting.join().unwrap(), None);
    }
}
