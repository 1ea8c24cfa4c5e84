//! `nat`: translate a connection's source or destination (`net/netfilter/nft_nat.c`).

use core::fmt::{self, Formatter};

use super::NfProto;
use crate::nft::Register;
use crate::pretty::text::{Shown, Text, field};

open_enum! {
    /// `enum nft_nat_types`.
    pub struct NatType(u32) {
        /// Source.
        SNAT = 0, "snat";
        /// Destination.
        DNAT = 1, "dnat";
    }
}

bitflags::bitflags! {
    /// `NF_NAT_RANGE_*` (`include/uapi/linux/netfilter/nf_nat.h`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct NatFlags: u32 {
        /// An address is given; the kernel sets it itself.
        const MAP_IPS = 1;
        /// A port is given; the kernel sets it itself.
        const PROTO_SPECIFIED = 1 << 1;
        /// Pick a random port, same for equal tuples.
        const PROTO_RANDOM = 1 << 2;
        /// The same client gets the same address.
        const PERSISTENT = 1 << 3;
        /// Pick a random port each time.
        const PROTO_RANDOM_FULLY = 1 << 4;
        /// Shift ports by an offset.
        const PROTO_OFFSET = 1 << 5;
        /// Keep the host part, replace the network part.
        const NETMAP = 1 << 6;
        const _ = !0;
    }
}
flags_value!(NatFlags);

attr_struct! {
    /// Translates to the address and port ranges in registers (`NFTA_NAT_*`).
    pub struct Nat {
        /// Source or destination.
        1 => nat_type: NatType,
        /// Family of the address.
        2 => family: NfProto,
        /// First address.
        3 => addr_min: Register,
        /// Last address.
        4 => addr_max: Register,
        /// First port, 2 bytes in network order.
        5 => proto_min: Register,
        /// Last port, 2 bytes in network order.
        6 => proto_max: Register,
        /// See [`NatFlags`].
        7 => flags: NatFlags,
    }
}

impl Nat {
    /// Destination becomes the address in `addr` and, if given, the port in `port`.
    #[must_use]
    pub fn dnat(family: NfProto, addr: Register, port: Option<Register>) -> Self {
        Self::to(NatType::DNAT, family, addr, port)
    }

    /// Source becomes the address in `addr` and, if given, the port in `port`.
    #[must_use]
    pub fn snat(family: NfProto, addr: Register, port: Option<Register>) -> Self {
        Self::to(NatType::SNAT, family, addr, port)
    }

    /// Replaces the flags.
    #[must_use]
    pub fn with_flags(mut self, flags: NatFlags) -> Self {
        self.flags = Some(flags);
        self
    }

    fn to(nat_type: NatType, family: NfProto, addr: Register, port: Option<Register>) -> Self {
        Self {
            nat_type: Some(nat_type),
            family: Some(family),
            addr_min: Some(addr),
            proto_min: port,
            ..Self::default()
        }
    }
}

impl Text for Nat {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", Shown(self.nat_type), Shown(self.family))?;
        field(f, "addr_min reg", self.addr_min)?;
        field(f, "addr_max reg", self.addr_max)?;
        ports_text(f, [self.proto_min, self.proto_max], self.flags)
    }
}

/// What `nat`, `masq` and `redir` end with.
pub(super) fn ports_text(
    f: &mut Formatter<'_>,
    [min, max]: [Option<Register>; 2],
    flags: Option<NatFlags>,
) -> fmt::Result {
    field(f, "proto_min reg", min)?;
    field(f, "proto_max reg", max)?;
    match flags {
        Some(flags) => write!(f, "flags {:#x} ", flags.bits()),
        None => Ok(()),
    }
}
