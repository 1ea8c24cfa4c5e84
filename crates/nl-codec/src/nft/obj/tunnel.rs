//! `tunnel`: metadata for packets that leave through a tunnel (`nft_tunnel_obj_ops`).

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::AttrBytes;

bitflags::bitflags! {
    /// `NFT_TUNNEL_F_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct TunnelFlags: u32 {
        /// Send without UDP checksum.
        const ZERO_CSUM_TX = 1;
        /// Set the outer "don't fragment".
        const DONT_FRAGMENT = 1 << 1;
        /// Number the packets.
        const SEQ_NUMBER = 1 << 2;
        const _ = !0;
    }
}
flags_value!(TunnelFlags);

attr_struct! {
    /// Outer IPv4 addresses (`NFTA_TUNNEL_KEY_IP_*`).
    pub struct TunnelIp {
        /// Source.
        1 => src: Ipv4Addr,
        /// Destination.
        2 => dst: Ipv4Addr,
    }
}

attr_struct! {
    /// Outer IPv6 addresses (`NFTA_TUNNEL_KEY_IP6_*`).
    pub struct TunnelIp6 {
        /// Source.
        1 => src: Ipv6Addr,
        /// Destination.
        2 => dst: Ipv6Addr,
        /// Flow label.
        3 => flowlabel: u32,
    }
}

attr_struct! {
    /// Tunnel metadata (`NFTA_TUNNEL_KEY_*`).
    pub struct TunnelMetadata<'a> {
        /// Tunnel id.
        1 => id: u32,
        /// IPv4 addresses.
        2 => ip: TunnelIp,
        /// IPv6 addresses.
        3 => ip6: TunnelIp6,
        /// See [`TunnelFlags`].
        4 => flags: TunnelFlags,
        /// Type of service.
        5 => tos: u8,
        /// Time to live.
        6 => ttl: u8,
        /// Source port.
        7 => sport: u16,
        /// Destination port.
        8 => dport: u16,
        /// VXLAN, ERSPAN or GENEVE options (`NFTA_TUNNEL_KEY_OPTS_*`), undecoded.
        9 => opts: AttrBytes<'a>,
    }
}
