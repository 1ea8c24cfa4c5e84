//! Changes on their way from the watches to whoever takes them, all on one thread. Whoever fills it
//! gives way while it is full, so that a list never piles up here.

use std::sync::{Arc, Mutex, PoisonError};

use svc_planner::object::Change;
use tokio::task::yield_now;

/// See the module; clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Outbox(Arc<Mutex<Vec<Change>>>);

/// More than so many are not added to.
const FULL: usize = 128;

impl Outbox {
    pub(super) fn put(&self, change: Change) {
        self.lock().push(change);
    }

    /// Everything that is there.
    pub(super) fn take(&self) -> Vec<Change> {
        core::mem::take(&mut *self.lock())
    }

    /// Gives way until there is room.
    pub(super) async fn room(&self) {
        while self.lock().len() >= FULL {
            yield_now().await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Change>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
