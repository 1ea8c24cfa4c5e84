//! ServiceCIDRs: connections to their addresses that belong to no Service are dropped.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::address::is_of;
use crate::plan::Family;

/// All ServiceCIDR objects.
#[derive(Debug, Default)]
pub(crate) struct ServiceCidrs {
    objects: BTreeMap<Box<str>, Vec<IpNet>>,
    prefixes: Vec<IpNet>,
}

impl ServiceCidrs {
    pub(crate) fn set(&mut self, family: Family, name: Box<str>, cidrs: &[IpNet]) {
        let own = cidrs.iter().filter(|cidr| is_of(family, cidr));
        self.objects.insert(name, own.map(IpNet::trunc).collect());
        self.merge();
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.objects.remove(name);
        self.merge();
    }

    /// The prefixes, sorted, without overlap: an interval set refuses overlapping ones.
    pub(crate) fn prefixes(&self) -> &[IpNet] {
        &self.prefixes
    }

    fn merge(&mut self) {
        let all: Vec<IpNet> = self.objects.values().flatten().copied().collect();
        self.prefixes = IpNet::aggregate(&all);
        self.prefixes.sort_unstable();
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
