//! Netlink's own messages: errors and acks with their extended attributes, DONE, NOOP, OVERRUN.
//!
//! ```text
//! NLMSG_ERROR payload = error i32 (host order; 0 or negative errno)
//!                     | nlmsghdr of the request (16)
//!                     | rest of the request, unless NLM_F_CAPPED is set
//!                     | extended attributes, if NLM_F_ACK_TLVS is set (integers in host order)
//! NLMSG_DONE payload  = error i32 | extended attributes, if NLM_F_ACK_TLVS is set
//! ```
//! `netlink_ack` echoes the request when it failed and the socket has no `NETLINK_CAP_ACK`;
//! attributes come with `NETLINK_EXT_ACK`.

use byteorder::{ByteOrder, NativeEndian};

use crate::msg::{Flags, HEADER_LEN, Header, Msg, MsgType};
use crate::nft::Str;
use crate::{AttrBytes, Attrs, DecodeError, DecodeErrorKind, HostU32, align};

/// A control message of netlink.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Control<'a> {
    /// Error, or with [`Ack::error`] `None` success.
    Ack(Ack<'a>),
    /// End of a dump.
    Done(Done<'a>),
    /// Nothing.
    Noop,
    /// Messages were lost.
    Overrun,
}

impl<'a> Control<'a> {
    /// Reads `msg` as a control message; `None` if it is not one of those known.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(msg: &Msg<'a>) -> Result<Option<Self>, DecodeError> {
        Ok(Some(match msg.header.kind {
            MsgType::ERROR => Self::Ack(Ack::decode(msg)?),
            MsgType::DONE => Self::Done(Done::decode(msg)?),
            MsgType::NOOP => Self::Noop,
            MsgType::OVERRUN => Self::Overrun,
            _ => return Ok(None),
        }))
    }
}

/// `NLMSG_ERROR`.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Ack<'a> {
    /// The errno, positive; `None` is success.
    pub error: Option<Errno>,
    /// Header of the request.
    pub request: Header,
    /// What followed that header, if the kernel echoed it.
    pub echo: Option<&'a [u8]>,
    /// Extended attributes.
    pub extended: ExtAck<'a>,
}

impl<'a> Ack<'a> {
    /// Reads an `NLMSG_ERROR` message.
    ///
    /// # Errors
    /// [`DecodeErrorKind::WrongType`], [`DecodeErrorKind::Truncated`] and those of attributes.
    pub fn decode(msg: &Msg<'a>) -> Result<Self, DecodeError> {
        let fail = |kind| DecodeError::new(kind, "nlmsgerr", msg.offset);
        if msg.header.kind != MsgType::ERROR {
            return Err(fail(DecodeErrorKind::WrongType));
        }
        let (error, rest) =
            split_errno(msg.payload).ok_or_else(|| fail(DecodeErrorKind::Truncated))?;
        let request = Header::decode(rest)?;
        let rest = rest.get(HEADER_LEN..).unwrap_or_default();
        let (echo, tlvs) = if msg.header.flags.contains(Flags::CAPPED) || error.is_none() {
            (None, rest)
        } else {
            let len = usize::try_from(request.len)
                .unwrap_or(usize::MAX)
                .checked_sub(HEADER_LEN)
                .ok_or_else(|| fail(DecodeErrorKind::BadLength))?;
            let echo = rest
                .get(..len)
                .ok_or_else(|| fail(DecodeErrorKind::Truncated))?;
            // The last message of a datagram need not be padded.
            (Some(echo), rest.get(align(len)..).unwrap_or_default())
        };
        let extended = ExtAck::decode_if(msg.header.flags, tlvs)?;
        Ok(Self {
            error,
            request,
            echo,
            extended,
        })
    }
}

/// `NLMSG_DONE`: the end of a dump.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Done<'a> {
    /// Why the dump ended early, if it did.
    pub error: Option<Errno>,
    /// Extended attributes.
    pub extended: ExtAck<'a>,
}

impl<'a> Done<'a> {
    /// Reads an `NLMSG_DONE` message.
    ///
    /// # Errors
    /// [`DecodeErrorKind::WrongType`], [`DecodeErrorKind::Truncated`] and those of attributes.
    pub fn decode(msg: &Msg<'a>) -> Result<Self, DecodeError> {
        let fail = |kind| DecodeError::new(kind, "NLMSG_DONE", msg.offset);
        if msg.header.kind != MsgType::DONE {
            return Err(fail(DecodeErrorKind::WrongType));
        }
        let (error, rest) =
            split_errno(msg.payload).ok_or_else(|| fail(DecodeErrorKind::Truncated))?;
        let extended = ExtAck::decode_if(msg.header.flags, rest)?;
        Ok(Self { error, extended })
    }
}

