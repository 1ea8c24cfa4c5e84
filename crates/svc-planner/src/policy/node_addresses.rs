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
    /// Where node ports are served. Nowhere before the Node is known; everywhere if the
    /// configuration names no address of this family.
    pub(crate) fn node_ports(&self, family: Family, config: &NodePortAddresses) -> NodePortMatch {
        let mut listed: SmallVec<[Address; 4]> = match config {
            NodePortAddresses::All => return NodePortMatch::All,
            NodePortAddresses::Primary => match self.addresses.first() {
                None if self.known => return NodePortMatch::All,
                primary => primary.copied().into_iter().collect(),
            },
            NodePortAddresses::Prefixes(prefixes) => {
                let mut own = prefixes
                    .iter()
                    .filter(|prefix| is_of(family, prefix))
                    .peekable();
                if own.peek().is_none() || own.clone().any(|prefix| prefix.prefix_len() == 0) {
                    return NodePortMatch::All;
                }
                let inside = |address: &&Address| {
                    own.clone()
                        .any(|prefix| prefix.contains(&address.ip(family)))
                };
                self.host.iter().filter(inside).copied().collect()
            }
        };
        listed.sort_unstable();
        listed.dedup();
        NodePortMatch::Listed(listed)
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::object;

    fn view(addresses: &[&str]) -> NodeView {
        let mut view = NodeView::default();
        view.set(
            Family::Ipv4,
            object::Node {
                name: "here".into(),
                addresses: addresses.iter().map(|ip| ip.parse().unwrap()).collect(),
                pod_cidrs: smallvec!["fd00::/64".parse().unwrap(), "10.1.0.0/24".parse().unwrap()],
                zone: None,
            },
        );
        view
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
        let primary = |view: &NodeView| view.node_ports(Family::Ipv4, &NodePortAddresses::Primary);
        let node = view(&["fd00::1", "127.0.0.1", "192.168.0.2", "192.168.0.3"]);
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
            view.node_ports(Family::Ipv4, &NodePortAddresses::Prefixes(prefixes))
        };
        assert_eq!(
            ports(&["10.0.0.0/16", "127.0.0.0/8"]),
            listed(&["10.0.0.1"])
        );
        assert_eq!(ports(&["192.0.2.0/24"]), listed(&[]));
        assert_eq!(ports(&["fd00::/8"]), NodePortMatch::All);
        assert_eq!(ports(&["10.0.0.0/16", "0.0.0.0/0"]), NodePortMatch::All);
    }
}
