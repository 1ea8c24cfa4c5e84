//! The own Node: its zone, addresses and pods.

use core::net::IpAddr;

use ipnet::IpNet;
use smallvec::SmallVec;

use super::address::{Address, is_of};
use crate::object;
use crate::plan::Family;

/// What is known of the own Node. A Node that goes leaves its last known facts.
#[derive(Debug, Default)]
pub(crate) struct NodeView {
    pub(crate) known: bool,
    zone: Option<Box<str>>,
    pub(crate) addresses: SmallVec<[Address; 2]>,
    pod_cidr: Option<IpNet>,
    host: Option<Vec<Address>>,
}

impl NodeView {
    /// Takes the Node in; true if its zone changed.
    pub(crate) fn set(&mut self, family: Family, node: object::Node) -> bool {
        let zone_changed = self.zone != node.zone;
        self.known = true;
        self.zone = node.zone;
        self.addresses = node
            .addresses
            .iter()
            .filter(|ip| !ip.is_loopback())
            .filter_map(|ip| Address::new(family, *ip))
            .collect();
        let own = |cidr: &&IpNet| is_of(family, cidr);
        self.pod_cidr = node.pod_cidrs.iter().find(own).copied();
        zone_changed
    }

    /// Addresses of the host's interfaces.
    pub(crate) fn set_host(&mut self, family: Family, addresses: &[IpAddr]) {
        let usable = addresses.iter().filter(|ip| !ip.is_loopback());
        self.host = Some(usable.filter_map(|ip| Address::new(family, *ip)).collect());
    }

    /// Addresses of the host's interfaces but loopback, as far as they are known.
    pub(crate) fn host(&self) -> &[Address] {
        self.host.as_deref().unwrap_or_default()
    }

    /// Is it known that no interface has an address?
    pub(crate) fn lacks(&self, address: &Address) -> bool {
        let host = self.host.as_deref();
        host.is_some_and(|host| !host.contains(address))
    }

    pub(crate) fn zone(&self) -> Option<&str> {
        self.zone.as_deref()
    }

    /// First pod CIDR of the family.
    pub(crate) const fn pod_cidr(&self) -> Option<IpNet> {
        self.pod_cidr
    }
}
