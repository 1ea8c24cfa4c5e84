//! A ctnetlink that holds what a test puts in, and fails as told.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};

use core::net::SocketAddr;

use nft_batch::{Datagram, Errno, Transport, Wait};
use nl_codec::SliceCursor;
use nl_codec::ct::{Conn, Tuple};
use nl_codec::msg::{
    CtMsg, Family, Flags, HEADER_LEN, Head, Header, Messages, MsgType, put_message,
};
use svc_planner::object::Protocol;

const PORT: u32 = 77;

/// The table, shared by all sockets.
#[derive(Debug, Clone, Default)]
pub(super) struct Fake(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    entries: Vec<Conn<'static>>,
    faults: VecDeque<Fault>,
    /// Dumps begun.
    dumps: usize,
    opened: usize,
    /// Nothing can be deleted.
    busy: bool,
    /// So many deletions are followed by a late reply, which makes the entry anew, the other way
    /// round.
    late_replies: u32,
}

/// What goes wrong with the next dump.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    /// It is refused.
    Refused(Errno),
    /// Replies are lost.
    Overrun,
    /// The kernel says that it is not complete.
    Interrupted,
    /// Entries go, and come back as others, before they are deleted.
    Replaced,
}

/// One socket.
#[derive(Debug)]
pub(super) struct FakeSocket {
    fake: Fake,
    replies: VecDeque<Result<Vec<u8>, Errno>>,
    fault: Option<Fault>,
}

impl Fake {
    pub(super) fn sockets(&self) -> [FakeSocket; 2] {
        self.0.lock().unwrap().opened += 1;
        [(); 2].map(|()| FakeSocket {
            fake: self.clone(),
            replies: VecDeque::new(),
            fault: None,
        })
    }

    /// Puts an entry in.
    pub(super) fn add(&self, protocol: Protocol, to: &str, served_by: &str) {
        let from: SocketAddr = "10.0.9.9:4000".parse().unwrap();
        let (to, served_by) = (to.parse().unwrap(), served_by.parse().unwrap());
        let tuple = |from, to| Tuple::new(protocol as u8, from, to);
        let mut conn = Conn::with_orig(tuple(from, to).unwrap());
        conn.reply = tuple(served_by, from);
        let mut table = self.0.lock().unwrap();
        conn.id = Some(u32::try_from(table.entries.len()).unwrap());
        table.entries.push(conn);
    }

    pub(super) fn fail(&self, fault: Fault) {
        self.0.lock().unwrap().faults.push_back(fault);
    }

    /// Who serves the entries there are.
    pub(super) fn served_by(&self) -> Vec<String> {
        let table = self.0.lock().unwrap();
        let source = |conn: &Conn<'_>| {
            let reply = conn.reply.unwrap();
            SocketAddr::new(reply.src().unwrap(), reply.proto.unwrap().src_port.unwrap())
        };
        let all = table.entries.iter();
        all.map(|conn| source(conn).to_string()).collect()
    }

    pub(super) fn set_late_replies(&self, count: u32) {
        self.0.lock().unwrap().late_replies = count;
    }

    pub(super) fn set_busy(&self, busy: bool) {
        self.0.lock().unwrap().busy = busy;
    }

    pub(super) fn dumps(&self) -> usize {
        self.0.lock().unwrap().dumps
    }

    pub(super) fn opened(&self) -> usize {
        self.0.lock().unwrap().opened
    }
}

impl FakeSocket {
    fn dump(&mut self, seq: u32, filter: &Conn<'_>) {
        let mut table = self.fake.0.lock().unwrap();
        table.dumps += 1;
        self.fault = table.faults.pop_front();
        let mut flags = Flags::MULTI;
        match self.fault {
            Some(Fault::Refused(errno)) => {
                return self
                    .replies
                    .push_back(Ok(control(MsgType::ERROR, seq, errno.0)));
            }
            Some(Fault::Overrun) => return self.replies.push_back(Err(Errno::ENOBUFS)),
            Some(Fault::Interrupted) => flags |= Flags::DUMP_INTR,
            _ => {}
        }
        let wanted = filter.orig.unwrap().proto.unwrap();
        for conn in &table.entries {
            let proto = conn.orig.unwrap().proto.unwrap();
            let agrees = |wanted: Option<u16>, port| wanted.is_none() || wanted == port;
            let is_meant = wanted.number == proto.number
                && agrees(wanted.dst_port, proto.dst_port)
                && agrees(wanted.src_port, proto.src_port);
            if !is_meant {
                continue;
            }
            self.replies.push_back(Ok(entry(seq, flags, conn)));
        }
        self.replies.push_back(Ok(control(MsgType::DONE, seq, 0)));
        if matches!(self.fault, Some(Fault::Replaced)) {
            for conn in &mut table.entries {
                conn.id = conn.id.map(|id| id + 1000);
            }
        }
    }

