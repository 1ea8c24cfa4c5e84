//! The addresses of the own Node on which node ports are served.

use smallvec::SmallVec;

use crate::config::NodePortAddresses;
use crate::model::address::{Address, is_of};
use crate::model::node::NodeView;
use crate::plan::Family;

/// Where node ports are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodePortMatch {
    /// All local addresses but loopback.
    All,
    /// These, sorted.
    Listed(SmallVec<[Address; 4]>),
}

impl NodeView {
    /// Where node ports are served: everywhere if the configuration names no address of this family.
    pub(crate) fn node_ports(&self, family: Family, config: &NodePortAddresses) -> NodePortMatch {
        let own = config.prefixes.iter().filter(|net| is_of(family, net));
        let zero = own.clone().any(|prefix| prefix.prefix_len() == 0);
        if config.all || zero || self.names_none(family, config) {
            return NodePortMatch::All;
        }
        let primary = self.addresses.first().filter(|_| config.primary);
        // What is sent to an address of no interface (a floating IP) is not for this node.
        let primary = primary.filter(|address| !self.lacks(address));
        let inside = |address: &&Address| {
            own.clone()
                .any(|prefix| prefix.contains(&address.ip(family)))
        };
        let inside = self.host().iter().filter(inside);
        let mut listed: SmallVec<[Address; 4]> =
            primary.into_iter().chain(inside).copied().collect();
        listed.sort_unstable();
        listed.dedup();
        NodePortMatch::Listed(listed)
    }

    /// Does the configuration name no address of this family? `primary` names none if the Node has
    /// none; until it is known it may have one.
    pub(crate) fn names_none(&self, family: Family, config: &NodePortAddresses) -> bool {
        let primary = config.primary && !(self.known && self.addresses.is_empty());
        let prefixes = config.prefixes.iter().any(|prefix| is_of(family, prefix));
        !(config.all || config.localhost || primary || prefixes)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::object;

    fn view(addresses: &[&str]) -> NodeView {
        let mut view = NodeView::default();
        view.set(Family::Ipv4, node(addresses));
        view
    }

    fn node(addresses: &[&str]) -> object::Node {
        object::Node {
            name: "here".into(),
            addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
            pod_cidrs: smallvec!["fd00::/64".parse().unwrap(), "10.1.0.0/24".parse().unwrap()],
            zone: None,
            eligible: true,
        }
    }

    fn listed(addresses: &[&str]) -> NodePortMatch {
        let addresses = addresses.iter().map(|ip| ip.parse().unwrap());
        NodePortMatch::Listed(
            addresses
                .filter_map(|ip| Address::new(Family::Ipv4, ip))
                .collect(),
        )
    }

    #[test]
    fn the_first_address_is_the_primary_one() {
        let primary = |view: &NodeView| view.node_ports(Family::Ipv4, &NodePortAddresses::PRIMARY);
        let node = view(&["fd00::1", "127.0.0.1", "192.168.0.2", "192.168.0.3"]);
        assert_eq!(primary(&node), listed(&["192.168.0.2"]));
        let mut node = node;
        node.set_host(Family::Ipv4, &["192.168.0.3".parse().unwrap()]);
        assert_eq!(primary(&node), listed(&[]));
        node.set_host(Family::Ipv4, &["192.168.0.2".parse().unwrap()]);
        assert_eq!(primary(&node), listed(&["192.168.0.2"]));
        assert_eq!(primary(&view(&["fd00::1"])), NodePortMatch::All);
        assert_eq!(primary(&NodeView::default()), listed(&[]));
        assert_eq!(node.pod_cidr(), Some("10.1.0.0/24".parse().unwrap()));
    }

    #[test]
    fn prefixes_select_among_the_hosts_addresses() {
        let mut view = view(&[]);
        view.set_host(
            Family::Ipv4,
            &["127.0.0.1", "10.0.0.1", "10.9.0.1", "fd00::1"].map(|ip| ip.parse().unwrap()),
        );
        let ports = |prefixes: &[&str]| {
            let prefixes = prefixes
                .iter()
                .map(|prefix| prefix.parse().unwrap())
                .collect();
            view.node_ports(Family::Ipv4, &NodePortAddresses::prefixes(prefixes))
        };
        assert_eq!(
            ports(&["10.0.0.0/16", "127.0.0.0/8"]),
            listed(&["10.0.0.1"])
        );
        assert_eq!(ports(&["192.0.2.0/24"]), listed(&[]));
        assert_eq!(ports(&["fd00::/8"]), NodePortMatch::All);
        assert_eq!(ports(&["10.0.0.0/16", "0.0.0.0/0"]), NodePortMatch::All);
    }

    #[test]
    fn keywords_add_up() {
        let mut view = view(&["192.168.0.2"]);
        view.set_host(
            Family::Ipv4,
            &["127.0.0.1", "192.168.0.2", "10.0.0.1"].map(|ip| ip.parse().unwrap()),
        );
        let ports = |config: NodePortAddresses| view.node_ports(Family::Ipv4, &config);
        let mixed = NodePortAddresses {
            primary: true,
            ..NodePortAddresses::prefixes(vec!["10.0.0.0/8".parse().unwrap()])
        };
        assert_eq!(ports(mixed.clone()), listed(&["10.0.0.1", "192.168.0.2"]));
        let all = NodePortAddresses { all: true, ..mixed };
        assert_eq!(ports(all), NodePortMatch::All);
        let localhost = NodePortAddresses {
            localhost: true,
            ..NodePortAddresses::NONE
        };
        assert_eq!(ports(localhost.clone()), listed(&[]));
        let both = NodePortAddresses {
            primary: true,
            ..localhost
        };
        assert_eq!(ports(both.clone()), listed(&["192.168.0.2"]));
        let primary = NodePortAddresses::PRIMARY;
        let mut other = NodeView::default();
        other.set(Family::Ipv6, node(&["192.168.0.2"]));
        assert_eq!(other.node_ports(Family::Ipv6, &primary), NodePortMatch::All);
        // The Node has no address of that family, but localhost names one.
        assert_eq!(other.node_ports(Family::Ipv6, &both), listed(&[]));
        assert_eq!(ports(NodePortAddresses::NONE), NodePortMatch::All);
    }
}
