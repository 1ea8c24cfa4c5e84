//! What is in force, but is hardly meant.

use smallvec::SmallVec;

use crate::config::{Config, LocalDetector};
use crate::model::node::NodeView;
use crate::plan::Family;
use crate::policy::masquerade::Masquerade;
use crate::report::{Missing, Notice};

impl NodeView {
    /// What is worth a warning, once the Node is known.
    pub(crate) fn notices(&self, family: Family, config: &Config) -> SmallVec<[Notice; 2]> {
        let mut notices = SmallVec::new();
        if !self.known {
            return notices;
        }
        let node_ports = &config.node_port_addresses;
        if self.names_none(family, node_ports) {
            notices.push(if node_ports.primary {
                Notice::NoPrimaryAddress
            } else {
                Notice::NodePortsEverywhere
            });
        }
        // A family that the node does not use lacks nothing.
        let used = !self.addresses.is_empty();
        let detects = Masquerade::new(family, config, self).local_match(false);
        if used && detects.is_none() {
            notices.push(Notice::NoLocalDetector(match config.local {
                LocalDetector::None | LocalDetector::Cidr(_) => Missing::ClusterCidr,
                LocalDetector::NodeCidr => Missing::PodCidr,
                LocalDetector::Iifname(_) | LocalDetector::IifnamePrefix(_) => Missing::Interface,
            }));
        }
        notices
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::config::NodePortAddresses;
    use crate::object;

    /// Of a node with an IPv4 address alone.
    fn notices(family: Family, config: Config) -> Vec<Notice> {
        let mut view = NodeView::default();
        assert_eq!(view.notices(family, &config).as_slice(), []);
        view.set(
            family,
            object::Node {
                name: "here".into(),
                addresses: smallvec!["192.168.0.2".parse().unwrap()],
                pod_cidrs: smallvec!["10.1.0.0/24".parse().unwrap()],
                zone: None,
                eligible: true,
            },
        );
        view.notices(family, &config).into_vec()
    }

    #[test]
    fn missing_data_is_worth_a_warning() {
        let with = |local| Config {
            local,
            ..Config::default()
        };
        let missing = |missing| vec![Notice::NoLocalDetector(missing)];
        let cidr = |text: &str| LocalDetector::Cidr(text.parse().unwrap());
        let four = |local| notices(Family::Ipv4, with(local));
        assert_eq!(four(LocalDetector::None), missing(Missing::ClusterCidr));
        assert_eq!(four(cidr("fd00::/8")), missing(Missing::ClusterCidr));
        assert_eq!(four(cidr("10.0.0.0/8")), []);
        assert_eq!(four(LocalDetector::NodeCidr), []);
        assert_eq!(
            four(LocalDetector::Iifname("".into())),
            missing(Missing::Interface)
        );
        // The other family has no address, so no detector is missed.
        let six = notices(Family::Ipv6, with(LocalDetector::NodeCidr));
        assert_eq!(six, [Notice::NoPrimaryAddress]);
    }

    #[test]
    fn node_ports_of_a_family_nobody_named() {
        let prefixes = vec!["192.168.0.0/16".parse().unwrap()];
        let config = Config {
            local: LocalDetector::NodeCidr,
            node_port_addresses: NodePortAddresses::prefixes(prefixes),
            ..Config::default()
        };
        assert_eq!(notices(Family::Ipv4, config.clone()), []);
        assert_eq!(notices(Family::Ipv6, config), [Notice::NodePortsEverywhere]);
    }
}
