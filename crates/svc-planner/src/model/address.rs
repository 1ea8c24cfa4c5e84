//! Addresses and endpoints as the arenas hold them: no discriminant, no padding.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

use crate::object::Protocol;
use crate::plan::Family;

/// An address of the planner's family; IPv4 occupies the first four bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address([u8; 16]);

impl Address {
    /// `None` if the address is of the other family.
    pub(crate) fn new(family: Family, address: IpAddr) -> Option<Self> {
        match (family, address) {
            (Family::Ipv4, IpAddr::V4(address)) => {
                let mut bytes = [0; 16];
                bytes[..4].copy_from_slice(&address.octets());
                Some(Self(bytes))
            }
            (Family::Ipv6, IpAddr::V6(address)) => Some(Self(address.octets())),
            _ => None,
        }
    }

    pub(crate) fn ip(self, family: Family) -> IpAddr {
        let [a, b, c, d, ..] = self.0;
        match family {
            Family::Ipv4 => IpAddr::V4(Ipv4Addr::new(a, b, c, d)),
            Family::Ipv6 => IpAddr::V6(Ipv6Addr::from(self.0)),
        }
    }
}

/// Is it a prefix of the family?
pub(crate) const fn is_of(family: Family, prefix: &IpNet) -> bool {
    matches!(
        (family, prefix),
        (Family::Ipv4, IpNet::V4(_)) | (Family::Ipv6, IpNet::V6(_))
    )
}

/// Where a connection can be sent: address and port of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(crate) address: Address,
    pub(crate) port: u16,
}

/// An endpoint's target with its protocol: what a hairpin row stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct LocalTarget {
    pub(crate) target: Target,
    pub(crate) protocol: Protocol,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_value_and_refuse_the_other_family() {
        for (family, other, text) in [
            (Family::Ipv4, Family::Ipv6, "10.1.2.3"),
            (Family::Ipv6, Family::Ipv4, "fd00::1:2"),
        ] {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(Address::new(family, ip).unwrap().ip(family), ip);
            assert_eq!(Address::new(other, ip), None);
        }
    }

    #[test]
    fn targets_have_no_padding() {
        assert_eq!(size_of::<Target>(), 18);
    }
}
