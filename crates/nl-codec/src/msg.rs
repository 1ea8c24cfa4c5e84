//! Netlink and nfnetlink messages: headers, the guard that writes one, the iterator that reads many.
//!
//! ```text
//! nlmsghdr (16 bytes, host order)   nlmsg_len u32 | nlmsg_type u16 | nlmsg_flags u16 | seq u32 | pid u32
//! nfgenmsg (4 bytes)                nfgen_family u8 | version u8 | res_id u16 (network order)
//! ```
//! The type of an nfnetlink message is its subsystem in the high byte and the subsystem's message
//! number in the low one (`include/uapi/linux/netfilter/nfnetlink.h`).

mod batch;
mod header;
mod kind;
mod read;

pub use batch::{BatchBegin, put_batch_begin, put_batch_end};
pub use header::{Family, Flags, Header, NfGen};
pub use kind::{CtMsg, MsgType, NftMsg, Subsystem};
pub use read::{Messages, Msg, NfMsg};

use crate::wire::ALIGN;
use crate::{Attrs, DecodeError, EncodeError, Encoder, align};

/// Bytes of `struct nlmsghdr`.
pub const HEADER_LEN: usize = 16;
/// Bytes of `struct nfgenmsg`.
pub const NFGEN_LEN: usize = 4;
/// Where an nfnetlink message's attributes start, counted from its first byte. Extended-ACK
/// offsets count from there too.
pub const ATTRS_OFFSET: usize = HEADER_LEN + NFGEN_LEN;

/// The fixed part of a message to send: what differs between messages, without the length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Message type.
    pub kind: MsgType,
    /// `NLM_F_*`; [`Flags::REQUEST`] is wanted in everything sent to the kernel.
    pub flags: Flags,
    /// Sequence number, echoed in the reply.
    pub seq: u32,
    /// Port id of the sender; 0 lets the kernel fill it in.
    pub port: u32,
    /// Address family of the table.
    pub family: Family,
    /// `version` of `nfgenmsg`, 0; some of conntrack's messages mean more with 1.
    pub version: u8,
    /// `res_id` of `nfgenmsg`: the subsystem in batch messages, else 0.
    pub res_id: u16,
}

impl Head {
    /// A request without further flags, sequence number 0.
    #[must_use]
    pub const fn new(kind: MsgType, family: Family) -> Self {
        Self {
            kind,
            flags: Flags::REQUEST,
            seq: 0,
            port: 0,
            family,
            version: 0,
            res_id: 0,
        }
    }

    /// An nf_tables request.
    #[must_use]
    pub const fn nft(msg: NftMsg, family: Family) -> Self {
        Self::new(MsgType::nft(msg), family)
    }

    /// A conntrack request.
    #[must_use]
    pub const fn ct(msg: CtMsg, family: Family) -> Self {
        Self::new(MsgType::ct(msg), family)
    }

    /// Adds `flags`.
    #[must_use]
    pub const fn with_flags(mut self, flags: Flags) -> Self {
        self.flags = self.flags.union(flags);
        self
    }

    /// Sets the sequence number.
    #[must_use]
    pub const fn with_seq(mut self, seq: u32) -> Self {
        self.seq = seq;
        self
    }
}

/// What can be the attributes of a whole message.
pub trait Body<'a>: Sized {
    /// Appends the attributes.
    ///
    /// # Errors
    /// See [`EncodeError`].
    fn encode_body<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError>;

    /// Reads the attributes.
    ///
    /// # Errors
    /// See [`DecodeError`].
    fn decode_body(attrs: Attrs<'a>) -> Result<Self, DecodeError>;
}

/// Appends one whole message.
///
/// # Errors
/// See [`EncodeError`]; nothing is left behind then.
#[inline]
pub fn put_message<'a, E: Encoder, B: Body<'a>>(
    enc: &mut E,
    head: &Head,
    body: &B,
) -> Result<(), EncodeError> {
    let mut message = Message::begin(enc, head)?;
    body.encode_body(&mut *message)?;
    message.end()
}

/// An open message. Dereferences to its encoder; [`Message::end`] writes the length, dropping the
/// guard without that removes the message.
#[derive(Debug)]
#[must_use = "a message that is not ended is removed again"]
pub struct Message<'e, E: Encoder> {
    enc: &'e mut E,
    start: usize,
    open: bool,
}

