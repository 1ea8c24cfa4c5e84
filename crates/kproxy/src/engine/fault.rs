//! What went wrong between planner and kernel.

use std::io;
use std::path::PathBuf;

use nft_batch::{BatchError, Errno, OpError, OpenError, QueryError};
use svc_planner::plan::Family;
use thiserror::Error;

use super::TABLE;
use crate::lower::LowerError;
use crate::netns::{NetnsError, StartError};

/// Why the engine could not do its work.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// It cannot begin.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The kernel refused a transaction, and no single Service is to blame.
    #[error("the kernel refused a transaction: {0}")]
    Rejected(Box<OpError>),
    /// A transaction was not sent, or its outcome cannot be found out.
    #[error("transaction failed: {0}")]
    NotCommitted(String),
    /// A read failed.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The folder for saved state cannot be used.
    #[error("{}: {error}", path.display())]
    State {
        /// Folder or file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What is sent cannot be recorded.
    #[error("cannot record to {}: {error}", path.display())]
    Record {
        /// File.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process programs this network namespace.
    #[error("another kproxy is at work in this network namespace ({} is locked)", lock.display())]
    Busy {
        /// Its lock.
        lock: PathBuf,
    },
    /// What others do to the tables cannot be listened to.
    #[error("cannot listen to nf_tables events: {0}")]
    Listen(String),
    /// A table of our name belongs to a live process, which alone may change it.
    #[error(
        "table {family} {TABLE} is owned by another process (netlink port {port}): \
         only that one may change it; end it first"
    )]
    Owned {
        /// Family of the table.
        family: Family,
        /// Port id of its netlink socket, often its process id.
        port: u32,
    },
    /// A plan that has no expression in nf_tables.
    #[error("plan cannot be lowered: {0}")]
    Lower(#[from] LowerError),
}

impl From<NetnsError> for EngineError {
    fn from(error: NetnsError) -> Self {
        StartError::from(error).into()
    }
}

impl From<OpenError> for EngineError {
    fn from(error: OpenError) -> Self {
        StartError::from(error).into()
    }
}

impl From<BatchError> for EngineError {
    fn from(error: BatchError) -> Self {
        Self::Lower(error.into())
    }
}

/// What a refused transaction says about the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// We may not change the table: no privilege, or somebody owns it.
    Privilege,
    /// The table is not what the planner believes.
    Damage,
    /// The kernel does not say what in the transaction is bad.
    Whole,
    /// The transaction itself is bad.
    Content,
}

/// Missing and surplus objects mean that somebody changed the table.
pub(super) fn judge(error: &OpError) -> Trouble {
    match error.errno {
        Errno::EPERM => Trouble::Privilege,
        Errno::ENOENT | Errno::EEXIST | Errno::EBUSY | Errno::ENFILE | Errno::EOPNOTSUPP => {
            Trouble::Damage
        }
        _ if is_about_the_whole(error) => Trouble::Whole,
        _ => Trouble::Content,
    }
}

/// Whether the kernel says only that something about the transaction is wrong. What a commit fails for
/// is reported as an error of the first operation.
fn is_about_the_whole(error: &OpError) -> bool {
    error.op.is_none() || matches!(error.errno, Errno::ENOMEM | Errno::EMLINK | Errno::ELOOP)
}
