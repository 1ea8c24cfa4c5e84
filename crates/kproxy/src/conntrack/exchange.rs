//! Requests to ctnetlink and their replies, in buffers that are used again and again.

use std::io::IoSlice;

use nft_batch::{Datagram, Errno, Transport, Wait};
use nl_codec::SliceCursor;
use nl_codec::ack::Control;
use nl_codec::ct::{Conn, Filter, FilterFlags, Status, Tuple};
use nl_codec::msg::{CtMsg, Family, Flags, Head, Messages, put_message};
use svc_planner::object::Protocol;

use super::ConntrackError;
use super::entry::{Entry, Key};
use super::scope::{Query, Select};

/// The kernel fills dump datagrams up to 32 KiB.
const RECV_LEN: usize = 64 << 10;
/// Deletions that are sent at once.
const BATCH: usize = 64;
/// A deletion is below 200 bytes.
const REQUEST_LEN: usize = 256 * BATCH;
/// How often an interrupted system call is tried again.
const RETRIES: u32 = 64;

/// One socket with its buffers.
#[derive(Debug)]
pub(super) struct Exchange<T> {
    transport: T,
    family: Family,
    recv: Box<[u8]>,
    request: Box<[u8]>,
    seq: u32,
}

/// How deletions went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Deleted {
    /// Are gone by us.
    pub(super) deleted: u64,
    /// Are still there.
    pub(super) refused: u64,
    /// Why the last of those.
    pub(super) error: Option<Errno>,
}

/// A dump under way: datagrams come as they are asked for.
#[derive(Debug)]
pub(super) struct Dump<'e, T> {
    exchange: &'e mut Exchange<T>,
    protocol: Protocol,
    ended: bool,
    interrupted: bool,
}

impl<T: Transport> Exchange<T> {
    pub(super) fn new(transport: T, family: Family) -> Self {
        Self {
            transport,
            family,
            recv: vec![0; RECV_LEN].into_boxed_slice(),
            request: vec![0; REQUEST_LEN].into_boxed_slice(),
            seq: 0,
        }
    }

