//! What changes: events of group NFNLGRP_NFTABLES, one group of them per transaction.
//!
//! The kernel sends a transaction's events one after the other and then the new generation, with
//! the process that committed (`nf_tables_commit`, `nf_tables_gen_notify`). Listening costs the
//! committers: every element becomes a message. To learn merely that something changed, compare
//! [`crate::Connection::generation`], which costs nobody anything.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use nl_codec::ack::Errno;
use nl_codec::msg::{Messages, Msg, MsgType, NfMsg, NftMsg};
use nl_codec::nft::{Generation, Str};
use thiserror::Error;

use crate::connection::RETRIES;
use crate::dump::belongs;
use crate::socket::ETIMEDOUT;
use crate::transport::{Transport, Wait};
use crate::{OpenError, Socket};

/// `NFNLGRP_NFTABLES`.
const GROUP: u32 = 7;
/// The kernel merges events up to a page or two.
const RECV_LEN: usize = 64 << 10;
/// Receive buffer: a transaction's events arrive at once and nobody waits for us.
const RECV_BUFFER: usize = 4 << 20;
/// Events kept of one transaction; what is beyond is left out and said to be.
const GROUP_MAX: usize = 4 << 20;

/// Why there is no group of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EventError {
    /// The deadline passed.
    #[error("no event in time")]
    TimedOut,
    /// ENOBUFS: events came faster than they were read, and some are lost. What was known about
    /// the ruleset is stale.
    #[error("events were lost (ENOBUFS)")]
    Overrun,
    /// An event did not fit the buffer; what was known is stale.
    #[error("an event was truncated")]
    Truncated,
    /// An event could not be decoded; what was known is stale.
    #[error("an event was malformed")]
    Malformed,
    /// `recvmsg` or `poll` failed.
    #[error("receive: {0}")]
    Receive(Errno),
}

/// Listens to the changes of one network namespace's rulesets.
#[derive(Debug)]
pub struct Events<T = Socket> {
    transport: T,
    recv: Box<[u8]>,
    /// Datagram in `recv`, and how much of it has been handled.
    filled: usize,
    handled: usize,
    /// Messages of the current transaction; of a finished one the generation as well.
    group: Vec<u8>,
    generation_at: usize,
    finished: bool,
    complete: bool,
    /// If not empty, only events about tables of this name are kept.
    table: Box<[u8]>,
    /// Events of this committer are not kept.
    own_port: Option<u32>,
}

/// The events of one transaction.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct EventGroup<'a> {
    /// The generation which the transaction made.
    pub generation: u32,
    /// Port id of the socket that committed.
    pub port: u32,
    /// Process that committed; `None` if the kernel did not say or it is in another pid namespace.
    pub pid: Option<u32>,
    /// Its name.
    pub process: Option<&'a str>,
    /// Whether all events that are kept are here; false after [`EventError::Overrun`] and for
    /// huge transactions.
    pub complete: bool,
    bytes: &'a [u8],
}

impl<'a> EventGroup<'a> {
    /// The events, without the closing generation.
    pub fn iter(&self) -> impl Iterator<Item = NfMsg<'a>> + use<'a> {
        // Only messages that decoded were kept.
        Messages::new(self.bytes)
            .flatten()
            .filter_map(|msg| msg.nfnetlink().ok())
    }
}

impl Events<Socket> {
    /// Listens in the calling thread's network namespace.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open() -> Result<Self, OpenError> {
        Self::join(Socket::open()?)
    }

    /// Listens in the network namespace behind `netns`; see [`Socket::open_in`].
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_in(netns: BorrowedFd<'_>) -> Result<Self, OpenError> {
        Self::join(Socket::open_in(netns)?)
    }

    fn join(mut socket: Socket) -> Result<Self, OpenError> {
        let fail = |call| move |errno| OpenError::Socket { call, errno };
        socket
            .grow_recv_buffer(RECV_BUFFER)
            .map_err(fail("setsockopt SO_RCVBUF"))?;
        socket
            .join_group(GROUP)
            .map_err(fail("setsockopt NETLINK_ADD_MEMBERSHIP"))?;
        Ok(Self::new(socket))
    }
}

impl AsFd for Events<Socket> {
    /// To be polled for readability beside other descriptors.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.transport.as_fd()
    }
}

impl<T: Transport> Events<T> {
    /// Listens on a transport that has joined the group.
    pub fn new(transport: T) -> Self {
        Self {
            transport,
            recv: vec![0; RECV_LEN].into_boxed_slice(),
            filled: 0,
            handled: 0,
            group: Vec::new(),
            generation_at: 0,
            finished: false,
            complete: true,
            table: Box::default(),
            own_port: None,
        }
    }

