//! Hand-off of changes from the threads that watch to the one that programs the kernel.
//!
//! A later change of an object replaces an earlier one that was not taken yet, so what waits is
//! bounded by the number of objects, not of events, however long the kernel takes. What is published
//! together is taken together: a Service never without the slices that came with it.
//!
//! One lock, held for as long as it takes to move changes in or out, and one condition variable;
//! `tests/loom.rs` checks all interleavings of small cases.
//!
//! ```
//! use svc_planner::mailbox::{self, Wake};
//! use svc_planner::object::Change;
//!
//! let (publisher, mut receiver) = mailbox::open();
//! std::thread::spawn(move || publisher.publish(Change::NodeGone));
//! assert_eq!(receiver.wait(None), Wake::Changes);
//! assert_eq!(receiver.drain(), [Change::NodeGone]);
//! assert_eq!(receiver.wait(None), Wake::Closed); // The only publisher is gone.
//! ```

mod pending;

use core::time::Duration;
use std::sync::PoisonError;

use thiserror::Error;

use self::pending::Pending;
use crate::object::Change;
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};

/// A new mailbox.
#[must_use]
pub fn open() -> (Publisher, Receiver) {
    let shared = Arc::new(Shared {
        state: Mutex::new(State {
            pending: Pending::default(),
            publishers: 1,
            rung: false,
            closed: false,
            services: 0,
            slices: 0,
        }),
        wake: Condvar::new(),
    });
    (Publisher(Arc::clone(&shared)), Receiver(shared))
}

/// The end where changes go in; a clone for each thread that watches. The mailbox closes when the
/// last one is dropped.
#[derive(Debug)]
pub struct Publisher(Arc<Shared>);

/// The end where changes come out. The mailbox closes when it is dropped.
#[derive(Debug)]
pub struct Receiver(Arc<Shared>);

/// Why [`Receiver::wait`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wake {
    /// There is something to drain.
    Changes,
    /// There is no change, but a [`Bell`] was rung since the last wait.
    Rung,
    /// There is nothing, and nothing will come.
    Closed,
    /// There is nothing yet. The time is over, or almost: a system may wake threads early.
    Timeout,
}

/// The mailbox is closed; what was to be published was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("nobody takes changes any more")]
pub struct Closed;

impl Publisher {
    /// Publishes one change.
    ///
    /// # Errors
    /// [`Closed`].
    pub fn publish(&self, change: Change) -> Result<(), Closed> {
        self.publish_all([change])
    }

    /// Publishes changes that belong together, as those of one file or list: one
    /// [`Receiver::drain`] gets them all, or what replaced them.
    ///
    /// # Errors
    /// [`Closed`]; then none of them was published.
    pub fn publish_all(&self, changes: impl IntoIterator<Item = Change>) -> Result<(), Closed> {
        // Whatever making them takes is not spent under the lock.
        let changes: Vec<_> = changes.into_iter().collect();
        let mut state = self.0.lock();
        if state.closed {
            return Err(Closed);
        }
        let before = state.wake();
        for change in changes {
            match &change {
                Change::Service(_) | Change::ServiceGone(_) => state.services += 1,
                Change::EndpointSlice(_) | Change::EndpointSliceGone(_) => state.slices += 1,
                _ => {}
            }
            state.pending.put(change);
        }
        let wake = before != state.wake();
        drop(state);
        // The receiver sleeps only while there is nothing.
        if wake {
            self.0.wake.notify_one();
        }
        Ok(())
    }

    /// Closes the mailbox for every publisher. What was published is still there to be drained.
    pub fn close(&self) {
        self.0.close();
    }
}

impl Clone for Publisher {
    fn clone(&self) -> Self {
        self.0.lock().publishers += 1;
        Self(Arc::clone(&self.0))
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.publishers -= 1;
        let last = state.publishers == 0;
        drop(state);
        if last {
            self.0.close();
        }
    }
}

/// Wakes the receiver without a change. Does not keep the mailbox open.
#[derive(Debug, Clone)]
pub struct Bell(Arc<Shared>);

/// What came through a mailbox, and what waits in it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Services that changed and wait.
    pub waiting_services: u64,
    /// EndpointSlices that changed and wait.
    pub waiting_slices: u64,
    /// Changes of Services since the mailbox was opened, replaced ones included.
    pub services: u64,
    /// The same of EndpointSlices.
    pub slices: u64,
}

impl Bell {
    /// What came, and what waits.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        let state = self.0.lock();
        let [waiting_services, waiting_slices] = state.pending.waiting();
        Traffic {
            waiting_services,
            waiting_slices,
            services: state.services,
            slices: state.slices,
        }
    }

    /// Has the receiver's current or next [`wait`](Receiver::wait) end.
    pub fn ring(&self) {
        let mut state = self.0.lock();
        let silent = !core::mem::replace(&mut state.rung, true);
        drop(state);
        if silent {
            self.0.wake.notify_one();
        }
    }
}

