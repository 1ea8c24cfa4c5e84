use std::io;

/// What can go wrong while a laboratory is built or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// A system call failed.
    #[error("{what}: {source}")]
    Os {
        /// What was being done.
        what: Box<str>,
        /// The system's answer.
        source: io::Error,
    },
    /// The thread that lives in a namespace is gone (a closure given to it panicked).
    #[error("the thread of network namespace {namespace} has ended")]
    ThreadGone {
        /// Name given to the namespace.
        namespace: Box<str>,
    },
    /// The kernel answered a netlink request with something unreadable.
    #[error("{what}: unreadable netlink reply: {reason}")]
    Reply {
        /// What was being done.
        what: Box<str>,
        /// The decoder's complaint.
        reason: Box<str>,
    },
    /// A host is named that the topology does not have.
    #[error("no host is named {0:?}")]
    NoSuchHost(Box<str>),
    /// User namespaces cannot be entered once the process has more than one thread, or are off.
    #[error("neither root nor allowed to make a user namespace: {0}")]
    NoPrivilege(io::Error),
}

/// Adds what was being done to an error of the system.
pub(crate) trait Doing<T> {
    fn doing(self, what: impl Into<Box<str>>) -> Result<T, LabError>;
}

impl<T, E: Into<io::Error>> Doing<T> for Result<T, E> {
    fn doing(self, what: impl Into<Box<str>>) -> Result<T, LabError> {
        self.map_err(|source| LabError::Os {
            what: what.into(),
            source: source.into(),
        })
    }
}