/// Extended-ACK attributes (`NLMSGERR_ATTR_*`).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct ExtAck<'a> {
    /// The kernel's explanation.
    pub message: Option<Str<'a>>,
    /// Where in the request the bad attribute starts, counted from the request's first byte.
    pub offset: Option<u32>,
    /// On success, a subsystem's reply.
    pub cookie: Option<AttrBytes<'a>>,
    /// What the kernel would have accepted, undecoded (`NL_POLICY_TYPE_ATTR_*`).
    pub policy: Option<AttrBytes<'a>>,
    /// Type of the attribute that is missing.
    pub missing_type: Option<u32>,
    /// Where in the request the nest starts in which it is missing; `None` at the top level.
    pub missing_nest: Option<u32>,
}

impl<'a> ExtAck<'a> {
    /// Reads the attributes.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(attrs: Attrs<'a>) -> Result<Self, DecodeError> {
        let mut out = Self::default();
        for attr in attrs {
            let attr = attr?;
            let int = |what| attr.value::<HostU32>(what).map(|int| Some(int.0));
            match attr.kind {
                1 => out.message = Some(attr.value("extended ack message")?),
                2 => out.offset = int("extended ack offset")?,
                3 => out.cookie = Some(attr.payload),
                4 => out.policy = Some(attr.payload),
                5 => out.missing_type = int("extended ack missing type")?,
                6 => out.missing_nest = int("extended ack missing nest")?,
                _ => {}
            }
        }
        Ok(out)
    }

    fn decode_if(flags: Flags, attrs: &'a [u8]) -> Result<Self, DecodeError> {
        if flags.contains(Flags::ACK_TLVS) {
            Self::decode(Attrs::new(attrs))
        } else {
            Ok(Self::default())
        }
    }
}

fn split_errno(payload: &[u8]) -> Option<(Option<Errno>, &[u8])> {
    let (errno, rest) = payload.split_first_chunk::<4>()?;
    let errno = NativeEndian::read_i32(errno).saturating_abs();
    Some(((errno != 0).then_some(Errno(errno)), rest))
}

