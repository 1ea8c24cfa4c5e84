//! What the engine needs from a netlink socket, as a trait: the real one is [`crate::Socket`],
//! tests put faulty ones and fake kernels in its place.

use std::io::IoSlice;
use std::time::Instant;

use crate::Errno;

/// One received datagram; its bytes are in the buffer handed to [`Transport::recv`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    /// Bytes in the buffer.
    pub len: usize,
    /// The datagram was longer than the buffer (`MSG_TRUNC`).
    pub truncated: bool,
    /// `nl_pid` of the sender; 0 is the kernel, anything else some process.
    pub sender: u32,
}

/// Whether [`Transport::recv`] may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// `EAGAIN` when nothing is queued. The kernel handles a request inside `sendmsg`, and
    /// produces the next part of a dump inside `recvmsg`, so every reply is queued by then and
    /// an empty queue is an answer, not a reason to wait.
    No,
    /// Until something arrives, or this time passes (`ETIMEDOUT`); `None` is for ever.
    Until(Option<Instant>),
}

/// A netlink socket of family `NETLINK_NETFILTER`.
pub trait Transport {
    /// Our port id (`nl_pid`), which replies carry.
    fn port(&self) -> u32;

    /// Sends the parts as one datagram to the kernel.
    ///
    /// # Errors
    /// What `sendmsg(2)` says, `EINTR` included.
    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno>;

    /// Receives one datagram.
    ///
    /// # Errors
    /// What `recvmsg(2)` and `poll(2)` say, `EINTR` included.
    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno>;

    /// Tries to make room for a datagram of `len` bytes and returns the longest one that can be
    /// sent now, which may be more or less than `len`.
    ///
    /// # Errors
    /// When the limit cannot even be read.
    fn reserve(&mut self, len: usize) -> Result<usize, Errno>;
}

impl<T: Transport + ?Sized> Transport for &mut T {
    fn port(&self) -> u32 {
        (**self).port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        (**self).send(parts)
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        (**self).recv(buf, wait)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        (**self).reserve(len)
    }
}
