//! `struct nlmsghdr` and `struct nfgenmsg`.

use byteorder::{ByteOrder, NativeEndian, NetworkEndian};

use super::{HEADER_LEN, MsgType, NFGEN_LEN};
use crate::{DecodeError, DecodeErrorKind};

bitflags::bitflags! {
    /// `NLM_F_*` (`include/uapi/linux/netlink.h`). Bits from 0x100 on mean different things in
    /// requests to get, to create, to delete, and in acks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Flags: u16 {
        /// A request to the kernel.
        const REQUEST = 0x01;
        /// One of several messages, ended by DONE.
        const MULTI = 0x02;
        /// Reply with an ack even on success.
        const ACK = 0x04;
        /// Send the resulting event to the requester too.
        const ECHO = 0x08;
        /// The dump may be inconsistent: the data changed meanwhile.
        const DUMP_INTR = 0x10;
        /// The dump was filtered as asked.
        const DUMP_FILTERED = 0x20;

        /// Get: the whole table.
        const ROOT = 0x100;
        /// Get: all that matches.
        const MATCH = 0x200;
        /// Get: dump.
        const DUMP = 0x300;

        /// Create: replace what exists.
        const REPLACE = 0x100;
        /// Create: fail if it exists.
        const EXCL = 0x200;
        /// Create: make it if it does not exist.
        const CREATE = 0x400;
        /// Create: at the end of the list. Without it a rule goes to the beginning.
        const APPEND = 0x800;

        /// Delete: not recursively (a chain with its rules is EBUSY then).
        const NONREC = 0x100;
        /// Delete: many at once.
        const BULK = 0x200;

        /// Ack: the request is not echoed (`NETLINK_CAP_ACK`).
        const CAPPED = 0x100;
        /// Ack: extended-ACK attributes follow (`NETLINK_EXT_ACK`).
        const ACK_TLVS = 0x200;

        const _ = !0;
    }
}

open_enum! {
    /// Address family of a table (`NFPROTO_*`).
    pub struct Family(u8) {
        /// All families, in dumps and batch messages.
        UNSPEC = 0, "unspec";
        /// IPv4 and IPv6.
        INET = 1, "inet";
        /// IPv4.
        IPV4 = 2, "ip";
        /// ARP.
        ARP = 3, "arp";
        /// Ingress and egress of devices.
        NETDEV = 5, "netdev";
        /// Bridge.
        BRIDGE = 7, "bridge";
        /// IPv6.
        IPV6 = 10, "ip6";
    }
}

/// `struct nlmsghdr`, host order on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Length of the message in bytes, this header included, padding not.
    pub len: u32,
    /// Message type.
    pub kind: MsgType,
    /// `NLM_F_*`.
    pub flags: Flags,
    /// Sequence number.
    pub seq: u32,
    /// Port id: of the requester in replies, 0 in messages which the kernel itself originates.
    pub port: u32,
}

impl Header {
    /// Wire format.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        NativeEndian::write_u32(&mut bytes[..4], self.len);
        NativeEndian::write_u16(&mut bytes[4..6], self.kind.0);
        NativeEndian::write_u16(&mut bytes[6..8], self.flags.bits());
        NativeEndian::write_u32(&mut bytes[8..12], self.seq);
        NativeEndian::write_u32(&mut bytes[12..], self.port);
        bytes
    }

    /// Reads the header at the beginning of `bytes`. The length is checked by
    /// [`super::Messages`], not here.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some(bytes) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(DecodeError::new(DecodeErrorKind::Truncated, "nlmsghdr", 0));
        };
        Ok(Self {
            len: NativeEndian::read_u32(&bytes[..4]),
            kind: MsgType(NativeEndian::read_u16(&bytes[4..6])),
            flags: Flags::from_bits_retain(NativeEndian::read_u16(&bytes[6..8])),
            seq: NativeEndian::read_u32(&bytes[8..12]),
            port: NativeEndian::read_u32(&bytes[12..]),
        })
    }
}

/// `struct nfgenmsg`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfGen {
    /// Address family.
    pub family: Family,
    /// Version, mostly 0.
    pub version: u8,
    /// Network order on the wire. Subsystem in batch messages; the low 16 bits of the generation in
    /// nf_tables' dumps and events.
    pub res_id: u16,
}

impl NfGen {
    /// Wire format.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; NFGEN_LEN] {
        let mut bytes = [self.family.0, self.version, 0, 0];
        NetworkEndian::write_u16(&mut bytes[2..], self.res_id);
        bytes
    }

    /// Reads the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`DecodeErrorKind::Truncated`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some(bytes) = bytes.first_chunk::<NFGEN_LEN>() else {
            return Err(DecodeError::new(DecodeErrorKind::Truncated, "nfgenmsg", 0));
        };
        Ok(Self {
            family: Family(bytes[0]),
            version: bytes[1],
            res_id: NetworkEndian::read_u16(&bytes[2..]),
        })
    }
}
