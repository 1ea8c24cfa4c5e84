//! `payload`: load bytes of a packet's headers, or write them (`net/netfilter/nft_payload.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// Where the offset counts from (`enum nft_payload_bases`).
    pub struct PayloadBase(u32) {
        /// Link layer header.
        LINK = 0, "link";
        /// Network header.
        NETWORK = 1, "network";
        /// Transport header.
        TRANSPORT = 2, "transport";
        /// What the transport header carries.
        INNER = 3, "inner";
        /// Tunnel header; inside [`super::Inner`] alone.
        TUNNEL = 4, "tunnel";
    }
}

open_enum! {
    /// Which checksum a write keeps right (`enum nft_payload_csum_types`).
    pub struct CsumType(u32) {
        /// None.
        NONE = 0, "none";
        /// Internet checksum (RFC 791).
        INET = 1, "inet";
        /// CRC-32c of an SCTP packet (RFC 3309).
        SCTP = 2, "sctp";
    }
}

bitflags::bitflags! {
    /// `enum nft_payload_csum_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CsumFlags: u32 {
        /// The bytes are part of the layer 4 pseudo header: update that checksum too.
        const PSEUDOHDR = 1;
        const _ = !0;
    }
}
flags_value!(CsumFlags);

attr_struct! {
    /// Loads `len` bytes into `dreg`, or writes them from `sreg` (`NFTA_PAYLOAD_*`).
    pub struct Payload {
        /// Source register of a write.
        5 => sreg: Register,
        /// Destination register of a load.
        1 => dreg: Register,
        /// What `offset` counts from.
        2 => base: PayloadBase,
        /// Offset in bytes.
        3 => offset: u32,
        /// Length in bytes.
        4 => len: u32,
        /// Checksum that a write updates.
        6 => csum_type: CsumType,
        /// Where that checksum is: bytes from `base`.
        7 => csum_offset: u32,
        /// See [`CsumFlags`].
        8 => csum_flags: CsumFlags,
    }
}

impl Payload {
    /// `dreg` = `len` bytes at `offset` from `base`.
    #[must_use]
    pub fn load(base: PayloadBase, offset: u32, len: u32, dreg: Register) -> Self {
        Self {
            dreg: Some(dreg),
            base: Some(base),
            offset: Some(offset),
            len: Some(len),
            ..Self::default()
        }
    }

    /// `len` bytes at `offset` from `base` = `sreg`; no checksum is updated.
    #[must_use]
    pub fn write(base: PayloadBase, offset: u32, len: u32, sreg: Register) -> Self {
        Self {
            sreg: Some(sreg),
            base: Some(base),
            offset: Some(offset),
            len: Some(len),
            csum_type: Some(CsumType::NONE),
            csum_offset: Some(0),
            ..Self::default()
        }
    }

    /// Makes a write keep the internet checksum at `offset` from the same base right.
    #[must_use]
    pub fn with_csum(mut self, offset: u32, flags: CsumFlags) -> Self {
        self.csum_type = Some(CsumType::INET);
        self.csum_offset = Some(offset);
        self.csum_flags = (!flags.is_empty()).then_some(flags);
        self
    }
}

impl Text for Payload {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (base, offset) = (Shown(self.base), Shown(self.offset));
        let len = Shown(self.len);
        match self.sreg {
            Some(sreg) => write!(
                f,
                "write reg {sreg} => {len}b @ {base} header + {offset} \
                 csum_type {} csum_off {} csum_flags {:#x} ",
                self.csum_type.unwrap_or(CsumType::NONE).0,
                self.csum_offset.unwrap_or_default(),
                self.csum_flags.unwrap_or(CsumFlags::empty()).bits()
            ),
            None => write!(
                f,
                "load {len}b @ {base} header + {offset} => reg {} ",
                Shown(self.dreg)
            ),
        }
    }
}
