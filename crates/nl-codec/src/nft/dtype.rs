//! nft's data types: the numbers which sets carry as key and data type.
//!
//! The kernel keeps them and looks only at [`DataType::VERDICT_MAP`]; nft needs them to show keys as
//! addresses, ports and marks. A concatenation packs its parts' numbers six bits each, the first
//! one highest (`include/datatype.h` of nftables, `TYPE_BITS`).

use core::fmt;

use crate::align;

const BITS: u32 = 6;
const MASK: u32 = (1 << BITS) - 1;
const MAX_PARTS: usize = 5;

open_enum! {
    /// How a type's value lies in a key (`enum byteorder` of nftables); in userdata too.
    pub struct ByteOrder(u32) {
        /// Does not apply: one byte, or mixed.
        INVALID = 0, "invalid";
        /// The host's.
        HOST = 1, "host";
        /// The network's.
        NETWORK = 2, "network";
    }
}

/// A data type, or a concatenation of up to five.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DataType(pub u32);

macro_rules! data_types {
    ($( $(#[$meta:meta])* $name:ident = $num:literal, $text:literal, $len:literal, $order:ident; )+) => {
        impl DataType {
            $( $(#[$meta])* pub const $name: Self = Self($num); )+

            const fn row(self) -> Option<(&'static str, u32, ByteOrder)> {
                match self.0 {
                    $( $num => Some(($text, $len, ByteOrder::$order)), )+
                    _ => None,
                }
            }
        }

        #[cfg(test)]
        const ALL: &[DataType] = &[$( DataType::$name, )+];
    };
}

// Numbers, lengths and byte orders as nft 1.0.6 sends them for `set { type … }`.
data_types! {
    /// Verdict.
    VERDICT = 1, "verdict", 4, HOST;
    /// Netfilter protocol family.
    NFPROTO = 2, "nf_proto", 1, INVALID;
    /// Bits of any length.
    BITMASK = 3, "bitmask", 0, HOST;
    /// Integer of any length.
    INTEGER = 4, "integer", 0, INVALID;
    /// String of any length.
    STRING = 5, "string", 0, HOST;
    /// Link layer address of any length.
    LLADDR = 6, "ll_addr", 0, NETWORK;
    /// IPv4 address.
    IPV4_ADDR = 7, "ipv4_addr", 4, NETWORK;
    /// IPv6 address.
    IPV6_ADDR = 8, "ipv6_addr", 16, NETWORK;
    /// Ethernet address.
    ETHER_ADDR = 9, "ether_addr", 6, NETWORK;
    /// Ethernet protocol.
    ETHER_TYPE = 10, "ether_type", 2, NETWORK;
    /// ARP operation.
    ARP_OP = 11, "arp_op", 2, NETWORK;
    /// Layer 4 protocol.
    INET_PROTO = 12, "inet_proto", 1, INVALID;
    /// Port.
    INET_SERVICE = 13, "inet_service", 2, NETWORK;
    /// ICMP type.
    ICMP_TYPE = 14, "icmp_type", 1, NETWORK;
    /// TCP flags.
    TCP_FLAG = 15, "tcp_flag", 1, NETWORK;
    /// DCCP packet type.
    DCCP_PKTTYPE = 16, "dccp_pkttype", 1, INVALID;
    /// Mobility header type.
    MH_TYPE = 17, "mh_type", 1, NETWORK;
    /// Relative time in milliseconds.
    TIME = 18, "time", 4, HOST;
    /// Packet or connection mark.
    MARK = 19, "mark", 4, HOST;
    /// Interface index.
    IFACE_INDEX = 20, "iface_index", 4, HOST;
    /// Interface type.
    IFACE_TYPE = 21, "iface_type", 2, HOST;
    /// Routing realm.
    REALM = 22, "realm", 4, HOST;
    /// Traffic control class.
    CLASSID = 23, "classid", 4, HOST;
    /// User.
    UID = 24, "uid", 4, HOST;
    /// Group.
    GID = 25, "gid", 4, HOST;
    /// Conntrack state.
    CT_STATE = 26, "ct_state", 4, HOST;
    /// Conntrack direction.
    CT_DIR = 27, "ct_dir", 1, INVALID;
    /// Conntrack status.
    CT_STATUS = 28, "ct_status", 4, HOST;
    /// ICMPv6 type.
    ICMPV6_TYPE = 29, "icmpv6_type", 1, NETWORK;
    /// Conntrack labels.
    CT_LABEL = 30, "ct_label", 16, HOST;
    /// Link layer packet type.
    PKT_TYPE = 31, "pkt_type", 1, HOST;
    /// ICMP code.
    ICMP_CODE = 32, "icmp_code", 1, NETWORK;
    /// ICMPv6 code.
    ICMPV6_CODE = 33, "icmpv6_code", 1, NETWORK;
    /// ICMP code of the inet family's `reject`.
    ICMPX_CODE = 34, "icmpx_code", 1, NETWORK;
    /// Device group.
    DEVGROUP = 35, "devgroup", 4, HOST;
    /// Differentiated services code point.
    DSCP = 36, "dscp", 1, NETWORK;
    /// Explicit congestion notification.
    ECN = 37, "ecn", 1, NETWORK;
    /// Address type in the routing table.
    FIB_ADDRTYPE = 38, "fib_addrtype", 4, HOST;
    /// Boolean.
    BOOLEAN = 39, "boolean", 1, INVALID;
    /// Conntrack event.
    CT_EVENT = 40, "ct_event", 4, HOST;
    /// Interface name.
    IFNAME = 41, "ifname", 16, HOST;
    /// IGMP type.
    IGMP_TYPE = 42, "igmp_type", 1, NETWORK;
    /// Absolute time.
    DATE = 43, "time", 8, HOST;
    /// Hour of day.
    HOUR = 44, "hour", 4, HOST;
    /// Day of week.
    DAY = 45, "day", 1, HOST;
    /// Control group of hierarchy 2.
    CGROUPSV2 = 46, "cgroupsv2", 8, HOST;
}

impl DataType {
    /// Data type of a verdict map (`NFT_DATA_VERDICT`), the only one the kernel knows.
    pub const VERDICT_MAP: Self = Self(0xffff_ff00);

    /// The concatenation of `parts`; `None` for more than five or none, or for parts that are
    /// concatenations themselves.
    #[must_use]
    pub fn concat(parts: &[Self]) -> Option<Self> {
        if parts.is_empty() || parts.len() > MAX_PARTS {
            return None;
        }
        parts.iter().try_fold(Self(0), |all, part| {
            (part.0 != 0 && part.0 <= MASK).then_some(Self(all.0 << BITS | part.0))
        })
    }

    /// The parts of a concatenation in order; one for a plain type.
    pub fn parts(self) -> impl Iterator<Item = Self> + Clone {
        let packed = if self == Self::VERDICT_MAP {
            Self::VERDICT.0
        } else {
            self.0
        };
        // A sixth part would not fit; what a stranger's number has there is part of the first.
        (0..u32::BITS / BITS + 1)
            .rev()
            .map(move |index| packed >> (index * BITS))
            .map(|rest| Self(rest & MASK))
            .skip_while(|part| part.0 == 0)
    }

    /// Whether it is a concatenation.
    #[must_use]
    pub fn is_concat(self) -> bool {
        self != Self::VERDICT_MAP && self.0 > MASK
    }

    /// nft's name of a plain type.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        if self == Self::VERDICT_MAP {
            return Self::VERDICT.name();
        }
        self.row().map(|(name, ..)| name)
    }

    /// Bytes of a plain type's value; `None` if unknown or not fixed.
    #[must_use]
    pub fn value_len(self) -> Option<u32> {
        self.row().map(|(_, len, _)| len).filter(|&len| len != 0)
    }

    /// Bytes of a key of this type, the parts of a concatenation padded to 4 each; `None` if a
    /// part's length is not fixed.
    #[must_use]
    pub fn key_len(self) -> Option<u32> {
        if !self.is_concat() {
            return self.value_len();
        }
        self.parts().try_fold(0, |sum, part| {
            let padded = align(usize::try_from(part.value_len()?).ok()?);
            u32::try_from(padded).ok().map(|padded| sum + padded)
        })
    }

    /// Byte order of a plain type; [`ByteOrder::INVALID`] for concatenations, as nft has it.
    #[must_use]
    pub fn byte_order(self) -> ByteOrder {
        self.row().map_or(ByteOrder::INVALID, |(_, _, order)| order)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts().enumerate() {
            if index > 0 {
                f.write_str(" . ")?;
            }
            match part.name() {
                Some(name) => f.write_str(name)?,
                None => write!(f, "{}", part.0)?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for DataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DataType({self})")
    }
}

value_as!(DataType as u32, |value: &Self| value.0, Self);

#[cfg(test)]
mod tests {
    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    const FRONTEND: &[DataType] = &[
        DataType::IPV4_ADDR,
        DataType::INET_PROTO,
        DataType::INET_SERVICE,
    ];

    #[test]
    fn concatenations_are_packed_as_nft_packs_them() {
        // As nft 1.0.6 sends them.
        let frontend = DataType::concat(FRONTEND).unwrap();
        assert_eq!(frontend, DataType(0x730d));
        assert_eq!(
            frontend.to_string(),
            "ipv4_addr . inet_proto . inet_service"
        );
        assert_eq!(frontend.key_len(), Some(12));
        assert_eq!(frontend.parts().collect::<Vec<_>>(), FRONTEND);
        let endpoint = DataType::concat(&[DataType::IPV4_ADDR, DataType::INET_SERVICE]);
        assert_eq!(endpoint, Some(DataType(0x1cd)));
    }

    #[test]
    fn five_parts_fit_and_no_more() {
        let five = DataType::concat(&[DataType::CGROUPSV2; 5]).unwrap();
        assert_eq!(five.parts().count(), 5);
        assert_eq!(five.key_len(), Some(40));
        assert_eq!(DataType::concat(&[DataType::MARK; 6]), None);
        assert_eq!(DataType::concat(&[]), None);
        assert_eq!(DataType::concat(&[five]), None);
    }

    #[test]
    fn plain_types() {
        assert_eq!(DataType::CLASSID.to_string(), "classid");
        assert_eq!(DataType::CLASSID.byte_order(), ByteOrder::HOST);
        assert_eq!(DataType::IPV6_ADDR.key_len(), Some(16));
        assert_eq!(DataType::INTEGER.key_len(), None);
        assert_eq!(DataType::VERDICT_MAP.to_string(), "verdict");
        assert_eq!(DataType(0).to_string(), "");
        assert_eq!(DataType(63).to_string(), "63");
        assert!(!DataType::VERDICT_MAP.is_concat());
    }

    #[test]
    fn numbers_are_consecutive() {
        let numbers: Vec<u32> = ALL.iter().map(|data_type| data_type.0).collect();
        assert_eq!(numbers, (1..=46).collect::<Vec<_>>());
    }
}
