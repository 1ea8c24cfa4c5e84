//! Where captures are played.

use std::fs::File;
use std::path::PathBuf;
use std::{io, thread};

use nix::sched::{CloneFlags, setns, unshare};
use thiserror::Error;

/// A network namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A new one, gone afterwards.
    Fresh,
    /// One that `ip netns` names, or a path such as `/proc/PID/ns/net`.
    Named(String),
    /// The calling thread's.
    Current,
}

/// Why there is no namespace to play in.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NamespaceError {
    /// It cannot be made.
    #[error("cannot make a network namespace: {0}; it takes root, or user namespaces")]
    New(io::Error),
    /// It cannot be entered.
    #[error("network namespace {name}: {error}")]
    Enter {
        /// Name or path.
        name: String,
        /// Why.
        error: io::Error,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(io::Error),
}

/// Runs `job` in a network namespace.
///
/// # Errors
/// See [`NamespaceError`].
pub fn in_place<R: Send>(
    place: &Place,
    job: impl FnOnce() -> R + Send,
) -> Result<R, NamespaceError> {
    if *place == Place::Current {
        return Ok(job());
    }
    thread::scope(|scope| {
        let thread = thread::Builder::new().spawn_scoped(scope, || {
            enter(place)?;
            Ok(job())
        });
        let thread = thread.map_err(NamespaceError::Thread)?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn enter(place: &Place) -> Result<(), NamespaceError> {
    match place {
        Place::Current => Ok(()),
        Place::Fresh => unshare(CloneFlags::CLONE_NEWNET)
            .map_err(|errno| NamespaceError::New(io::Error::from(errno))),
        Place::Named(name) => {
            let path = if name.contains('/') {
                PathBuf::from(name)
            } else {
                PathBuf::from("/run/netns").join(name)
            };
            let fail = |error| NamespaceError::Enter {
                name: name.clone(),
                error,
            };
            let file = File::open(path).map_err(fail)?;
            setns(file, CloneFlags::CLONE_NEWNET).map_err(|errno| fail(errno.into()))
        }
    }
}
