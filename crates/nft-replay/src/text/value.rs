//! Keys and data by their types.

use core::fmt::Write as _;
use core::net::{Ipv4Addr, Ipv6Addr};

use nl_codec::msg::Family;
use nl_codec::nft::DataType;
use nl_codec::nft::dtype::ByteOrder;
use nl_codec::nft::expr::{AddrType, CtState};

/// A value of a plain type; `order` overrides the type's own.
#[must_use]
pub fn plain(kind: DataType, bytes: &[u8], order: Option<ByteOrder>) -> String {
    match (kind, bytes.len()) {
        (DataType::IPV4_ADDR, 4) => v4(bytes),
        (DataType::IPV6_ADDR, 16) => v6(bytes),
        (DataType::ETHER_ADDR | DataType::LLADDR, 6) => {
            let parts: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            parts.join(":")
        }
        (DataType::IFNAME | DataType::STRING, _) => name(bytes),
        (DataType::INET_PROTO, 1) => protocol(bytes),
        (DataType::NFPROTO, 1) => match bytes.first() {
            Some(2) => "ipv4".to_owned(),
            Some(10) => "ipv6".to_owned(),
            Some(other) => Family(*other).to_string(),
            None => String::new(),
        },
        (DataType::FIB_ADDRTYPE, 4) => number(bytes, ByteOrder::HOST).map_or_else(
            || hex(bytes),
            |value| AddrType(u32::try_from(value).unwrap_or(u32::MAX)).to_string(),
        ),
        (DataType::CT_STATE, 4) => {
            number(bytes, ByteOrder::HOST).map_or_else(|| hex(bytes), ct_state)
        }
        (DataType::MARK | DataType::CLASSID | DataType::BITMASK, 1..=8) => {
            let order = order.unwrap_or_else(|| kind.byte_order());
            number(bytes, order).map_or_else(
                || hex(bytes),
                |value| {
                    let width = 2 + 2 * bytes.len();
                    format!("{value:#0width$x}")
                },
            )
        }
        (DataType::ETHER_TYPE, 2) => match bytes {
            [8, 0] => "ip".to_owned(),
            [0x86, 0xdd] => "ip6".to_owned(),
            [8, 6] => "arp".to_owned(),
            _ => hex(bytes),
        },
        (DataType::TIME, 4 | 8) => {
            number(bytes, ByteOrder::HOST).map_or_else(|| hex(bytes), duration)
        }
        (DataType(0) | DataType::INTEGER, 1..=8) => {
            // Whose order it is, is not said.
            let order = order.unwrap_or(ByteOrder::NETWORK);
            number(bytes, order).map_or_else(|| hex(bytes), |value| format!("{value:#x}"))
        }
        (_, 1..=8) => {
            let order = order.unwrap_or_else(|| kind.byte_order());
            number(bytes, order).map_or_else(|| hex(bytes), |value| value.to_string())
        }
        _ => hex(bytes),
    }
}

/// A value of any type: the parts of a concatenation are joined by dots.
#[must_use]
pub fn joined(kind: DataType, bytes: &[u8], order: Option<ByteOrder>) -> String {
    split(kind, bytes)
        .into_iter()
        .map(|(part, bytes)| {
            let order = order.filter(|_| !kind.is_concat());
            plain(part, bytes, order)
        })
        .collect::<Vec<_>>()
        .join(" . ")
}

