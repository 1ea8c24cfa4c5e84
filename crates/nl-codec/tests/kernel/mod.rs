//! One netlink socket of the network namespace a test runs in.
#![allow(
    dead_code,
    reason = "each test binary compiles this and uses a part of it"
)]

use netlink_sys::protocols::NETLINK_NETFILTER;
use netlink_sys::{Socket, SocketAddr};
use nl_codec::ack::{Ack, Control, Errno};
use nl_codec::msg::{
    Body, Flags, Head, Messages, MsgType, NfMsg, put_batch_begin, put_batch_end, put_message,
};
use nl_codec::{EncodeError, SliceCursor};

const BUF: usize = 1 << 16;

/// An error with what the kernel says about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) errno: Errno,
    /// Offset of the bad attribute in the request.
    pub(crate) offset: Option<u32>,
    /// Type of the missing attribute.
    pub(crate) missing: Option<u32>,
}

impl Failure {
    fn of(ack: &Ack<'_>) -> Option<Self> {
        Some(Self {
            errno: ack.error?,
            offset: ack.extended.offset,
            missing: ack.extended.missing_type,
        })
    }
}

pub(crate) struct Kernel(Socket);

impl Kernel {
    pub(crate) fn new() -> Self {
        let mut socket = Socket::new(NETLINK_NETFILTER).unwrap();
        socket.bind_auto().unwrap();
        socket.connect(&SocketAddr::new(0, 0)).unwrap();
        socket.set_ext_ack(true).unwrap();
        Self(socket)
    }

    /// Sends one request and hands every message of the reply to `read`, up to its end.
    pub(crate) fn request<'a>(
        &self,
        head: &Head,
        body: &impl Body<'a>,
        mut read: impl FnMut(&NfMsg<'_>),
    ) -> Option<Failure> {
        let mut buf = [0; BUF];
        let mut cursor = SliceCursor::new(&mut buf);
        put_message(&mut cursor, head, body).unwrap();
        self.0.send(cursor.written(), 0).unwrap();
        loop {
            let (datagram, _) = self.0.recv_from_full().unwrap();
            for message in Messages::new(&datagram) {
                let message = message.unwrap();
                match Control::decode(&message).unwrap() {
                    Some(Control::Ack(ack)) => return Failure::of(&ack),
                    Some(Control::Done(done)) => {
                        assert_eq!(done.error, None, "the dump ended early");
                        return None;
                    }
                    Some(_) => {}
                    None => read(&message.nfnetlink().unwrap()),
                }
            }
        }
    }

    /// Sends the messages that `fill` writes as one transaction. Each must want an ack; the result
    /// is the first that failed, and its place.
    pub(crate) fn commit(
        &self,
        fill: impl FnOnce(&mut SliceCursor<'_>) -> Result<(), EncodeError>,
    ) -> Result<(), (usize, Failure)> {
        let mut buf = [0; BUF];
        let mut cursor = SliceCursor::new(&mut buf);
        put_batch_begin(&mut cursor, 0, None).unwrap();
        fill(&mut cursor).unwrap();
        put_batch_end(&mut cursor, 0, Flags::empty()).unwrap();
        let sent = Messages::new(cursor.written());
        let wanted = sent
            .map(|message| message.unwrap().header)
            .filter(|header| header.flags.contains(Flags::ACK))
            .count();
        self.0.send(cursor.written(), 0).unwrap();
        let (mut seen, mut failed) = (0, None);
        while seen < wanted {
            let (datagram, _) = self.0.recv_from_full().unwrap();
            for message in Messages::new(&datagram) {
                let message = message.unwrap();
                assert_eq!(message.header.kind, MsgType::ERROR);
                if let Some(failure) = Failure::of(&Ack::decode(&message).unwrap()) {
                    failed.get_or_insert((seen, failure));
                }
                seen += 1;
            }
        }
        failed.map_or(Ok(()), Err)
    }
}
