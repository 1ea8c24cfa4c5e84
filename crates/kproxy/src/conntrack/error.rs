//! Why connections could not be looked through.

use nft_batch::{Errno, OpenError};
use nl_codec::{DecodeError, EncodeError};
use thiserror::Error;

/// Why a pass over the conntrack table ended early.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConntrackError {
    /// The kernel has no ctnetlink (module `nf_conntrack_netlink`).
    #[error("the kernel has no ctnetlink (nf_conntrack_netlink): stale UDP connections stay")]
    Missing,
    /// No socket.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The kernel's answer.
    #[error("conntrack: {0}")]
    Kernel(Errno),
    /// `sendmsg` failed.
    #[error("conntrack: send: {0}")]
    Send(Errno),
    /// `recvmsg` failed; ENOBUFS says that replies were lost.
    #[error("conntrack: receive: {0}")]
    Receive(Errno),
    /// The table changed its shape meanwhile, and some of it was not seen.
    #[error("conntrack: the dump was interrupted")]
    Interrupted,
    /// A datagram was longer than the buffer.
    #[error("conntrack: truncated datagram")]
    Truncated,
    /// Nothing came back.
    #[error("conntrack: no reply")]
    NoReply,
    /// A reply that is none.
    #[error("conntrack: {0}")]
    Decode(#[from] DecodeError),
    /// A request too long for its buffer.
    #[error("conntrack: {0}")]
    Encode(#[from] EncodeError),
    /// Nobody will tell any more whether what was found is still stale.
    #[error("conntrack: the process ends")]
    Closed,
}
