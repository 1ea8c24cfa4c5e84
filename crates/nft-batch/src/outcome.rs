//! What became of a transaction.

use core::fmt;
use core::ops::Range;

use nl_codec::ack::Errno;

use crate::OpError;

/// What became of a batch. There is no "probably": what the kernel did not say is
/// [`Outcome::Unknown`], to be resolved by looking ([`crate::Connection::resolve`]), never by sending
/// the batch again.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a transaction may have failed"]
#[non_exhaustive]
pub enum Outcome {
    /// All of it is in the kernel.
    Committed(Committed),
    /// The kernel refused it, and nothing of the refused transaction is there.
    Rejected(Rejected),
    /// The ruleset was changed by somebody since the generation for which the batch was made.
    /// Nothing of the batch is there: read again, plan again.
    GenerationMismatch(GenerationMismatch),
    /// It left this process, but the kernel's answer did not arrive.
    Unknown(Unknown),
    /// It was never sent; nothing of it is there.
    NotSent(NotSent),
}

impl Outcome {
    /// Whether all of it is in the kernel.
    #[must_use]
    pub fn is_committed(&self) -> bool {
        matches!(self, Self::Committed(_))
    }

    /// How far a batch got that was split into several transactions.
    #[must_use]
    pub fn progress(&self) -> Progress {
        match self {
            Self::Committed(it) => it.progress,
            Self::Rejected(it) => it.progress,
            Self::GenerationMismatch(it) => it.progress,
            Self::Unknown(it) => it.progress,
            Self::NotSent(it) => it.progress,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed(_) => f.write_str("committed")?,
            Self::Rejected(it) => {
                f.write_str("rejected: ")?;
                for (at, error) in it.errors.iter().enumerate() {
                    write!(f, "{}{error}", if at == 0 { "" } else { "; " })?;
                }
                if !it.complete {
                    f.write_str("; more errors were lost")?;
                }
            }
            Self::GenerationMismatch(it) => write!(
                f,
                "made for generation {}, which is no longer current",
                it.expected
            )?,
            Self::Unknown(it) => write!(f, "unknown: {}", it.reason)?,
            Self::NotSent(it) => write!(f, "not sent: {}", it.reason)?,
        }
        let progress = self.progress();
        if progress.parts > 1 {
            write!(
                f,
                " ({} of {} transactions committed)",
                progress.committed, progress.parts
            )?;
        }
        Ok(())
    }
}

/// A batch is one transaction, or several when it had to be split.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// Transactions of which the batch consists.
    pub parts: u32,
    /// Of these, committed ones; always the first ones.
    pub committed: u32,
}

/// See [`Outcome::Committed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed {
    /// Number of transactions.
    pub progress: Progress,
    /// The generation which the batch made, known if it was made for a generation itself.
    pub generation: Option<u32>,
}

/// See [`Outcome::Rejected`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rejected {
    /// One error per bad message, in wire order; of the elements in one message the kernel reports
    /// the first bad one.
    pub errors: Vec<OpError>,
    /// Whether these are all of them; false if some were lost in a full receive buffer.
    pub complete: bool,
    /// How far the batch got before.
    pub progress: Progress,
}

/// See [`Outcome::GenerationMismatch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct GenerationMismatch {
    /// What the (part of the) batch was made for.
    pub expected: u32,
    /// How far the batch got before.
    pub progress: Progress,
}

/// See [`Outcome::Unknown`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unknown {
    /// Why it is not known.
    pub reason: UnknownReason,
    /// The generation read just before sending.
    pub generation_before: Option<u32>,
    /// How far the batch got before.
    pub progress: Progress,
    /// Messages of the transaction in question, in wire order.
    pub(crate) part: Range<u32>,
}

/// Why an outcome is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownReason {
    /// ENOBUFS: the receive buffer was full and replies were lost.
    RepliesLost,
    /// A reply did not fit the buffer (`MSG_TRUNC`).
    ReplyTruncated,
    /// A reply could not be decoded.
    ReplyMalformed,
    /// The kernel did not acknowledge.
    NoAck,
    /// `recvmsg` failed.
    Receive(Errno),
    /// `sendmsg` was interrupted, and the generation has changed meanwhile.
    SendInterrupted,
    /// `sendmsg` took only part of the datagram, which netlink never does.
    ShortSend,
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RepliesLost => f.write_str("replies were lost (ENOBUFS)"),
            Self::ReplyTruncated => f.write_str("a reply was truncated"),
            Self::ReplyMalformed => f.write_str("a reply was malformed"),
            Self::NoAck => f.write_str("no acknowledgement"),
            Self::Receive(errno) => write!(f, "receive: {errno}"),
            Self::SendInterrupted => f.write_str("send was interrupted"),
            Self::ShortSend => f.write_str("only part was sent"),
        }
    }
}

/// See [`Outcome::NotSent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotSent {
    /// Why.
    pub reason: NotSentReason,
    /// How far the batch got before.
    pub progress: Progress,
}

/// Why a transaction was not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotSentReason {
    /// It, or a part of it that must stay together, is longer than the send buffer can be made
    /// (EMSGSIZE). [`crate::BatchOptions::split`] lets the engine cut batches, if that was off.
    TooLong {
        /// Bytes of the shortest datagram that would do.
        len: usize,
        /// Bytes that can be sent.
        limit: usize,
    },
    /// It consists of more pieces of memory than one system call takes (over 256 MiB).
    TooManyPieces,
    /// `sendmsg` failed: ENOBUFS and ENOMEM without memory for the datagram, EAGAIN when the
    /// socket is busy.
    Send(Errno),
    /// The socket's send buffer size could not be read.
    Limit(Errno),
}

impl fmt::Display for NotSentReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { len, limit } => write!(
                f,
                "{len} bytes are more than the send buffer's {limit} (EMSGSIZE)"
            ),
            Self::TooManyPieces => f.write_str("too long for one system call"),
            Self::Send(errno) => write!(f, "send: {errno}"),
            Self::Limit(errno) => write!(f, "send buffer size: {errno}"),
        }
    }
}

/// What the kernel says to a batch that it was shown but not asked to commit.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Check {
    /// Nothing is wrong with it.
    Fine,
    /// It would be rejected.
    Bad(Vec<OpError>),
    /// Answers were lost.
    Unknown(UnknownReason),
    /// It could not be sent.
    NotSent(NotSentReason),
}
