//! A connection: one socket, one sequence of requests, one receive buffer.

use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use nl_codec::ack::{Control, Errno};
use nl_codec::msg::{Body, Flags, Head, Messages, MsgType, NfMsg, put_message};
use nl_codec::{DecodeError, EncodeError, SliceCursor};

use crate::dump::Seen;
use crate::sealed::SealedBatch;
use crate::transport::{Datagram, Transport, Wait};
use crate::{OpenError, QueryError, Socket};

/// The kernel fills dump datagrams up to 32 KiB; one message (an element with all its expressions,
/// a rule) is far smaller.
const RECV_LEN: usize = 64 << 10;
/// Room for one request that is no batch.
const REQUEST_LEN: usize = 16 << 10;
/// How often an interrupted system call is tried again.
pub(crate) const RETRIES: u32 = 64;

/// A connection to the nf_tables of one network namespace.
#[derive(Debug)]
pub struct Connection<T = Socket> {
    pub(crate) transport: T,
    pub(crate) recv: Box<[u8]>,
    request: Box<[u8]>,
    seq: u32,
    /// The kernel acknowledges the end of a batch (Linux 6.10), which it does after the commit.
    pub(crate) end_ack: bool,
    /// Datagrams and messages that were none of our business.
    pub(crate) ignored: u64,
    /// Kept for the next dump.
    pub(crate) seen: Seen,
}

impl Connection<Socket> {
    /// Connects in the calling thread's network namespace.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open() -> Result<Self, OpenError> {
        Self::new(Socket::open()?)
    }

    /// Connects in the network namespace behind `netns`; see [`Socket::open_in`].
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open_in(netns: BorrowedFd<'_>) -> Result<Self, OpenError> {
        Self::new(Socket::open_in(netns)?)
    }
}

impl<T: Transport> Connection<T> {
    /// Connects over `transport`, and finds out by an empty batch, which changes nothing and does
    /// not advance the generation, whether the kernel acknowledges the end of a batch.
    ///
    /// # Errors
    /// [`OpenError::Query`].
    pub fn new(transport: T) -> Result<Self, OpenError> {
        Self::starting_at(transport, 1)
    }

    /// As [`Connection::new`], with the first sequence number to use; they wrap around.
    ///
    /// # Errors
    /// As [`Connection::new`].
    pub fn starting_at(transport: T, seq: u32) -> Result<Self, OpenError> {
        let mut connection = Self {
            transport,
            recv: vec![0; RECV_LEN].into_boxed_slice(),
            request: vec![0; REQUEST_LEN].into_boxed_slice(),
            seq,
            end_ack: false,
            ignored: 0,
            seen: Seen::default(),
        };
        connection.end_ack = connection.probe_end_ack()?;
        Ok(connection)
    }

    /// Whether the kernel acknowledges the end of a batch, which proves the commit.
    #[must_use]
    pub fn acknowledges_end(&self) -> bool {
        self.end_ack
    }

    /// Our port id: what we commit carries it in its events ([`crate::EventGroup::port`]).
    #[must_use]
    pub fn port(&self) -> u32 {
        self.transport.port()
    }

    /// Datagrams and messages received so far that were no replies to what was waited for: from
    /// another process, to another port, late ones.
    #[must_use]
    pub fn ignored(&self) -> u64 {
        self.ignored
    }

