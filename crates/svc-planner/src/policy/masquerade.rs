//! Whose source address is replaced: traffic that leaves the cluster's own paths.

use core::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::config::{Config, LocalDetector};
use crate::model::address::is_of;
use crate::model::node::NodeView;
use crate::plan::{Family, Statement};

/// Statements about masquerading, for one configuration.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Masquerade {
    bits: u32,
    all: bool,
    local: Option<LocalMatch>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum LocalMatch {
    Source(IpNet),
    Interface {
        name: crate::plan::Name,
        prefix: bool,
    },
}

impl Masquerade {
    pub(crate) fn new(family: Family, config: &Config, node: &NodeView) -> Self {
        let interface = |name: &crate::plan::Name, prefix| {
            let name = name.clone();
            (!name.is_empty()).then_some(LocalMatch::Interface { name, prefix })
        };
        let source = |cidr: IpNet| is_of(family, &cidr).then_some(LocalMatch::Source(cidr));
        let local = match &config.local {
            LocalDetector::None => None,
            LocalDetector::Cidr(cidr) => source(*cidr),
            LocalDetector::NodeCidr => node.pod_cidr().and_then(source),
            LocalDetector::Iifname(name) => interface(name, false),
            LocalDetector::IifnamePrefix(name) => interface(name, true),
        };
        Self {
            bits: 1_u32
                .checked_shl(config.masquerade_bit.into())
                .unwrap_or_default(),
            all: config.masquerade_all,
            local,
        }
    }

    /// The bit of the packet mark.
    pub(crate) const fn bits(&self) -> u32 {
        self.bits
    }

    pub(crate) const fn mark(&self) -> Statement {
        Statement::MarkOr { bits: self.bits }
    }

    /// Is it known for the address of a pod?
    pub(crate) fn is_local(&self, address: IpAddr) -> bool {
        matches!(&self.local, Some(LocalMatch::Source(prefix)) if prefix.contains(&address))
    }

    /// What marks connections to ClusterIPs: everything, what comes from elsewhere, or nothing.
    pub(crate) fn mark_internal(&self) -> Option<Vec<Statement>> {
        if self.all {
            return Some(vec![self.mark()]);
        }
        Some(vec![self.local_match(true)?, self.mark()])
    }

    /// The match on pods of this node or cluster, or on all others (`invert`).
    pub(crate) fn local_match(&self, invert: bool) -> Option<Statement> {
        Some(match self.local.clone()? {
            LocalMatch::Source(prefix) => Statement::Saddr { prefix, invert },
            LocalMatch::Interface { name, prefix } => Statement::Iifname {
                name,
                prefix,
                invert,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masquerade(local: LocalDetector, all: bool) -> Masquerade {
        let config = Config {
            local,
            masquerade_all: all,
            ..Config::default()
        };
        Masquerade::new(Family::Ipv4, &config, &NodeView::default())
    }

    #[test]
    fn cluster_traffic_is_marked_as_configured() {
        let mark = Statement::MarkOr { bits: 0x4000 };
        let cidr: IpNet = "10.0.0.0/8".parse().unwrap();
        assert_eq!(masquerade(LocalDetector::None, false).mark_internal(), None);
        assert_eq!(
            masquerade(LocalDetector::Cidr(cidr), true).mark_internal(),
            Some(vec![mark.clone()])
        );
        let foreign = Statement::Saddr {
            prefix: cidr,
            invert: true,
        };
        assert_eq!(
            masquerade(LocalDetector::Cidr(cidr), false).mark_internal(),
            Some(vec![foreign, mark])
        );
    }

    #[test]
    fn a_detector_without_data_is_none() {
        let other = LocalDetector::Cidr("fd00::/8".parse().unwrap());
        for detector in [
            other,
            LocalDetector::NodeCidr,
            LocalDetector::Iifname("".into()),
        ] {
            assert_eq!(masquerade(detector, false).local_match(false), None);
        }
    }
}