    /// Keeps only events about tables called `table`, of any family, that were not caused by the
    /// socket with port id `own_port`. Transactions without such events are still reported, empty;
    /// what is not kept costs little more than its reception.
    #[must_use]
    pub fn only(mut self, table: &str, own_port: Option<u32>) -> Self {
        self.table = table.as_bytes().into();
        self.own_port = own_port;
        self
    }

    /// The next transaction's events; waits until `deadline`, `None` is for ever.
    ///
    /// # Errors
    /// See [`EventError`]. After [`EventError::Overrun`], [`EventError::Truncated`] and
    /// [`EventError::Malformed`] listening goes on, and the next group says that it is not complete.
    pub fn next_group(&mut self, deadline: Option<Instant>) -> Result<EventGroup<'_>, EventError> {
        self.next_group_waiting(Wait::Until(deadline))
    }

    /// The next transaction's events if they have all arrived, else [`EventError::TimedOut`].
    ///
    /// # Errors
    /// As [`Events::next_group`].
    pub fn try_next_group(&mut self) -> Result<EventGroup<'_>, EventError> {
        self.next_group_waiting(Wait::No)
    }

    fn next_group_waiting(&mut self, wait: Wait) -> Result<EventGroup<'_>, EventError> {
        if self.finished {
            self.group.clear();
            self.finished = false;
            self.complete = true;
        }
        loop {
            while let Some(kind) = self.take_message()? {
                if kind == MsgType::nft(NftMsg::NEW_GEN) {
                    self.finished = true;
                    return self.finish();
                }
            }
            self.receive(wait)?;
        }
    }

    /// Moves one message from the receive buffer to the group; `None` when the buffer is empty.
    fn take_message(&mut self) -> Result<Option<MsgType>, EventError> {
        let rest = self.recv.get(self.handled..self.filled).unwrap_or_default();
        let mut messages = Messages::new(rest);
        let Some(msg) = messages.next() else {
            return Ok(None);
        };
        let Ok(msg) = msg else {
            self.handled = self.filled;
            self.complete = false;
            return Err(EventError::Malformed);
        };
        let len = rest.len() - messages.rest().len();
        let bytes = rest.get(..len).unwrap_or_default();
        let kind = msg.header.kind;
        let closing = kind == MsgType::nft(NftMsg::NEW_GEN);
        if closing {
            self.generation_at = self.group.len();
        }
        if closing || self.is_kept(&msg) {
            if closing || self.group.len() + len <= GROUP_MAX {
                self.group.extend_from_slice(bytes);
            } else {
                self.complete = false;
            }
        }
        self.handled += len;
        Ok(Some(kind))
    }

    fn is_kept(&self, msg: &Msg<'_>) -> bool {
        if self.own_port == Some(msg.header.port) {
            return false;
        }
        if self.table.is_empty() {
            return true;
        }
        // What cannot be told is kept: whoever looks closer will say that it is malformed.
        msg.nfnetlink()
            .map_or(true, |msg| belongs(&msg, &self.table).unwrap_or(true))
    }

    fn finish(&self) -> Result<EventGroup<'_>, EventError> {
        let (bytes, last) = self
            .group
            .split_at_checked(self.generation_at)
            .ok_or(EventError::Malformed)?;
        let (port, generation) = Messages::new(last)
            .flatten()
            .find_map(|msg| {
                let generation = msg.nfnetlink().ok()?.body::<Generation<'_>>().ok()?;
                Some((msg.header.port, generation))
            })
            .ok_or(EventError::Malformed)?;
        Ok(EventGroup {
            port,
            generation: generation.id.ok_or(EventError::Malformed)?,
            pid: generation.pid.filter(|pid| *pid != 0),
            process: generation.process.and_then(Str::to_str),
            complete: self.complete,
            bytes,
        })
    }

    fn receive(&mut self, wait: Wait) -> Result<(), EventError> {
        let mut interrupted = 0;
        loop {
            match self.transport.recv(&mut self.recv, wait) {
                Ok(datagram) if datagram.sender != 0 => {}
                Ok(datagram) if datagram.truncated => {
                    self.complete = false;
                    return Err(EventError::Truncated);
                }
                Ok(datagram) => {
                    self.filled = datagram.len;
                    self.handled = 0;
                    return Ok(());
                }
                Err(ETIMEDOUT) => return Err(EventError::TimedOut),
                // Nothing there, or another thread of the process was faster than poll said.
                Err(Errno::EAGAIN) if wait == Wait::No => return Err(EventError::TimedOut),
                Err(Errno::EAGAIN | Errno::EINTR) if interrupted < RETRIES => interrupted += 1,
                Err(Errno::ENOBUFS) => {
                    self.complete = false;
                    return Err(EventError::Overrun);
                }
                Err(errno) => return Err(EventError::Receive(errno)),
            }
        }
    }
}
