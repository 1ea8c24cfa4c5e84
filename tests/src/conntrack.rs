//! The conntrack table of a namespace: entries made and read without packets.

use core::net::SocketAddr;
use std::io::IoSlice;

use anyhow::{Context as _, Result, anyhow, bail};
use netns_lab::Namespace;
use nft_batch::{Datagram, Socket, Transport as _, Wait};
use nl_codec::{
    SliceCursor,
    ack::Control,
    ct::{Conn, ProtoInfo, SctpState, Status, TcpInfo, TcpState, Tuple},
    msg::{CtMsg, Family, Flags, Head, Messages, put_message},
};
use svc_planner::object::Protocol;

/// Entries made with one system call.
const BATCH: usize = 256;
/// More than one entry takes in a request.
const REQUEST_LEN: usize = 512;

/// The conntrack table of one family.
#[derive(Debug)]
pub struct Table {
    socket: Socket,
    family: Family,
    recv: Box<[u8]>,
    request: Box<[u8]>,
    seq: u32,
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// IP protocol number.
    pub protocol: u8,
    /// Source of the original direction.
    pub from: SocketAddr,
    /// Destination of the original direction.
    pub to: SocketAddr,
    /// Source of the reply direction.
    pub served_by: SocketAddr,
    /// State of an SCTP association.
    pub sctp: Option<SctpState>,
    /// A later entry with the same addresses has another one.
    pub id: u32,
}

impl Table {
    /// Opens the table of a namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(namespace: &Namespace, family: Family) -> Result<Self> {
        Ok(Self {
            socket: namespace.run(Socket::open)??,
            family,
            recv: vec![0; 64 << 10].into_boxed_slice(),
            request: vec![0; BATCH * REQUEST_LEN].into_boxed_slice(),
            seq: 0,
        })
    }

    /// All entries, sorted.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn entries(&mut self) -> Result<Vec<Entry>> {
        let head = Head::ct(CtMsg::GET, self.family).with_flags(Flags::DUMP);
        self.send([(head, Conn::default())])?;
        let mut entries = Vec::new();
        loop {
            let datagram = self.receive()?;
            let bytes = self.recv.get(..datagram.len).context("a datagram")?;
            for msg in Messages::new(bytes) {
                let msg = msg?;
                match Control::decode(&msg)? {
                    None => entries.extend(entry(&msg.nfnetlink()?.body()?)),
                    Some(Control::Done(done)) if done.error.is_none() => {
                        entries.sort_unstable();
                        return Ok(entries);
                    }
                    Some(control) => bail!("{control:?}"),
                }
            }
        }
    }

    /// Makes entries that are not translated, for 10 minutes; TCP ones are established.
    ///
    /// # Errors
    /// When the kernel refuses one of them.
    pub fn fill(
        &mut self,
        protocol: Protocol,
        flows: impl IntoIterator<Item = (SocketAddr, SocketAddr)>,
    ) -> Result<()> {
        self.create(protocol, flows.into_iter().map(|(from, to)| (from, to, to)))
    }

    /// As [`fill`](Self::fill), with who serves each of them.
    ///
    /// # Errors
    /// When the kernel refuses one of them.
    pub fn create(
        &mut self,
        protocol: Protocol,
        flows: impl IntoIterator<Item = (SocketAddr, SocketAddr, SocketAddr)>,
    ) -> Result<()> {
        let flags = Flags::CREATE | Flags::EXCL | Flags::ACK;
        let head = Head::ct(CtMsg::NEW, self.family).with_flags(flags);
        let mut flows = flows.into_iter().peekable();
        while flows.peek().is_some() {
            let conns = flows.by_ref().take(BATCH).map(|(from, to, served_by)| {
                let tuple = |from, to| Tuple::new(protocol as u8, from, to);
                let mut conn = Conn::with_orig(tuple(from, to).context("of one family")?);
                conn.reply = tuple(served_by, from);
                conn.timeout = Some(600);
                conn.status = Some(Status::CONFIRMED | Status::SEEN_REPLY | Status::ASSURED);
                if protocol == Protocol::Tcp {
                    let mut tcp = TcpInfo::default();
                    tcp.state = Some(TcpState::ESTABLISHED);
                    let mut info = ProtoInfo::default();
                    info.tcp = Some(tcp);
                    conn.proto_info = Some(info);
                }
                Ok((head, conn))
            });
            let conns: Vec<_> = conns.collect::<Result<_>>()?;
            let mut left = conns.len();
            self.send(conns)?;
            while left > 0 {
                let datagram = self.receive()?;
                let bytes = self.recv.get(..datagram.len).context("a datagram")?;
                for msg in Messages::new(bytes) {
                    match Control::decode(&msg?)? {
                        Some(Control::Ack(ack)) if ack.error.is_none() => left -= 1,
                        control => bail!("{control:?}"),
                    }
                }
            }
        }
        Ok(())
    }

    fn send<'c>(&mut self, requests: impl IntoIterator<Item = (Head, Conn<'c>)>) -> Result<()> {
        let mut cursor = SliceCursor::new(&mut self.request);
        for (head, conn) in requests {
            self.seq = self.seq.wrapping_add(1);
            put_message(&mut cursor, &head.with_seq(self.seq), &conn)?;
        }
        let parts = [IoSlice::new(cursor.written())];
        self.socket
            .send(&parts)
            .map_err(|errno| anyhow!("send: {errno}"))?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Datagram> {
        let received = self.socket.recv(&mut self.recv, Wait::No);
        received.map_err(|errno| anyhow!("receive: {errno}"))
    }
}

fn entry(conn: &Conn<'_>) -> Option<Entry> {
    let (orig, reply) = (conn.orig?, conn.reply?);
    let ports = orig.proto?;
    Some(Entry {
        protocol: ports.number?,
        from: SocketAddr::new(orig.src()?, ports.src_port?),
        to: SocketAddr::new(orig.dst()?, ports.dst_port?),
        served_by: SocketAddr::new(reply.src()?, reply.proto?.src_port?),
        sctp: conn.proto_info.and_then(|info| info.sctp?.state),
        id: conn.id?,
    })
}
