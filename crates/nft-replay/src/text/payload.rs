//! Names of packet fields.

use nl_codec::msg::Family;
use nl_codec::nft::DataType;
use nl_codec::nft::expr::{Payload, PayloadBase};

/// Name, type and, for the beginning of an address, length of the whole field.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: DataType,
    pub(super) whole: Option<usize>,
}

/// The field that a load or write is about, in a table of `family`, behind a match of layer 4
/// protocol `protocol`.
pub(super) fn field(family: Family, protocol: Option<u8>, payload: &Payload) -> Field {
    let base = payload.base.unwrap_or(PayloadBase::NETWORK);
    let offset = payload.offset.unwrap_or_default();
    let len = payload.len.unwrap_or_default();
    let named = match base {
        PayloadBase::NETWORK => network(family, offset, len),
        PayloadBase::TRANSPORT => transport(protocol, offset, len),
        PayloadBase::LINK => link(offset, len),
        _ => None,
    };
    named.unwrap_or_else(|| {
        let base = match base {
            PayloadBase::LINK => "ll",
            PayloadBase::NETWORK => "nh",
            PayloadBase::TRANSPORT => "th",
            _ => "ih",
        };
        let (offset, len) = (u64::from(offset) * 8, u64::from(len) * 8);
        Field {
            name: format!("@{base},{offset},{len}"),
            kind: DataType::INTEGER,
            whole: None,
        }
    })
}

fn some(name: &str, kind: DataType) -> Option<Field> {
    Some(Field {
        name: name.to_owned(),
        kind,
        whole: None,
    })
}

fn network(family: Family, offset: u32, len: u32) -> Option<Field> {
    let (v4, v6) = (family != Family::IPV6, family != Family::IPV4);
    match (offset, len) {
        (8, 16) if v6 => some("ip6 saddr", DataType::IPV6_ADDR),
        (24, 16) if v6 => some("ip6 daddr", DataType::IPV6_ADDR),
        (6, 1) if family == Family::IPV6 => some("ip6 nexthdr", DataType::INET_PROTO),
        (7, 1) if family == Family::IPV6 => some("ip6 hoplimit", DataType::INTEGER),
        (12, 4) if v4 => some("ip saddr", DataType::IPV4_ADDR),
        (16, 4) if v4 => some("ip daddr", DataType::IPV4_ADDR),
        (9, 1) if v4 => some("ip protocol", DataType::INET_PROTO),
        (8, 1) if v4 => some("ip ttl", DataType::INTEGER),
        (2, 2) if v4 => some("ip length", DataType::INTEGER),
        (12 | 16, 1..=3) if family == Family::IPV4 => Some(Field {
            name: if offset == 12 { "ip saddr" } else { "ip daddr" }.to_owned(),
            kind: DataType::IPV4_ADDR,
            whole: Some(4),
        }),
        (8 | 24, 1..=15) if family == Family::IPV6 => Some(Field {
            name: if offset == 8 {
                "ip6 saddr"
            } else {
                "ip6 daddr"
            }
            .to_owned(),
            kind: DataType::IPV6_ADDR,
            whole: Some(16),
        }),
        _ => None,
    }
}

fn transport(protocol: Option<u8>, offset: u32, len: u32) -> Option<Field> {
    let of = match protocol {
        Some(6) => "tcp",
        Some(17) => "udp",
        Some(132) => "sctp",
        Some(1) => "icmp",
        Some(58) => "icmpv6",
        _ => "th",
    };
    match (of, offset, len) {
        ("icmp", 0, 1) => some("icmp type", DataType::ICMP_TYPE),
        ("icmpv6", 0, 1) => some("icmpv6 type", DataType::ICMPV6_TYPE),
        ("icmp" | "icmpv6", 1, 1) => some(&format!("{of} code"), DataType::ICMP_CODE),
        (_, 0, 2) => some(&format!("{of} sport"), DataType::INET_SERVICE),
        (_, 2, 2) => some(&format!("{of} dport"), DataType::INET_SERVICE),
        ("tcp", 13, 1) => some("tcp flags", DataType::BITMASK),
        _ => None,
    }
}

fn link(offset: u32, len: u32) -> Option<Field> {
    match (offset, len) {
        (0, 6) => some("ether daddr", DataType::ETHER_ADDR),
        (6, 6) => some("ether saddr", DataType::ETHER_ADDR),
        (12, 2) => some("ether type", DataType::ETHER_TYPE),
        _ => None,
    }
}
