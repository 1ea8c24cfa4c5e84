//! Errors. What the kernel answers to a transaction is no error but an [`crate::Outcome`].

use nl_codec::{DecodeError, EncodeError};
use thiserror::Error;

use crate::Errno;

/// Why no connection could be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A system call on the new socket failed.
    #[error("netlink socket: {call}: {errno}")]
    Socket {
        /// The call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
    /// The network namespace could not be entered.
    #[error("cannot enter the network namespace: {errno}")]
    Namespace {
        /// Error of `setns(2)`.
        errno: Errno,
    },
    /// The thread that opens the socket ended early.
    #[error("the thread that opens the socket failed")]
    Thread,
    /// The kernel answered the first question with an error: EPERM without `CAP_NET_ADMIN` in the
    /// network namespace's user namespace, EINVAL or EOPNOTSUPP without nf_tables.
    #[error("nf_tables: {0}")]
    Query(#[from] QueryError),
}

/// Why an operation could not be added to a batch. The batch is as before then.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// It cannot be encoded.
    #[error("{what}: {error}")]
    Encode {
        /// Kind of operation.
        what: &'static str,
        /// Why.
        error: EncodeError,
    },
    /// A name is longer than 255 bytes (`NFT_NAME_MAXLEN` - 1); the kernel would answer ERANGE.
    #[error("{what} name of {len} bytes is longer than 255: {name}")]
    NameTooLong {
        /// Kind of object.
        what: &'static str,
        /// Its length in bytes.
        len: usize,
        /// The name's first 64 bytes.
        name: String,
    },
    /// A mandatory part of the object is missing.
    #[error("{what} without {field}")]
    Missing {
        /// Kind of operation.
        what: &'static str,
        /// What it needs.
        field: &'static str,
    },
    /// A [`crate::SetRef`] of another batch.
    #[error("set reference of another batch")]
    ForeignSet,
    /// More operations, sets or sections than 32 (16) bits can number.
    #[error("too many {0} in one batch")]
    TooMany(&'static str),
    /// The kernel lacks a message and there is no way around it.
    #[error("this kernel cannot {0}")]
    Unsupported(&'static str),
}

/// Why a question to the kernel (dump, read by key, generation) has no answer.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// The kernel's error, ENOENT for what does not exist.
    #[error("{what}: {errno}")]
    Kernel {
        /// The question.
        what: &'static str,
        /// The answer.
        errno: Errno,
    },
    /// The request could not be sent.
    #[error("{what}: send: {errno}")]
    Send {
        /// The question.
        what: &'static str,
        /// Error of `sendmsg(2)`.
        errno: Errno,
    },
    /// The reply could not be read; ENOBUFS when part of it was lost.
    #[error("{what}: receive: {errno}")]
    Receive {
        /// The question.
        what: &'static str,
        /// Error of `recvmsg(2)`.
        errno: Errno,
    },
    /// A reply did not fit the receive buffer.
    #[error("{what}: reply truncated")]
    Truncated {
        /// The question.
        what: &'static str,
    },
    /// No reply.
    #[error("{what}: no reply")]
    NoReply {
        /// The question.
        what: &'static str,
    },
    /// The request could not be encoded.
    #[error("{what}: {error}")]
    Encode {
        /// The question.
        what: &'static str,
        /// Why.
        error: EncodeError,
    },
    /// The reply could not be decoded.
    #[error("{what}: {error}")]
    Decode {
        /// The question.
        what: &'static str,
        /// Why.
        error: DecodeError,
    },
}

impl QueryError {
    /// The kernel's or system call's error number, if there is one.
    #[must_use]
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel { errno, .. } | Self::Send { errno, .. } | Self::Receive { errno, .. } => {
                Some(*errno)
            }
            _ => None,
        }
    }
}
