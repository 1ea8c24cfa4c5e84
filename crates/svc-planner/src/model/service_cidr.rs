//! ServiceCIDRs: connections to their addresses that belong to no Service are dropped.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::address::is_of;
use crate::plan::Family;

/// All ServiceCIDR objects.
#[derive(Debug, Default)]
pub(crate) struct ServiceCidrs {
    objects: BTreeMap<Box<str>, Vec<IpNet>>,
}

impl ServiceCidrs {
    pub(crate) fn set(&mut self, family: Family, name: Box<str>, cidrs: &[IpNet]) {
        let own = cidrs.iter().filter(|cidr| is_of(family, cidr));
        self.objects.insert(name, own.map(IpNet::trunc).collect());
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.objects.remove(name);
    }

    /// The prefixes, sorted, without overlap: an interval set refuses overlapping ones.
    pub(crate) fn prefixes(&self) -> Vec<IpNet> {
        let all: Vec<IpNet> = self.objects.values().flatten().copied().collect();
        let mut prefixes = IpNet::aggregate(&all);
        prefixes.sort_unstable();
        prefixes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_prefixes_are_merged_and_the_other_family_ignored() {
        let cidrs = |texts: &[&str]| -> Vec<IpNet> {
            texts.iter().map(|cidr| cidr.parse().unwrap()).collect()
        };
        let mut all = ServiceCidrs::default();
        all.set(
            Family::Ipv4,
            "a".into(),
            &cidrs(&["10.96.0.0/16", "fd00::/112"]),
        );
        all.set(
            Family::Ipv4,
            "b".into(),
            &cidrs(&["10.96.3.7/24", "10.97.0.0/16"]),
        );
        assert_eq!(all.prefixes(), cidrs(&["10.96.0.0/15"]));
        all.remove("a");
        assert_eq!(all.prefixes(), cidrs(&["10.96.3.0/24", "10.97.0.0/16"]));
    }
}