    fn find(&mut self, seq: u32, wanted: &Conn<'_>) {
        let table = self.fake.0.lock().unwrap();
        let is_meant = |conn: &&Conn<'_>| [conn.orig, conn.reply].contains(&wanted.orig);
        let reply = match table.entries.iter().find(is_meant) {
            Some(conn) => entry(seq, Flags::empty(), conn),
            None => control(MsgType::ERROR, seq, Errno::ENOENT.0),
        };
        self.replies.push_back(Ok(reply));
    }

    fn delete(&mut self, seq: u32, wanted: &Conn<'_>) {
        let table = &mut *self.fake.0.lock().unwrap();
        let is_meant = |conn: &Conn<'_>| (conn.orig, conn.id) == (wanted.orig, wanted.id);
        let errno = match table.entries.iter().position(is_meant) {
            None => Errno::ENOENT.0,
            Some(_) if table.busy => Errno::EBUSY.0,
            Some(place) => {
                let mut conn = table.entries.remove(place);
                if table.late_replies > 0 {
                    table.late_replies -= 1;
                    if conn.id < Some(1000) {
                        (conn.orig, conn.reply) = (conn.reply, conn.orig);
                    }
                    conn.id = conn.id.map(|id| id + 1000);
                    table.entries.push(conn);
                }
                0
            }
        };
        self.replies
            .push_back(Ok(control(MsgType::ERROR, seq, errno)));
    }
}

fn entry(seq: u32, flags: Flags, conn: &Conn<'_>) -> Vec<u8> {
    let mut head = Head::ct(CtMsg::NEW, Family::IPV4).with_seq(seq);
    (head.flags, head.port) = (flags, PORT);
    let mut bytes = [0; 512];
    let mut cursor = SliceCursor::new(&mut bytes);
    put_message(&mut cursor, &head, conn).unwrap();
    cursor.written().to_vec()
}

fn control(kind: MsgType, seq: u32, errno: i32) -> Vec<u8> {
    let header = |len| Header {
        len,
        kind,
        // The request is not echoed.
        flags: Flags::CAPPED,
        seq,
        port: PORT,
    };
    let len = u32::try_from(2 * HEADER_LEN + 4).unwrap();
    let mut bytes = header(len).to_bytes().to_vec();
    bytes.extend((-errno).to_ne_bytes());
    bytes.extend(header(0).to_bytes());
    bytes
}

impl Transport for FakeSocket {
    fn port(&self) -> u32 {
        PORT
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let bytes: Vec<u8> = parts.iter().flat_map(|part| part.to_vec()).collect();
        for msg in Messages::new(&bytes) {
            let msg = msg.unwrap();
            let conn: Conn<'_> = msg.nfnetlink().unwrap().body().unwrap();
            match msg.header.kind.as_ct() {
                Some(CtMsg::GET) if msg.header.flags.contains(Flags::DUMP) => {
                    self.dump(msg.header.seq, &conn);
                }
                Some(CtMsg::GET) => self.find(msg.header.seq, &conn),
                Some(CtMsg::DELETE) => self.delete(msg.header.seq, &conn),
                other => panic!("{other:?}"),
            }
        }
        Ok(bytes.len())
    }

    fn recv(&mut self, buf: &mut [u8], _: Wait) -> Result<Datagram, Errno> {
        let bytes = self.replies.pop_front().unwrap_or(Err(Errno::EAGAIN))?;
        buf[..bytes.len()].copy_from_slice(&bytes);
        Ok(Datagram {
            len: bytes.len(),
            truncated: false,
            sender: 0,
        })
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        Ok(len)
    }
}