impl Receiver {
    /// Waits until there is something to drain, a bell is rung, the mailbox is closed or `timeout`
    /// is over; `None` is no timeout.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Wake {
        let mut state = self.0.lock();
        if let Some(timeout) = timeout {
            if state.wake() == Wake::Timeout {
                let waited = self.0.wake.wait_timeout(state, timeout);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            return state.take_wake();
        }
        while state.wake() == Wake::Timeout {
            let waited = self.0.wake.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.take_wake()
    }

    /// A bell that wakes this end.
    #[must_use]
    pub fn bell(&self) -> Bell {
        Bell(Arc::clone(&self.0))
    }

    /// Waits until the mailbox is closed, a bell is rung or `timeout` is over, or almost, whatever
    /// is published meanwhile; true if it is closed.
    pub fn pause(&mut self, timeout: Duration) -> bool {
        let mut state = self.0.lock();
        if !state.closed && !state.rung {
            let waited = self.0.wake.wait_timeout(state, timeout);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.rung = false;
        state.closed
    }

    /// Takes everything published so far, one change an object, in the order in which the objects
    /// were first published since the last call.
    #[must_use]
    pub fn drain(&mut self) -> Vec<Change> {
        core::mem::take(&mut self.0.lock().pending).into_changes()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug)]
struct State {
    pending: Pending,
    publishers: usize,
    rung: bool,
    closed: bool,
    /// Changes published, by kind.
    services: u64,
    slices: u64,
}

impl Shared {
    /// No panic leaves the state half changed, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self) {
        self.lock().closed = true;
        self.wake.notify_one();
    }
}

impl State {
    /// What a wait would say if it had to end now.
    fn wake(&self) -> Wake {
        match (self.pending.is_empty(), self.closed) {
            (false, _) => Wake::Changes,
            (true, true) => Wake::Closed,
            (true, false) if self.rung => Wake::Rung,
            (true, false) => Wake::Timeout,
        }
    }

    /// The same, at the end of a wait: whatever woke it, a bell has been heard.
    fn take_wake(&mut self) -> Wake {
        let wake = self.wake();
        self.rung = false;
        wake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_published_outlives_the_close() {
        let (publisher, mut receiver) = open();
        let other = publisher.clone();
        assert_eq!(publisher.publish(Change::NodeGone), Ok(()));
        other.close();
        assert_eq!(publisher.publish(Change::NodeGone), Err(Closed));
        assert_eq!(receiver.wait(None), Wake::Changes);
        assert_eq!(receiver.drain(), [Change::NodeGone]);
        assert_eq!(receiver.wait(None), Wake::Closed);
        assert_eq!(receiver.drain(), []);
    }

    #[test]
    fn it_closes_with_the_last_publisher_and_with_the_receiver() {
        let (publisher, mut receiver) = open();
        let other = publisher.clone();
        drop(publisher);
        assert_eq!(receiver.wait(Some(Duration::ZERO)), Wake::Timeout);
        drop(other);
        assert_eq!(receiver.wait(None), Wake::Closed);

        let (publisher, receiver) = open();
        drop(receiver);
        assert_eq!(publisher.publish(Change::NodeGone), Err(Closed));
    }

    #[test]
    fn a_bell_is_heard_once_and_keeps_nothing_open() {
        let (publisher, mut receiver) = open();
        let bell = receiver.bell();
        bell.ring();
        bell.ring();
        assert_eq!(receiver.wait(None), Wake::Rung);
        assert_eq!(receiver.wait(Some(Duration::ZERO)), Wake::Timeout);
        bell.ring();
        assert_eq!(publisher.publish(Change::NodeGone), Ok(()));
        assert_eq!(receiver.wait(None), Wake::Changes);
        assert_eq!(receiver.drain(), [Change::NodeGone]);
        assert_eq!(receiver.wait(Some(Duration::ZERO)), Wake::Timeout);
        drop(publisher);
        bell.ring();
        assert_eq!(receiver.wait(None), Wake::Closed);
    }

    #[test]
    fn what_comes_is_counted() {
        let (publisher, mut receiver) = open();
        let bell = receiver.bell();
        let gone = || {
            Change::EndpointSliceGone(crate::object::ObjectName {
                namespace: "default".into(),
                name: "web".into(),
            })
        };
        assert_eq!(
            publisher.publish_all([gone(), Change::NodeGone, gone()]),
            Ok(())
        );
        let waiting = Traffic {
            waiting_slices: 1,
            slices: 2,
            ..Traffic::default()
        };
        assert_eq!(bell.traffic(), waiting);
        assert_eq!(receiver.drain().len(), 2);
        let taken = Traffic {
            waiting_slices: 0,
            ..waiting
        };
        assert_eq!(bell.traffic(), taken);
    }

    #[test]
    fn nothing_is_nothing_to_wake_up_for() {
        let (publisher, mut receiver) = open();
        assert_eq!(publisher.publish_all([]), Ok(()));
        assert_eq!(receiver.wait(Some(Duration::ZERO)), Wake::Timeout);
    }
}