    /// Begins to dump the entries that are asked for; of TCP only those without a reply, where the
    /// kernel can tell (Linux 5.17).
    pub(super) fn dump(&mut self, query: Query) -> Result<Dump<'_, T>, ConntrackError> {
        let Query { protocol, select } = query;
        let mut tuple = Tuple::default().with_protocol(protocol as u8);
        let mut flags = FilterFlags::PROTO;
        match select {
            Select::All => {}
            Select::To(port) => {
                tuple = tuple.with_dst_port(port);
                flags |= FilterFlags::DST_PORT;
            }
            Select::From(port) => {
                tuple = tuple.with_src_port(port);
                flags |= FilterFlags::SRC_PORT;
            }
        }
        let mut filter = Filter::default();
        filter.orig = Some(flags);
        let mut conn = Conn::with_orig(tuple);
        conn.filter = Some(filter);
        if protocol == Protocol::Tcp {
            conn.status = Some(Status::empty());
            conn.status_mask = Some(Status::SEEN_REPLY);
        }
        let head = Head::ct(CtMsg::GET, self.family).with_flags(Flags::DUMP);
        self.seq = self.seq.wrapping_add(1);
        let mut cursor = SliceCursor::new(&mut self.request);
        put_message(&mut cursor, &head.with_seq(self.seq), &conn)?;
        let len = cursor.written().len();
        self.send(len)?;
        Ok(Dump {
            exchange: self,
            protocol,
            ended: false,
            interrupted: false,
        })
    }

    /// Deletes entries that are still the same; one that is gone already is no failure.
    pub(super) fn delete<'k>(
        &mut self,
        keys: impl IntoIterator<Item = &'k Key>,
    ) -> Result<Deleted, ConntrackError> {
        let mut keys = keys.into_iter().peekable();
        let mut total = Deleted::default();
        while keys.peek().is_some() {
            let first = self.seq.wrapping_add(1);
            let mut count = 0;
            let mut cursor = SliceCursor::new(&mut self.request);
            for key in keys.by_ref().take(BATCH) {
                self.seq = self.seq.wrapping_add(1);
                count += 1;
                let head = Head::ct(CtMsg::DELETE, self.family)
                    .with_flags(Flags::ACK)
                    .with_seq(self.seq);
                put_message(&mut cursor, &head, &key.conn())?;
            }
            let len = cursor.written().len();
            self.send(len)?;
            self.acks(first, count, &mut total)?;
        }
        Ok(total)
    }

    /// Hands to `each` the place of a key and the entry that packets of its original direction
    /// belong to by now, in whichever direction, if there is one.
    pub(super) fn find(
        &mut self,
        keys: &[Key],
        mut each: impl FnMut(usize, &Conn<'_>),
    ) -> Result<(), ConntrackError> {
        let mut place = 0;
        for keys in keys.chunks(BATCH) {
            let first = self.seq.wrapping_add(1);
            let mut cursor = SliceCursor::new(&mut self.request);
            for key in keys {
                self.seq = self.seq.wrapping_add(1);
                let head = Head::ct(CtMsg::GET, self.family).with_seq(self.seq);
                put_message(&mut cursor, &head, &key.successor())?;
            }
            let len = cursor.written().len();
            self.send(len)?;
            let mut left = keys.len();
            while left > 0 {
                let datagram = self.receive()?;
                let bytes = self.recv.get(..datagram.len).unwrap_or_default();
                for msg in Messages::new(bytes) {
                    let msg = msg?;
                    let offset = usize::try_from(msg.header.seq.wrapping_sub(first));
                    let Some(offset) = offset.ok().filter(|offset| *offset < keys.len()) else {
                        continue;
                    };
                    left = left.saturating_sub(1);
                    match Control::decode(&msg)? {
                        None => each(place + offset, &msg.nfnetlink()?.body()?),
                        Some(Control::Ack(ack)) => match ack.error {
                            None | Some(Errno::ENOENT) => {}
                            Some(errno) => return Err(ConntrackError::Kernel(errno)),
                        },
                        Some(_) => {}
                    }
                }
            }
            place += keys.len();
        }
        Ok(())
    }

    fn acks(&mut self, first: u32, count: u32, total: &mut Deleted) -> Result<(), ConntrackError> {
        let mut left = count;
        while left > 0 {
            let datagram = self.receive()?;
            let bytes = self.recv.get(..datagram.len).unwrap_or_default();
            for msg in Messages::new(bytes) {
                let msg = msg?;
                let is_ours = msg.header.port == self.transport.port()
                    && msg.header.seq.wrapping_sub(first) < count;
                let Some(Control::Ack(ack)) = Control::decode(&msg)?.filter(|_| is_ours) else {
                    continue;
                };
                left = left.saturating_sub(1);
                match ack.error {
                    None => total.deleted += 1,
                    Some(Errno::ENOENT) => {}
                    Some(errno) => {
                        total.refused += 1;
                        total.error = Some(errno);
                    }
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, len: usize) -> Result<(), ConntrackError> {
        let parts = [IoSlice::new(self.request.get(..len).unwrap_or_default())];
        let mut tries = 0;
        loop {
            match self.transport.send(&parts) {
                Ok(_) => return Ok(()),
                // Nothing was sent.
                Err(Errno::EINTR) if tries < RETRIES => tries += 1,
                Err(errno) => return Err(ConntrackError::Send(errno)),
            }
        }
    }

    /// The next datagram from the kernel. It makes replies inside of the calls that send and
    /// receive, so there is nothing to wait for.
    fn receive(&mut self) -> Result<Datagram, ConntrackError> {
        let mut tries = 0;
        loop {
            match self.transport.recv(&mut self.recv, Wait::No) {
                Ok(datagram) if datagram.sender != 0 => {}
                Ok(datagram) if datagram.truncated => return Err(ConntrackError::Truncated),
                Ok(datagram) => return Ok(datagram),
                Err(Errno::EAGAIN) => return Err(ConntrackError::NoReply),
                Err(Errno::EINTR) if tries < RETRIES => tries += 1,
                Err(errno) => return Err(ConntrackError::Receive(errno)),
            }
        }
    }
}

impl<T: Transport> Dump<'_, T> {
    /// Hands the entries of the next datagram to `each`; false at the end of the dump. After an
    /// error the socket is of no use any more.
    pub(super) fn next(&mut self, mut each: impl FnMut(Entry)) -> Result<bool, ConntrackError> {
        if self.ended {
            return self.end();
        }
        let datagram = self.exchange.receive()?;
        let bytes = self.exchange.recv.get(..datagram.len).unwrap_or_default();
        for msg in Messages::new(bytes) {
            let msg = msg?;
            if msg.header.seq != self.exchange.seq
                || msg.header.port != self.exchange.transport.port()
            {
                continue;
            }
            self.interrupted |= msg.header.flags.contains(Flags::DUMP_INTR);
            let error = match Control::decode(&msg)? {
                None => {
                    let conn: Conn<'_> = msg.nfnetlink()?.body()?;
                    if let Some(entry) = Entry::of(&conn, self.protocol) {
                        each(entry);
                    }
                    continue;
                }
                Some(Control::Done(done)) => done.error,
                Some(Control::Ack(ack)) => ack.error,
                Some(_) => continue,
            };
            self.ended = true;
            return match error {
                // nfnetlink knows no such subsystem.
                Some(Errno::EINVAL | Errno::EOPNOTSUPP) => Err(ConntrackError::Missing),
                Some(errno) => Err(ConntrackError::Kernel(errno)),
                None => Ok(true),
            };
        }
        Ok(true)
    }

    fn end(&self) -> Result<bool, ConntrackError> {
        if self.interrupted {
            return Err(ConntrackError::Interrupted);
        }
        Ok(false)
    }
}