open_enum! {
    /// An errno, positive, with the numbers of x86 and arm. The named ones are those nf_tables and
    /// conntrack reply with.
    pub struct Errno(i32) {
        /// Not permitted; not the table's owner.
        EPERM = 1, "EPERM";
        /// Does not exist.
        ENOENT = 2, "ENOENT";
        /// Interrupted by a signal.
        EINTR = 4, "EINTR";
        /// Too many.
        E2BIG = 7, "E2BIG";
        /// Try again: a module is being loaded.
        EAGAIN = 11, "EAGAIN";
        /// Out of memory.
        ENOMEM = 12, "ENOMEM";
        /// In use.
        EBUSY = 16, "EBUSY";
        /// Exists.
        EEXIST = 17, "EEXIST";
        /// No such device.
        ENODEV = 19, "ENODEV";
        /// Invalid.
        EINVAL = 22, "EINVAL";
        /// The set is full.
        ENFILE = 23, "ENFILE";
        /// Too many references.
        EMFILE = 24, "EMFILE";
        /// No space.
        ENOSPC = 28, "ENOSPC";
        /// A constant set cannot change.
        EROFS = 30, "EROFS";
        /// Jumps nested too deeply.
        EMLINK = 31, "EMLINK";
        /// Out of range.
        ERANGE = 34, "ERANGE";
        /// A loop of chains.
        ELOOP = 40, "ELOOP";
        /// A register is read before it is written.
        ENODATA = 61, "ENODATA";
        /// Number too big.
        EOVERFLOW = 75, "EOVERFLOW";
        /// The batch was based on another generation.
        ERESTART = 85, "ERESTART";
        /// Message too long.
        EMSGSIZE = 90, "EMSGSIZE";
        /// Not supported.
        EOPNOTSUPP = 95, "EOPNOTSUPP";
        /// Address family not supported.
        EAFNOSUPPORT = 97, "EAFNOSUPPORT";
        /// Messages were lost.
        ENOBUFS = 105, "ENOBUFS";
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;
    use crate::msg::{Family, Head, Messages, NftMsg, put_message};
    use crate::nft::Table;
    use crate::{Encoder, SliceCursor};

    const ERROR: i32 = -2;

    /// What `netlink_ack` sends: the request's header always, the rest of it unless capped.
    fn ack(error: i32, flags: Flags, tlvs: &[(u16, &[u8])]) -> Vec<u8> {
        let mut request = [0; 64];
        let mut cursor = SliceCursor::new(&mut request);
        let head = Head::nft(NftMsg::DEL_TABLE, Family::IPV4).with_seq(9);
        put_message(&mut cursor, &head, &Table::named("tab")).unwrap();
        let request = cursor.written();

        let mut buf = [0; 256];
        let mut cursor = SliceCursor::new(&mut buf);
        cursor.put(&[0; HEADER_LEN]).unwrap();
        cursor.put(&error.to_ne_bytes()).unwrap();
        cursor.put(&request[..HEADER_LEN]).unwrap();
        if !flags.contains(Flags::CAPPED) {
            cursor.put(&request[HEADER_LEN..]).unwrap();
        }
        for (attr, payload) in tlvs {
            cursor.put_attr_bytes(*attr, payload).unwrap();
        }
        let header = Header {
            len: u32::try_from(cursor.position()).unwrap(),
            kind: MsgType::ERROR,
            flags,
            seq: 9,
            port: 1,
        };
        cursor.patch(0, &header.to_bytes());
        cursor.written().to_vec()
    }

    fn decode(bytes: &[u8]) -> Ack<'_> {
        let msg = Messages::new(bytes).next().unwrap().unwrap();
        match Control::decode(&msg).unwrap() {
            Some(Control::Ack(ack)) => ack,
            other => panic!("not an ack: {other:?}"),
        }
    }

    #[test]
    fn success_has_no_echo() {
        let bytes = ack(0, Flags::CAPPED, &[]);
        let ack = decode(&bytes);
        assert_eq!((ack.error, ack.echo), (None, None));
        assert_eq!(ack.request.seq, 9);
        assert_eq!(ack.request.kind, MsgType::nft(NftMsg::DEL_TABLE));
        assert_eq!(ack.extended, ExtAck::default());
    }

    #[test]
    fn attributes_follow_the_echo_and_replace_it_when_capped() {
        let offset = 20_u32.to_ne_bytes();
        let tlvs: &[(u16, &[u8])] = &[(1, b"no such table\0"), (2, &offset)];
        for flags in [Flags::ACK_TLVS, Flags::ACK_TLVS | Flags::CAPPED] {
            let bytes = ack(ERROR, flags, tlvs);
            let ack = decode(&bytes);
            assert_eq!(ack.error, Some(Errno::ENOENT));
            assert_eq!(ack.extended.offset, Some(20));
            assert!(ack.extended.message.is_some_and(|m| m == *"no such table"));
            // nfgenmsg and the 8 bytes of the name.
            let echo_len = (!flags.contains(Flags::CAPPED)).then_some(12);
            assert_eq!(ack.echo.map(<[u8]>::len), echo_len);
        }
    }

    #[test]
    fn without_the_flag_trailing_bytes_are_no_attributes() {
        let bytes = ack(ERROR, Flags::CAPPED, &[(2, &[1, 0, 0, 0])]);
        assert_eq!(decode(&bytes).extended, ExtAck::default());
    }

    #[test]
    fn missing_attributes_are_named() {
        let (kind, nest) = (7_u32.to_ne_bytes(), 24_u32.to_ne_bytes());
        let tlvs: &[(u16, &[u8])] = &[(3, b"ck"), (4, &[]), (5, &kind), (6, &nest)];
        let bytes = ack(-22, Flags::ACK_TLVS | Flags::CAPPED, tlvs);
        let ack = decode(&bytes);
        assert_eq!(ack.error, Some(Errno::EINVAL));
        assert_eq!(ack.extended.missing_type, Some(7));
        assert_eq!(ack.extended.missing_nest, Some(24));
        assert_eq!(ack.extended.cookie, Some(&b"ck"[..]));
        assert_eq!(ack.extended.policy, Some(&[][..]));
    }

    #[test]
    fn an_echo_that_is_cut_off_is_truncated() {
        let mut bytes = ack(ERROR, Flags::empty(), &[]);
        bytes.truncate(bytes.len() - 4);
        let len = u32::try_from(bytes.len()).unwrap();
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        let msg = Messages::new(&bytes).next().unwrap().unwrap();
        let err = Ack::decode(&msg).unwrap_err();
        assert_eq!(err.kind, DecodeErrorKind::Truncated);
    }

    #[test]
    fn done_carries_an_error() {
        let mut bytes = [0; 20];
        let header = Header {
            len: 20,
            kind: MsgType::DONE,
            flags: Flags::MULTI,
            seq: 1,
            port: 2,
        };
        bytes[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        bytes[HEADER_LEN..].copy_from_slice(&(-4_i32).to_ne_bytes());
        let msg = Messages::new(&bytes).next().unwrap().unwrap();
        let done = Done::decode(&msg).unwrap();
        assert_eq!(done.error, Some(Errno::EINTR));
    }
}
