//! `exthdr`: IPv6 extension headers, IP and TCP options, SCTP chunks, DCCP options: load, write or
//! remove (`net/netfilter/nft_exthdr.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_exthdr_op`.
    pub struct ExthdrOp(u32) {
        /// IPv6 extension header; `hdr_type` is the next-header number.
        IPV6 = 0, "ipv6";
        /// TCP option; `hdr_type` is its kind.
        TCPOPT = 1, "tcpopt";
        /// IPv4 option; `hdr_type` is its type.
        IPV4 = 2, "ipv4";
        /// SCTP chunk; `hdr_type` is its type.
        SCTP = 3, "sctp";
        /// DCCP option; `hdr_type` is its type.
        DCCP = 4, "dccp";
    }
}

bitflags::bitflags! {
    /// `enum nft_exthdr_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ExthdrFlags: u32 {
        /// Load whether it is there, 1 byte, instead of its bytes.
        const PRESENT = 1;
        const _ = !0;
    }
}
flags_value!(ExthdrFlags);

attr_struct! {
    /// Loads `len` bytes at `offset` of a header into `dreg`, or writes a TCP option's bytes from
    /// `sreg`; with neither, removes a TCP option (`NFTA_EXTHDR_*`).
    pub struct Exthdr {
        /// Destination register of a load.
        1 => dreg: Register,
        /// Source register of a write.
        7 => sreg: Register,
        /// Which header, by [`ExthdrOp`].
        2 => hdr_type: u8,
        /// Offset in bytes.
        3 => offset: u32,
        /// Length in bytes.
        4 => len: u32,
        /// See [`ExthdrOp`].
        6 => op: ExthdrOp,
        /// See [`ExthdrFlags`].
        5 => flags: ExthdrFlags,
    }
}

impl Exthdr {
    /// `dreg` = `len` bytes at `offset` of header `hdr_type`.
    #[must_use]
    pub fn load(op: ExthdrOp, hdr_type: u8, offset: u32, len: u32, dreg: Register) -> Self {
        Self {
            dreg: Some(dreg),
            flags: Some(ExthdrFlags::empty()),
            ..Self::new(op, hdr_type, offset, len)
        }
    }

    /// `dreg` = whether header `hdr_type` is there.
    #[must_use]
    pub fn present(op: ExthdrOp, hdr_type: u8, dreg: Register) -> Self {
        Self {
            flags: Some(ExthdrFlags::PRESENT),
            ..Self::load(op, hdr_type, 0, 1, dreg)
        }
    }

    /// `len` bytes at `offset` of TCP option `kind` = `sreg`.
    #[must_use]
    pub fn write_tcpopt(kind: u8, offset: u32, len: u32, sreg: Register) -> Self {
        Self {
            sreg: Some(sreg),
            ..Self::new(ExthdrOp::TCPOPT, kind, offset, len)
        }
    }

    /// Overwrites TCP option `kind` with no-operation.
    #[must_use]
    pub fn reset_tcpopt(kind: u8) -> Self {
        // The kernel refuses every other attribute (`nft_exthdr_tcp_strip_init`).
        Self {
            hdr_type: Some(kind),
            op: Some(ExthdrOp::TCPOPT),
            ..Self::default()
        }
    }

    fn new(op: ExthdrOp, hdr_type: u8, offset: u32, len: u32) -> Self {
        Self {
            hdr_type: Some(hdr_type),
            offset: Some(offset),
            len: Some(len),
            op: Some(op),
            ..Self::default()
        }
    }
}

impl Text for Exthdr {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let op = match self.op {
            Some(ExthdrOp::TCPOPT) => " tcpopt",
            Some(ExthdrOp::IPV6) | None => " ipv6",
            Some(ExthdrOp::IPV4) => " ipv4",
            // libnftnl has no word for SCTP chunks and DCCP options.
            Some(_) => "",
        };
        let (hdr_type, offset) = (Shown(self.hdr_type), self.offset.unwrap_or_default());
        let len = self.len.unwrap_or_default();
        if let Some(dreg) = self.dreg {
            let flags = self.flags.unwrap_or(ExthdrFlags::empty());
            let present = if flags.contains(ExthdrFlags::PRESENT) {
                " present"
            } else {
                ""
            };
            write!(
                f,
                "load{op} {len}b @ {hdr_type} + {offset}{present} => reg {dreg} "
            )
        } else if let Some(sreg) = self.sreg {
            write!(f, "write{op} reg {sreg} => {len}b @ {hdr_type} + {offset} ")
        } else {
            write!(f, "reset{op} {hdr_type} ")
        }
    }
}
