//! How the watches are doing, for health, metrics and logs.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::api::Kind;
use crate::metrics::Skipped;

/// Where the state of all watches can be read from other threads; clones share it.
#[derive(Debug, Clone, Default)]
pub struct ApiBoard(Arc<Mutex<Vec<WatchStatus>>>, Arc<Skipped>);

/// One kind of objects.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WatchStatus {
    /// Kind.
    pub kind: Kind,
    /// All objects that there were have been received once.
    pub synced: bool,
    /// The server does not have this kind (which is all right for ServiceCIDRs on old servers).
    pub absent: bool,
    /// Objects that the server holds, as far as is known.
    pub objects: usize,
    /// Objects received since the start, each time they were.
    pub received: u64,
    /// Objects that could not be read.
    pub unreadable: u64,
    /// Times that all objects were received, the first one included.
    pub lists: u64,
    /// Requests for a watch.
    pub watches: u64,
    /// Times that something went wrong.
    pub errors: u64,
    /// What went wrong at last, until the server answers again.
    pub last_error: Option<String>,
    /// When last the server sent something.
    pub last_event: Option<Instant>,
}

impl ApiBoard {
    /// The state of each kind that is watched.
    #[must_use]
    pub fn snapshot(&self) -> Vec<WatchStatus> {
        self.lock().clone()
    }

    /// What of the objects could not be used.
    #[must_use]
    pub fn skipped(&self) -> Arc<Skipped> {
        Arc::clone(&self.1)
    }

    /// Whether all objects that there were have been received once.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.all(|it| it.synced || it.absent)
    }

    pub(super) fn all(&self, is: impl FnMut(&WatchStatus) -> bool) -> bool {
        self.lock().iter().all(is)
    }

    pub(crate) fn add(&self, kind: Kind) {
        self.lock().push(WatchStatus {
            kind,
            synced: false,
            absent: false,
            objects: 0,
            received: 0,
            unreadable: 0,
            lists: 0,
            watches: 0,
            errors: 0,
            last_error: None,
            last_event: None,
        });
    }

    pub(crate) fn update(&self, kind: Kind, update: impl FnOnce(&mut WatchStatus)) {
        if let Some(status) = self.lock().iter_mut().find(|it| it.kind == kind) {
            update(status);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<WatchStatus>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
