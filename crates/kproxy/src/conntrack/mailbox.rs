//! Hand-over from the thread that commits to the one that looks through conntrack, for one family.
//!
//! The kernel is ahead of what was told from the first commit of a sync to the end of it: flows to
//! an endpoint that was just committed are none of a stranger. So the publisher says when it begins,
//! and nothing is deleted before it has told what came of it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use svc_planner::flows::FlowChanges;

use super::news::News;

/// Shared by both ends.
#[derive(Debug, Clone, Default)]
pub(super) struct Mailbox(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    news: News,
    /// Transactions are under way, or failed, and what came of them is not told yet.
    ahead: bool,
    closed: bool,
}

impl Mailbox {
    /// The kernel is ahead from now on.
    pub(super) fn begin(&self) {
        self.lock().ahead = true;
    }

    /// The kernel is not ahead any more.
    pub(super) fn publish(&self, changes: FlowChanges) {
        let mut state = self.lock();
        let wake = core::mem::take(&mut state.ahead) || !changes.is_empty();
        if !changes.is_empty() {
            state.news.add(changes);
        }
        drop(state);
        if wake {
            self.0.wake.notify_one();
        }
    }

    /// Nothing will be told any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.0.wake.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Takes what is new, but not while the kernel is ahead of it.
    pub(super) fn take(&self) -> Option<News> {
        let mut state = self.lock();
        (!state.ahead).then(|| core::mem::take(&mut state.news))
    }

    /// Waits until the kernel is not ahead, and takes what is new; `None` if that will not be.
    pub(super) fn settle(&self) -> Option<News> {
        let mut state = self.lock();
        while state.ahead {
            if state.closed {
                return None;
            }
            let wait = self.0.wake.wait(state);
            state = wait.unwrap_or_else(PoisonError::into_inner);
        }
        Some(core::mem::take(&mut state.news))
    }

    /// Waits until there is something to take, the mailbox is closed, or it is `until`; `None` is
    /// for ever. False if the time is over.
    pub(super) fn wait(&self, until: Option<Instant>) -> bool {
        let mut state = self.lock();
        loop {
            if state.closed || (!state.ahead && !state.news.is_empty()) {
                return true;
            }
            let wake = &self.0.wake;
            let Some(until) = until else {
                state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = wake.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No panic leaves the state half changed, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use svc_planner::flows::Frontend;
    use svc_planner::object::Protocol;

    use super::*;

    fn changes(port: u16) -> FlowChanges {
        FlowChanges {
            appeared: vec![Frontend {
                address: None,
                protocol: Protocol::Tcp,
                port,
            }],
            ..FlowChanges::default()
        }
    }

    #[test]
    fn nothing_is_taken_while_the_kernel_is_ahead() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.wait(Some(Instant::now())));
        mailbox.publish(changes(80));
        mailbox.begin();
        assert!(!mailbox.wait(Some(Instant::now())));
        assert!(mailbox.take().is_none());
        mailbox.publish(changes(81));
        assert!(mailbox.wait(None));
        assert_eq!(mailbox.take().unwrap().appeared.len(), 2);
        assert!(!mailbox.wait(Some(Instant::now())));
        assert!(mailbox.take().unwrap().is_empty());
    }

    #[test]
    fn settling_waits_for_what_is_told_or_for_the_end() {
        let mailbox = Mailbox::default();
        mailbox.begin();
        let waiting = {
            let mailbox = mailbox.clone();
            thread::spawn(move || mailbox.settle().map(|news| news.appeared.len()))
        };
        mailbox.publish(changes(80));
        assert_eq!(waiting.join().unwrap(), Some(1));
        mailbox.begin();
        mailbox.close();
        assert!(mailbox.settle().is_none());
        assert!(mailbox.wait(None) && mailbox.is_closed());
    }
}
