//! Which network namespace to work in, and what keeps one from it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::thread;

use nft_batch::{Errno, OpenError};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use thiserror::Error;

/// Where `ip netns` keeps namespaces.
const NETNS_FOLDER: &str = "/run/netns";

/// A network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Netns {
    /// The calling thread's.
    #[default]
    Current,
    /// One that `ip netns` names.
    Named(String),
    /// One behind a file, e.g. `/proc/PID/ns/net`.
    Path(PathBuf),
}

/// A namespace that cannot be opened.
#[derive(Debug, Error)]
#[error("network namespace {name}: {error}")]
pub struct NetnsError {
    /// Name or path.
    pub name: String,
    /// Why.
    #[source]
    pub error: io::Error,
}

/// Why a part of kproxy that works in a network namespace does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// The network namespace cannot be opened.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// The kernel's netlink cannot be reached.
    #[error("{source}{}", hint(.source))]
    Open {
        /// Why.
        #[from]
        source: OpenError,
    },
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}

impl From<&str> for Netns {
    /// A word with a slash in it is a path.
    fn from(name: &str) -> Self {
        if name.contains('/') {
            Self::Path(name.into())
        } else {
            Self::Named(name.to_owned())
        }
    }
}

impl Netns {
    /// Opens it; `None` for the current one.
    ///
    /// # Errors
    /// See [`NetnsError`].
    pub fn open(&self) -> Result<Option<File>, NetnsError> {
        let path = match self {
            Self::Current => return Ok(None),
            Self::Named(name) => PathBuf::from(NETNS_FOLDER).join(name),
            Self::Path(path) => path.clone(),
        };
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Does `work` in the namespace, on a thread of its own unless it is the current one.
    ///
    /// # Errors
    /// When it cannot be opened or entered.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        let Some(file) = self.open()? else {
            return Ok(work());
        };
        thread::scope(|scope| {
            // A thread that has entered another namespace is of no other use.
            let inside = thread::Builder::new().spawn_scoped(scope, move || {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(work())
            });
            let inside = inside.map_err(|error| self.error(error))?;
            let done = inside
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            done.map_err(|error| self.error(error))
        })
    }

    fn error(&self, error: io::Error) -> NetnsError {
        NetnsError {
            name: match self {
                Self::Current => "of this process".to_owned(),
                Self::Named(name) => name.clone(),
                Self::Path(path) => path.display().to_string(),
            },
            error,
        }
    }
}

/// What to do about the most frequent error.
fn hint(error: &OpenError) -> &'static str {
    let refused = match error {
        OpenError::Socket { errno, .. } | OpenError::Namespace { errno } => *errno == Errno::EPERM,
        OpenError::Query(query) => query.errno() == Some(Errno::EPERM),
        _ => false,
    };
    if refused {
        " (CAP_NET_ADMIN in the network namespace is needed)"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        assert_eq!(Netns::from("blue"), Netns::Named("blue".to_owned()));
        let path = "/proc/self/ns/net";
        assert_eq!(Netns::from(path), Netns::Path(path.into()));
        assert!(Netns::from(path).open().unwrap().is_some());
        assert!(Netns::Current.open().unwrap().is_none());
        let error = Netns::from("no-such-namespace").open().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("network namespace no-such-namespace: ")
        );
    }
}