impl<'e, E: Encoder> Message<'e, E> {
    /// Appends the headers.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn begin(enc: &'e mut E, head: &Head) -> Result<Self, EncodeError> {
        let start = enc.position();
        let header = Header {
            len: 0,
            kind: head.kind,
            flags: head.flags,
            seq: head.seq,
            port: head.port,
        };
        let nfgen = NfGen {
            family: head.family,
            version: head.version,
            res_id: head.res_id,
        };
        let mut bytes = [0; ATTRS_OFFSET];
        let (first, second) = bytes.split_at_mut(HEADER_LEN);
        first.copy_from_slice(&header.to_bytes());
        second.copy_from_slice(&nfgen.to_bytes());
        enc.put(&bytes)?;
        Ok(Self {
            enc,
            start,
            open: true,
        })
    }

    /// Closes the message and pads to the next one.
    ///
    /// # Errors
    /// [`EncodeError::MessageTooLong`], [`EncodeError::NoRoom`]; the message is removed then.
    #[inline]
    pub fn end(mut self) -> Result<(), EncodeError> {
        let len = self.enc.position().saturating_sub(self.start);
        let wire_len =
            u32::try_from(len).map_err(|_| EncodeError::MessageTooLong { offset: self.start })?;
        if let Some(padding) = [0; ALIGN].get(..align(len) - len)
            && !padding.is_empty()
        {
            self.enc.put(padding)?;
        }
        self.enc.patch(self.start, &wire_len.to_ne_bytes());
        self.open = false;
        Ok(())
    }
}

open_guard!(Message);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LenCounter, SliceCursor, put_attr};

    #[test]
    fn headers_have_both_byte_orders() {
        let mut buf = [0; 64];
        let mut cursor = SliceCursor::new(&mut buf);
        let mut head = Head::nft(NftMsg::NEW_SET, Family::IPV4)
            .with_flags(Flags::CREATE | Flags::ACK)
            .with_seq(0x0102_0304);
        head.res_id = 0x0a0b;
        let mut message = Message::begin(&mut cursor, &head).unwrap();
        put_attr(&mut *message, 1, &7_u32).unwrap();
        message.end().unwrap();

        // Length, type, flags, sequence number, port; family, version, resource id; attribute.
        let expected = if cfg!(target_endian = "little") {
            *b"\x1c\0\0\0\x09\x0a\x05\x04\x04\x03\x02\x01\0\0\0\0\
               \x02\0\x0a\x0b\x08\0\x01\0\0\0\0\x07"
        } else {
            *b"\0\0\0\x1c\x0a\x09\x04\x05\x01\x02\x03\x04\0\0\0\0\
               \x02\0\x0a\x0b\0\x08\0\x01\0\0\0\x07"
        };
        assert_eq!(cursor.written(), expected);
    }

    #[test]
    fn message_dropped_unfinished_leaves_no_bytes() {
        let mut buf = [0; 64];
        let mut cursor = SliceCursor::new(&mut buf);
        {
            let head = Head::nft(NftMsg::NEW_TABLE, Family::INET);
            let mut message = Message::begin(&mut cursor, &head).unwrap();
            put_attr(&mut *message, 1, &7_u32).unwrap();
        }
        assert_eq!(cursor.position(), 0);
    }

    #[test]
    fn a_raw_payload_is_padded_but_not_counted() {
        let mut buf = [0xff; 64];
        let mut cursor = SliceCursor::new(&mut buf);
        let mut counter = LenCounter::new();
        fn encode<E: Encoder>(enc: &mut E) -> Result<(), EncodeError> {
            let head = Head::nft(NftMsg::GET_TABLE, Family::INET);
            let mut message = Message::begin(enc, &head)?;
            message.put(b"x")?;
            message.end()
        }
        encode(&mut cursor).unwrap();
        encode(&mut counter).unwrap();
        assert_eq!((cursor.position(), counter.position()), (24, 24));
        assert_eq!(cursor.written()[..4], 21_u32.to_ne_bytes());
        assert_eq!(cursor.written()[21..], [0, 0, 0]);
    }
}