/// The parts of a value. In a concatenation each is padded to 4 bytes; a part whose length no type
/// tells has what the others leave.
pub(super) fn split(kind: DataType, bytes: &[u8]) -> Vec<(DataType, &[u8])> {
    let parts: Vec<_> = kind.parts().collect();
    if parts.len() <= 1 {
        return vec![(kind, bytes)];
    }
    let known: usize = parts
        .iter()
        .filter_map(|part| length(*part))
        .map(|len| len.next_multiple_of(4))
        .sum();
    let unknown = parts.iter().filter(|part| length(**part).is_none()).count();
    let spare = bytes.len().saturating_sub(known).checked_div(unknown);
    let mut out = Vec::new();
    let mut rest = bytes;
    for part in parts {
        let len = length(part).or(spare).unwrap_or_default();
        let value = rest.get(..len).unwrap_or(rest);
        out.push((part, value));
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    if !rest.is_empty() {
        out.push((DataType(0), rest));
    }
    out
}

fn length(part: DataType) -> Option<usize> {
    part.value_len().and_then(|len| usize::try_from(len).ok())
}

/// All bytes, in wire order.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

pub(super) fn number(bytes: &[u8], order: ByteOrder) -> Option<u64> {
    let host = order == ByteOrder::HOST && cfg!(target_endian = "little");
    if bytes.len() > 8 {
        return None;
    }
    let fold = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    Some(if host {
        bytes.iter().rev().fold(0, fold)
    } else {
        bytes.iter().fold(0, fold)
    })
}

/// Milliseconds as nft writes them.
pub(super) fn duration(ms: u64) -> String {
    let mut rest = ms;
    let mut text = String::new();
    for (unit, len) in [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1_000),
    ] {
        if rest >= len {
            let _ = write!(text, "{}{unit}", rest / len);
            rest %= len;
        }
    }
    if rest > 0 || text.is_empty() {
        let _ = write!(text, "{rest}ms");
    }
    text
}

/// A name in quotes, without padding; a `*` for what need not be the whole of it.
fn name(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = String::from_utf8_lossy(bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes));
    let more = if end.is_none() && bytes.len() < 16 {
        "*"
    } else {
        ""
    };
    format!("\"{text}{more}\"")
}

fn v4(bytes: &[u8]) -> String {
    bytes
        .first_chunk::<4>()
        .map_or_else(|| hex(bytes), |octets| Ipv4Addr::from(*octets).to_string())
}

fn v6(bytes: &[u8]) -> String {
    bytes
        .first_chunk::<16>()
        .map_or_else(|| hex(bytes), |octets| Ipv6Addr::from(*octets).to_string())
}

fn protocol(bytes: &[u8]) -> String {
    match bytes.first() {
        Some(1) => "icmp".to_owned(),
        Some(6) => "tcp".to_owned(),
        Some(17) => "udp".to_owned(),
        Some(47) => "gre".to_owned(),
        Some(58) => "ipv6-icmp".to_owned(),
        Some(132) => "sctp".to_owned(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

pub(super) fn ct_state(bits: u64) -> String {
    let mut rest = u32::try_from(bits).unwrap_or(u32::MAX);
    let mut names = Vec::new();
    for (bit, name) in [
        (CtState::INVALID, "invalid"),
        (CtState::ESTABLISHED, "established"),
        (CtState::RELATED, "related"),
        (CtState::NEW, "new"),
        (CtState::UNTRACKED, "untracked"),
    ] {
        if rest & bit.bits() != 0 {
            rest &= !bit.bits();
            names.push(name.to_owned());
        }
    }
    if rest != 0 || names.is_empty() {
        names.push(format!("{rest:#x}"));
    }
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_type() {
        let frontend = DataType(0x730d);
        let key = [10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0];
        assert_eq!(joined(frontend, &key, None), "10.0.0.1 . tcp . 80");
        let mark = 0x4000_u32.to_ne_bytes();
        assert_eq!(plain(DataType::MARK, &mark, None), "0x00004000");
        assert_eq!(plain(DataType::IFNAME, b"eth0\0\0\0\0", None), "\"eth0\"");
        assert_eq!(plain(DataType::IFNAME, b"eth", None), "\"eth*\"");
        assert_eq!(
            plain(DataType(63), &[1; 12], None),
            "0x010101010101010101010101"
        );
        assert_eq!(plain(DataType::IPV4_ADDR, &[], None), "0x");
    }

    #[test]
    fn a_part_of_unknown_length_has_what_is_left() {
        let kind = DataType::concat(&[DataType::INTEGER, DataType::INET_SERVICE]).unwrap();
        assert_eq!(joined(kind, &[0, 0, 0, 5, 0, 80, 0, 0], None), "0x5 . 80");
    }

    #[test]
    fn durations() {
        assert_eq!(duration(90_061_001), "1d1h1m1s1ms");
        assert_eq!(duration(0), "0ms");
        assert_eq!(duration(10_800_000), "3h");
    }
}
