//! One request to the kernel and its replies, over a netlink socket of any protocol.

use std::io;

use netlink_sys::{Socket, SocketAddr};
use nft_batch::Errno;
use nl_codec::ack::Control;
use nl_codec::msg::{Body, Flags, Head, Messages, Msg, put_message};
use nl_codec::{DecodeError, EncodeError, SliceCursor};
use thiserror::Error;

/// A request names a thing or two.
const REQUEST_LEN: usize = 512;

/// What went wrong.
#[derive(Debug, Error)]
pub(super) enum ExchangeError {
    #[error("netlink socket: {0}")]
    Socket(#[from] io::Error),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("{0}")]
    Kernel(Errno),
}

impl ExchangeError {
    pub(super) const fn errno(&self) -> Option<Errno> {
        match self {
            Self::Kernel(errno) => Some(*errno),
            _ => None,
        }
    }
}

/// A socket and its sequence of requests.
pub(super) struct Exchange {
    socket: Socket,
    seq: u32,
}

impl Exchange {
    /// In the calling thread's network namespace; `protocol` is one of `NETLINK_*`.
    pub(super) fn open(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, seq: 0 })
    }

    /// Sends a request and hands what the kernel replies, until it is done, to `each`.
    pub(super) fn ask<'a, B: Body<'a>>(
        &mut self,
        head: Head,
        body: &B,
        mut each: impl FnMut(&Msg<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), ExchangeError> {
        self.seq = self.seq.wrapping_add(1);
        let head = head.with_flags(Flags::ACK).with_seq(self.seq);
        let mut request = [0; REQUEST_LEN];
        let mut cursor = SliceCursor::new(&mut request);
        put_message(&mut cursor, &head, body)?;
        self.socket.send(cursor.written(), 0)?;
        loop {
            let (datagram, sender) = self.socket.recv_from_full()?;
            // Any process may send to our port.
            if sender.port_number() != 0 {
                continue;
            }
            for msg in Messages::new(&datagram) {
                let msg = msg?;
                if msg.header.seq != self.seq {
                    continue;
                }
                let error = match Control::decode(&msg)? {
                    None => {
                        each(&msg)?;
                        continue;
                    }
                    Some(Control::Ack(ack)) => ack.error,
                    Some(Control::Done(done)) => done.error,
                    Some(_) => continue,
                };
                return error.map_or(Ok(()), |errno| Err(ExchangeError::Kernel(errno)));
            }
        }
    }
}
