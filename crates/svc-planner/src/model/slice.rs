//! EndpointSlices as they are kept.

use smallvec::SmallVec;

use super::address::Address;
use super::arena::NONE;
use super::interner::Interner;
use crate::object;
use crate::plan::Family;

/// Facts about an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flags(u8);

impl Flags {
    pub(crate) const READY: Self = Self(1);
    pub(crate) const SERVING: Self = Self(2);
    pub(crate) const TERMINATING: Self = Self(4);
    /// On the own node.
    pub(crate) const LOCAL: Self = Self(8);
    /// Has a hint for some node.
    pub(crate) const NODE_HINT: Self = Self(16);
    /// Has a hint for the own node.
    pub(crate) const OWN_NODE_HINT: Self = Self(32);

    pub(crate) const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    const fn with(self, other: Self, on: bool) -> Self {
        if on { Self(self.0 | other.0) } else { self }
    }
}

/// One endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) address: Address,
    /// Zone hints, see [`matches_zone`]; [`NONE`] without.
    pub(crate) zones: u32,
    pub(crate) weight: u16,
    pub(crate) flags: Flags,
}

/// One port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SlicePort {
    pub(crate) name: u32,
    pub(crate) protocol: object::Protocol,
    pub(crate) port: u16,
}

/// One EndpointSlice.
#[derive(Debug)]
pub(crate) struct Slice {
    pub(crate) namespace: u32,
    pub(crate) name: Box<str>,
    /// Service the slice belongs to.
    pub(crate) service: u32,
    pub(crate) ports: SmallVec<[SlicePort; 1]>,
    pub(crate) endpoints: Box<[Endpoint]>,
}

impl Slice {
    /// Reduces a slice; names in it are acquired.
    pub(crate) fn new(
        slice: object::EndpointSlice,
        service: u32,
        family: Family,
        own_node: &str,
        names: &mut Interner,
    ) -> Self {
        let endpoints = slice.endpoints.iter().filter_map(|endpoint| {
            let address = Address::new(family, endpoint.address)?;
            let is_own = |name: &str| !own_node.is_empty() && name == own_node;
            let flags = Flags(0)
                .with(Flags::READY, endpoint.ready)
                .with(Flags::SERVING, endpoint.serving)
                .with(Flags::TERMINATING, endpoint.terminating)
                .with(Flags::LOCAL, endpoint.node.as_deref().is_some_and(is_own))
                .with(Flags::NODE_HINT, !endpoint.node_hints.is_empty())
                .with(
                    Flags::OWN_NODE_HINT,
                    endpoint.node_hints.iter().any(|name| is_own(name)),
                );
            Some(Endpoint {
                address,
                zones: acquire_zones(&endpoint.zone_hints, names),
                weight: endpoint.weight,
                flags,
            })
        });
        let endpoints = endpoints.collect();
        let ports = slice.ports.iter().map(|port| SlicePort {
            name: names.acquire(&port.name),
            protocol: port.protocol,
            port: port.port,
        });
        let ports = ports.collect();
        Self {
            namespace: names.acquire(&slice.name.namespace),
            name: slice.name.name,
            service,
            ports,
            endpoints,
        }
    }

    /// Gives the names back.
    pub(crate) fn release(&self, names: &mut Interner) {
        names.release(self.namespace);
        for port in &self.ports {
            names.release(port.name);
        }
        for endpoint in self.endpoints.iter().filter(|e| e.zones != NONE) {
            names.release(endpoint.zones);
        }
    }
}

/// Separates zones in an interned list; not allowed in label values.
const ZONE_SEPARATOR: char = '\n';

fn acquire_zones(zones: &[Box<str>], names: &mut Interner) -> u32 {
    match zones {
        [] => NONE,
        [zone] => names.acquire(zone),
        [first, rest @ ..] => {
            let mut list = String::from(&**first);
            for zone in rest {
                list.push(ZONE_SEPARATOR);
                list.push_str(zone);
            }
            names.acquire(&list)
        }
    }
}

/// Is a zone in an interned list of zones?
pub(crate) fn matches_zone(list: &str, zone: &str) -> bool {
    list.split(ZONE_SEPARATOR).any(|hint| hint == zone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zone_lists_match_whole_names() {
        let mut names = Interner::default();
        let list = acquire_zones(&["a".into(), "bc".into()], &mut names);
        let list = names.text(list);
        assert!(matches_zone(list, "a") && matches_zone(list, "bc"));
        assert!(!matches_zone(list, "b") && !matches_zone("ab", "a"));
        // A Node whose label is empty is in none of them.
        assert!(!matches_zone(list, "") && !matches_zone("a", ""));
    }

    #[test]
    fn an_endpoint_takes_24_bytes() {
        assert_eq!(size_of::<Endpoint>(), 24);
    }
}
