//! Which sources a Service admits to its load-balancer addresses.

use ipnet::IpNet;

use super::address::is_of;
use crate::plan::Family;

/// The prefixes of a family, sorted, without overlap: the kernel refuses overlapping ones. `None`
/// admits everybody: no range is given, or one that admits all of either family. With ranges of the
/// other family alone nobody is admitted.
pub(crate) fn admitted(ranges: &[IpNet], family: Family) -> Option<Box<[IpNet]>> {
    if ranges.is_empty() || ranges.iter().any(|range| range.prefix_len() == 0) {
        return None;
    }
    let own = ranges.iter().filter(|range| is_of(family, range));
    Some(disjoint(own.copied().collect()))
}

/// Sorts and merges prefixes.
pub(crate) fn disjoint(ranges: Vec<IpNet>) -> Box<[IpNet]> {
    let mut merged = IpNet::aggregate(&ranges);
    merged.sort_unstable();
    merged.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn v4(texts: &[&str]) -> Option<Vec<IpNet>> {
        admitted(&parse(texts), Family::Ipv4).map(|list| list.into_vec())
    }

    #[test]
    fn ranges_are_merged_whatever_way_they_are_written() {
        let merged = Some(parse(&["10.0.0.0/8", "203.0.113.0/25"]));
        let written = ["10.1.0.0/16", "203.0.113.0/26", "10.0.0.0/8"];
        let more = ["10.1.2.3/8", "203.0.113.64/26", "2001:db8::/32"];
        assert_eq!(v4(&[written, more].concat()), merged);
    }

    #[test]
    fn a_prefix_of_everything_in_either_family_admits_everybody() {
        assert_eq!(v4(&[]), None);
        assert_eq!(v4(&["10.0.0.0/8", "0.0.0.0/0"]), None);
        assert_eq!(v4(&["10.0.0.0/8", "::/0"]), None);
    }

    #[test]
    fn ranges_of_the_other_family_admit_nobody() {
        assert_eq!(v4(&["2001:db8::/32"]), Some(Vec::new()));
    }

    proptest! {
        #[test]
        fn an_address_is_admitted_as_before_and_by_one_range_only(
            ranges in proptest::collection::vec((any::<u16>(), 1..=32_u8), 1..12),
            address in any::<u16>(),
        ) {
            let ip = |low: u16| core::net::Ipv4Addr::from(0x0a00_0000 | u32::from(low));
            let ranges: Vec<IpNet> = ranges
                .into_iter()
                .map(|(low, length)| IpNet::new(ip(low).into(), length).unwrap())
                .collect();
            let address = core::net::IpAddr::from(ip(address));
            let list = admitted(&ranges, Family::Ipv4).unwrap();
            let found = list.iter().filter(|range| range.contains(&address)).count();
            prop_assert_eq!(found == 1, ranges.iter().any(|range| range.contains(&address)));
            prop_assert!(found <= 1);
            prop_assert!(list.iter().all(|range| range.trunc() == *range));
        }
    }
}
