//! Tuples: one direction of a connection (`CTA_TUPLE_*`).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

attr_struct! {
    /// Addresses (`CTA_IP_*`).
    pub struct TupleIp {
        /// IPv4 source.
        1 => v4_src: Ipv4Addr,
        /// IPv4 destination.
        2 => v4_dst: Ipv4Addr,
        /// IPv6 source.
        3 => v6_src: Ipv6Addr,
        /// IPv6 destination.
        4 => v6_dst: Ipv6Addr,
    }
}

attr_struct! {
    /// Layer 4 protocol and ports (`CTA_PROTO_*`).
    pub struct TupleProto {
        /// Protocol number.
        1 => number: u8,
        /// Source port.
        2 => src_port: u16,
        /// Destination port.
        3 => dst_port: u16,
        /// ICMP id.
        4 => icmp_id: u16,
        /// ICMP type.
        5 => icmp_type: u8,
        /// ICMP code.
        6 => icmp_code: u8,
        /// ICMPv6 id.
        7 => icmpv6_id: u16,
        /// ICMPv6 type.
        8 => icmpv6_type: u8,
        /// ICMPv6 code.
        9 => icmpv6_code: u8,
    }
}

attr_struct! {
    /// One direction of a connection, or in filters the known part of it.
    pub struct Tuple {
        /// Addresses.
        1 => ip: TupleIp,
        /// Protocol and ports.
        2 => proto: TupleProto,
        /// Zone, where directions have zones of their own.
        3 => zone: u16,
    }
}

impl Tuple {
    /// The direction from `src` to `dst` of `protocol` (TCP, UDP, SCTP); `None` if one address is
    /// IPv4 and the other IPv6.
    #[must_use]
    pub fn new(protocol: u8, src: SocketAddr, dst: SocketAddr) -> Option<Self> {
        if src.is_ipv4() != dst.is_ipv4() {
            return None;
        }
        let tuple = Self::default()
            .with_src(src.ip())
            .with_dst(dst.ip())
            .with_protocol(protocol);
        Some(tuple.with_src_port(src.port()).with_dst_port(dst.port()))
    }

    /// With this source address.
    #[must_use]
    pub fn with_src(mut self, addr: IpAddr) -> Self {
        let ip = self.ip.get_or_insert_default();
        match addr {
            IpAddr::V4(addr) => ip.v4_src = Some(addr),
            IpAddr::V6(addr) => ip.v6_src = Some(addr),
        }
        self
    }

    /// With this destination address.
    #[must_use]
    pub fn with_dst(mut self, addr: IpAddr) -> Self {
        let ip = self.ip.get_or_insert_default();
        match addr {
            IpAddr::V4(addr) => ip.v4_dst = Some(addr),
            IpAddr::V6(addr) => ip.v6_dst = Some(addr),
        }
        self
    }

    /// With this layer 4 protocol.
    #[must_use]
    pub fn with_protocol(mut self, number: u8) -> Self {
        self.proto.get_or_insert_default().number = Some(number);
        self
    }

    /// With this source port.
    #[must_use]
    pub fn with_src_port(mut self, port: u16) -> Self {
        self.proto.get_or_insert_default().src_port = Some(port);
        self
    }

    /// With this destination port.
    #[must_use]
    pub fn with_dst_port(mut self, port: u16) -> Self {
        self.proto.get_or_insert_default().dst_port = Some(port);
        self
    }

    /// Source address.
    #[must_use]
    pub fn src(&self) -> Option<IpAddr> {
        let ip = self.ip?;
        ip.v4_src
            .map(IpAddr::V4)
            .or_else(|| ip.v6_src.map(IpAddr::V6))
    }

    /// Destination address.
    #[must_use]
    pub fn dst(&self) -> Option<IpAddr> {
        let ip = self.ip?;
        ip.v4_dst
            .map(IpAddr::V4)
            .or_else(|| ip.v6_dst.map(IpAddr::V6))
    }
}