    /// The socket, for tests that look into their own transport.
    pub fn transport_mut(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Takes `count` consecutive sequence numbers.
    pub(crate) fn take_seq(&mut self, count: u32) -> u32 {
        let first = self.seq;
        self.seq = first.wrapping_add(count);
        first
    }

    /// Sends one request and hands its replies to `each`: all of a dump, the first one of another
    /// request. Returns whether the kernel said that a dump may be inconsistent.
    pub(crate) fn query<'a, B: Body<'a>>(
        &mut self,
        what: &'static str,
        head: &Head,
        body: &B,
        each: impl FnMut(NfMsg<'_>) -> Result<(), DecodeError>,
    ) -> Result<bool, QueryError> {
        let seq = self.send_request(what, head, body)?;
        let dump = head.flags.contains(Flags::DUMP);
        let mut ended = false;
        let result = self.replies(what, seq, dump, &mut ended, each);
        if dump && !ended {
            self.drain(seq);
        }
        result
    }

    fn replies(
        &mut self,
        what: &'static str,
        seq: u32,
        dump: bool,
        ended: &mut bool,
        mut each: impl FnMut(NfMsg<'_>) -> Result<(), DecodeError>,
    ) -> Result<bool, QueryError> {
        let mut interrupted = false;
        while !*ended {
            interrupted |= self.reply(what, seq, dump, ended, &mut each)?;
        }
        Ok(interrupted)
    }

    /// Hands the replies in the next datagram to `each`. Returns whether the kernel said that the
    /// dump may be inconsistent.
    pub(crate) fn reply(
        &mut self,
        what: &'static str,
        seq: u32,
        dump: bool,
        ended: &mut bool,
        mut each: impl FnMut(NfMsg<'_>) -> Result<(), DecodeError>,
    ) -> Result<bool, QueryError> {
        let mut interrupted = false;
        let decode = |error| QueryError::Decode { what, error };
        let Some(datagram) = self.receive(what)? else {
            // Whatever was asked has been answered by now, or never is.
            return Err(QueryError::NoReply { what });
        };
        if datagram.truncated {
            return Err(QueryError::Truncated { what });
        }
        let bytes = self.recv.get(..datagram.len).unwrap_or_default();
        for msg in Messages::new(bytes) {
            let msg = msg.map_err(decode)?;
            if msg.header.seq != seq || msg.header.port != self.transport.port() {
                self.ignored += 1;
                continue;
            }
            interrupted |= msg.header.flags.contains(Flags::DUMP_INTR);
            let error = match Control::decode(&msg).map_err(decode)? {
                Some(Control::Ack(ack)) => ack.error,
                Some(Control::Done(done)) => done.error,
                Some(_) => continue,
                None => {
                    each(msg.nfnetlink().map_err(decode)?).map_err(decode)?;
                    if dump {
                        continue;
                    }
                    None
                }
            };
            *ended = true;
            return match error {
                Some(errno) => Err(QueryError::Kernel { what, errno }),
                None => Ok(interrupted),
            };
        }
        Ok(interrupted)
    }

    /// Reads a dump to its end: until then the kernel starts no other one on this socket (EBUSY).
    pub(crate) fn drain(&mut self, seq: u32) {
        let mut overruns = 0;
        loop {
            match self.next_datagram() {
                Ok(Some(datagram)) => {
                    let bytes = self.recv.get(..datagram.len).unwrap_or_default();
                    let mut messages = Messages::new(bytes).flatten();
                    let done = |kind| kind == MsgType::DONE || kind == MsgType::ERROR;
                    if messages.any(|msg| msg.header.seq == seq && done(msg.header.kind)) {
                        return;
                    }
                }
                Err(Errno::ENOBUFS) if overruns < RETRIES => overruns += 1,
                Ok(None) | Err(_) => return,
            }
        }
    }

    pub(crate) fn send_request<'a, B: Body<'a>>(
        &mut self,
        what: &'static str,
        head: &Head,
        body: &B,
    ) -> Result<u32, QueryError> {
        let seq = self.take_seq(1);
        let head = head.with_seq(seq);
        let mut cursor = SliceCursor::new(&mut self.request);
        put_message(&mut cursor, &head, body)
            .map_err(|error: EncodeError| QueryError::Encode { what, error })?;
        let parts = [IoSlice::new(cursor.written())];
        for _ in 0..RETRIES {
            match self.transport.send(&parts) {
                // A read may be sent twice without harm.
                Err(Errno::EINTR) => {}
                Err(errno) => return Err(QueryError::Send { what, errno }),
                Ok(_) => return Ok(seq),
            }
        }
        let errno = Errno::EINTR;
        Err(QueryError::Send { what, errno })
    }

    /// The next datagram from the kernel, `None` when nothing is queued.
    pub(crate) fn receive(&mut self, what: &'static str) -> Result<Option<Datagram>, QueryError> {
        match self.next_datagram() {
            Ok(datagram) => Ok(datagram),
            Err(errno) => Err(QueryError::Receive { what, errno }),
        }
    }

    /// The next datagram from the kernel, `None` when nothing is queued.
    pub(crate) fn next_datagram(&mut self) -> Result<Option<Datagram>, Errno> {
        let mut interrupted = 0;
        loop {
            match self.transport.recv(&mut self.recv, Wait::No) {
                Ok(datagram) if datagram.sender == 0 => return Ok(Some(datagram)),
                // Any process may send to our port.
                Ok(_) => self.ignored += 1,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) if interrupted < RETRIES => interrupted += 1,
                Err(errno) => return Err(errno),
            }
        }
    }

    fn probe_end_ack(&mut self) -> Result<bool, QueryError> {
        let what = "empty batch";
        let seq = self.take_seq(2);
        let end_seq = seq.wrapping_add(1);
        let frame = SealedBatch::frame(seq, None, end_seq, true);
        let parts = [IoSlice::new(frame.begin()), IoSlice::new(frame.end())];
        let mut sent = Err(Errno::EINTR);
        for _ in 0..RETRIES {
            sent = self.transport.send(&parts);
            if sent != Err(Errno::EINTR) {
                break;
            }
        }
        sent.map_err(|errno| QueryError::Send { what, errno })?;
        let mut acknowledged = false;
        while let Some(datagram) = self.receive(what)? {
            let bytes = self.recv.get(..datagram.len).unwrap_or_default();
            for msg in Messages::new(bytes) {
                let msg = msg.map_err(|error| QueryError::Decode { what, error })?;
                let offset = msg.header.seq.wrapping_sub(seq);
                if offset > 1 || msg.header.port != self.transport.port() {
                    self.ignored += 1;
                    continue;
                }
                let control =
                    Control::decode(&msg).map_err(|error| QueryError::Decode { what, error })?;
                if let Some(Control::Ack(ack)) = control {
                    match ack.error {
                        Some(errno) => return Err(QueryError::Kernel { what, errno }),
                        None => acknowledged |= msg.header.seq == end_seq,
                    }
                }
            }
        }
        Ok(acknowledged)
    }
}
