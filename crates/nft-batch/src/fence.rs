//! Whether anybody committed while nobody listened.
//!
//! Listening to events makes every transaction dearer, so a program that loads much does not listen
//! meanwhile ([`crate::Events`]). Each transaction of anyone moves the generation on by one
//! ([`crate::Connection::generation`]): if it has moved by more than our own, something happened that
//! nobody heard.
//!
//! ```text
//! thread that listens    Ear::hear ─────────┐ what was heard last
//! thread that commits    Fence::opened ─ committed ─ closed ─ committed … opened
//!                             └ generation compared ┘ └ only our own may have moved it ┘
//! ```
//! Whatever others commit is heard, or lies behind a generation that one of the two reports as the last
//! before something was missed; `tests/loom.rs` checks all interleavings of small cases.

use std::sync::PoisonError;

use crate::sync::{Arc, Mutex, MutexGuard};

/// No generation has this number.
const BROKEN: u32 = 0;

/// The side of the thread that commits.
#[derive(Debug)]
pub struct Fence {
    heard: Arc<Mutex<Heard>>,
    /// While nobody listens: the generation when that began, moved on by our transactions. Else the
    /// one when the listener was opened. `None` before the first time.
    generation: Option<u32>,
    /// The same without our transactions: all up to this one is known.
    since: u32,
    listening: bool,
}

/// The side of the thread that listens.
#[derive(Debug)]
pub struct Ear(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    /// Last generation.
    last: Option<u32>,
    /// Something was missed after this one.
    missed_after: Option<u32>,
}

impl Fence {
    /// Both sides. What happened before the listener is first [opened](Self::opened) does not count.
    #[must_use]
    pub fn new() -> (Self, Ear) {
        let heard = Arc::new(Mutex::new(Heard::default()));
        let fence = Self {
            heard: Arc::clone(&heard),
            generation: None,
            since: BROKEN,
            listening: false,
        };
        (fence, Ear(heard))
    }

    /// Somebody listens from here on; `generation` was read afterwards. Returns the generation after
    /// which something was missed, if anything was.
    #[must_use]
    pub fn opened(&mut self, generation: u32) -> Option<u32> {
        self.listening = true;
        let before = self.generation.replace(generation);
        let since = core::mem::replace(&mut self.since, generation);
        // Which of the transactions since then were ours, nobody knows.
        before.filter(|before| *before != generation).map(|_| since)
    }

    /// Nobody listens from here on: what had arrived has been heard, and `generation` was read
    /// afterwards. Returns the generation after which something was missed, if anything was.
    #[must_use]
    pub fn closed(&mut self, generation: u32) -> Option<u32> {
        self.listening = false;
        let opened = self.generation.replace(generation);
        self.since = generation;
        let heard = lock(&self.heard).last.take();
        let heard = match (heard, opened) {
            // Of a time before.
            (Some(heard), Some(opened)) if is_before(heard, opened) => Some(opened),
            (heard, opened) => heard.or(opened),
        };
        heard.filter(|heard| *heard != generation)
    }

    /// The listener broke: nothing that follows is heard, until it is [opened](Self::opened).
    pub fn broke(&mut self) {
        self.listening = false;
        self.generation = Some(BROKEN);
        self.since = BROKEN;
    }

    /// So many transactions of our own were committed.
    pub fn committed(&mut self, transactions: u32) {
        let counts = !self.listening && self.generation != Some(BROKEN);
        if let Some(generation) = self.generation.as_mut().filter(|_| counts) {
            for _ in 0..transactions {
                *generation = next_generation(*generation);
            }
        }
    }

    /// The generation after which the listener missed something, if it did since this was last asked.
    #[must_use]
    pub fn take_missed(&mut self) -> Option<u32> {
        lock(&self.heard).missed_after.take()
    }
}

impl Ear {
    /// A transaction was heard of; `complete` if with all that was to be heard of it. False if
    /// something was missed.
    pub fn hear(&self, generation: u32, complete: bool) -> bool {
        let mut heard = lock(&self.0);
        let expected = heard.last.map(next_generation);
        let gap = expected.is_some_and(|expected| expected != generation);
        if gap || !complete {
            heard.miss();
        }
        heard.last = Some(generation);
        !gap && complete
    }

    /// Events were lost.
    pub fn miss(&self) {
        lock(&self.0).miss();
    }
}

impl Heard {
    fn miss(&mut self) {
        let after = self.last.unwrap_or_default();
        self.missed_after.get_or_insert(after);
    }
}

/// The generation that a commit makes of one (`nf_tables_commit`: 0 is left out).
#[must_use]
pub const fn next_generation(generation: u32) -> u32 {
    match generation.wrapping_add(1) {
        0 => 1,
        next => next,
    }
}

/// Whether a generation is older than another; they wrap around.
#[must_use]
pub const fn is_before(generation: u32, other: u32) -> bool {
    let behind = other.wrapping_sub(generation);
    behind != 0 && behind < u32::MAX / 2
}

/// Nothing that can panic happens under the lock.
fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(all(test, not(kproxy_loom)))]
mod tests {
    use super::*;

    #[test]
    fn generations_wrap_around() {
        assert!(is_before(1, 2) && !is_before(2, 2) && !is_before(3, 2));
        assert!(is_before(u32::MAX, 1) && !is_before(1, u32::MAX));
        assert_eq!(next_generation(u32::MAX), 1);
    }

    #[test]
    fn only_our_own_may_move_the_generation() {
        let (mut fence, ear) = Fence::new();
        assert_eq!(fence.opened(u32::MAX - 1), None);
        fence.committed(1);
        assert!(ear.hear(u32::MAX, true));
        assert_eq!(fence.closed(u32::MAX), None);
        // 0 is left out.
        fence.committed(2);
        assert_eq!(fence.opened(2), None);
        assert_eq!(fence.closed(2), None, "nothing was heard, nothing happened");
        fence.committed(1);
        assert_eq!(
            fence.opened(4),
            Some(2),
            "somebody else, before us or after"
        );
        assert_eq!(fence.closed(5), Some(4), "somebody whom nobody heard");
        assert_eq!(fence.opened(5), None);
        assert!(ear.hear(6, true), "the first after a pause");
        assert!(!ear.hear(8, true), "one in between");
        assert_eq!(fence.take_missed(), Some(6));
        ear.miss();
        assert_eq!(fence.take_missed(), Some(8));
        assert_eq!(fence.take_missed(), None);
        fence.broke();
        assert_eq!(fence.opened(7), Some(0), "whatever it is");
    }
}
