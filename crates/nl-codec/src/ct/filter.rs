//! Filtering in the kernel (`CTA_FILTER`, Linux 5.8).

use super::Tuple;
use crate::HostU32;

bitflags::bitflags! {
    /// Which parts of a tuple must agree (`CTA_FILTER_F_*`, `net/netfilter/nf_internals.h`). In
    /// host order on the wire, unlike everything around it.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct FilterFlags: u32 {
        /// Source address.
        const IP_SRC = 1;
        /// Destination address.
        const IP_DST = 1 << 1;
        /// Zone of the tuple.
        const ZONE = 1 << 2;
        /// Layer 4 protocol.
        const PROTO = 1 << 3;
        /// Source port; with [`Self::PROTO`].
        const SRC_PORT = 1 << 4;
        /// Destination port; with [`Self::PROTO`].
        const DST_PORT = 1 << 5;
        /// ICMP type.
        const ICMP_TYPE = 1 << 6;
        /// ICMP code.
        const ICMP_CODE = 1 << 7;
        /// ICMP id.
        const ICMP_ID = 1 << 8;
        /// ICMPv6 type.
        const ICMPV6_TYPE = 1 << 9;
        /// ICMPv6 code.
        const ICMPV6_CODE = 1 << 10;
        /// ICMPv6 id.
        const ICMPV6_ID = 1 << 11;
        const _ = !0;
    }
}

impl FilterFlags {
    /// The flags of the attributes that `tuple` has; `None` if it has IPv6 addresses, see
    /// [`Filter`].
    #[must_use]
    pub fn present_in(tuple: &Tuple) -> Option<Self> {
        let ip = tuple.ip.unwrap_or_default();
        let proto = tuple.proto.unwrap_or_default();
        if ip.v6_src.is_some() || ip.v6_dst.is_some() {
            return None;
        }
        let flags = [
            (Self::IP_SRC, ip.v4_src.is_some()),
            (Self::IP_DST, ip.v4_dst.is_some()),
            (Self::ZONE, tuple.zone.is_some()),
            (Self::PROTO, proto.number.is_some()),
            (Self::SRC_PORT, proto.src_port.is_some()),
            (Self::DST_PORT, proto.dst_port.is_some()),
            (Self::ICMP_TYPE, proto.icmp_type.is_some()),
            (Self::ICMP_CODE, proto.icmp_code.is_some()),
            (Self::ICMP_ID, proto.icmp_id.is_some()),
            (Self::ICMPV6_TYPE, proto.icmpv6_type.is_some()),
            (Self::ICMPV6_CODE, proto.icmpv6_code.is_some()),
            (Self::ICMPV6_ID, proto.icmpv6_id.is_some()),
        ];
        let present = flags.into_iter().filter(|(_, present)| *present);
        Some(present.map(|(flag, _)| flag).collect())
    }
}

value_as!(
    FilterFlags as HostU32,
    |flags: &Self| HostU32(flags.bits()),
    |bits: HostU32| Self::from_bits_retain(bits.0)
);

attr_struct! {
    /// Which parts of the tuples must agree (`CTA_FILTER_*`).
    ///
    /// Not for IPv6 addresses: `ctnetlink_filter_match_tuple` of Linux 6.18 takes those for a match
    /// that *differ*, so that a deletion would remove everything else. Filter by protocol and port
    /// and compare the addresses of what is dumped.
    pub struct Filter {
        /// Of the original direction's.
        1 => orig: FilterFlags,
        /// Of the reply direction's.
        2 => reply: FilterFlags,
    }
}
