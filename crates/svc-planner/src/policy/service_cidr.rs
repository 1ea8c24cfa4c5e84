//! ServiceCIDRs: connections to their addresses that belong to no Service are dropped.

use std::collections::BTreeMap;

use ipnet::IpNet;

use super::node_addresses::is_of;
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
