//! `detectLocalMode`, `detectLocal` and `clusterCIDR`: what local traffic is told by.

use serde::{Deserialize, Serialize};

use super::address;
use super::field::{Field, Kind};
use super::invalid::Errors;

pub(super) const FIELDS: &[Field] = &[
    Field::works("clusterCIDR", Kind::Text, ""),
    Field::works("detectLocal.bridgeInterface", Kind::Text, ""),
    Field::works("detectLocal.interfaceNamePrefix", Kind::Text, ""),
    Field::works("detectLocalMode", Kind::Text, "ClusterCIDR"),
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DetectLocal {
    /// The bridge that the node's pods are on, for mode `BridgeInterface`.
    pub bridge_interface: String,
    /// How the names of their interfaces begin, for mode `InterfaceNamePrefix`.
    pub interface_name_prefix: String,
}

/// A value of `detectLocalMode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalMode {
    /// Sources in `clusterCIDR`.
    ClusterCidr,
    /// Sources in the Node's podCIDRs.
    NodeCidr,
    /// What comes from a bridge.
    BridgeInterface,
    /// What comes from interfaces with such names.
    InterfaceNamePrefix,
}

impl LocalMode {
    const ALL: [(&str, Self); 4] = [
        ("ClusterCIDR", Self::ClusterCidr),
        ("NodeCIDR", Self::NodeCidr),
        ("BridgeInterface", Self::BridgeInterface),
        ("InterfaceNamePrefix", Self::InterfaceNamePrefix),
    ];

    /// What a text stands for; nothing for `ClusterCIDR`.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self::ClusterCidr);
        }
        let mut all = Self::ALL.iter();
        all.find(|(name, _)| *name == text).map(|(_, mode)| *mode)
    }
}

/// Longest name of an interface (linux/if.h: `IFNAMSIZ` - 1).
const INTERFACE_NAME_MAX: usize = 15;

/// Checks `mode` and what it needs.
pub(super) fn validate(mode: &str, cidrs: &str, names: &DetectLocal, errors: &mut Errors) {
    const UPSTREAM: &str = "DetectLocalConfiguration";
    match LocalMode::of(mode) {
        Some(LocalMode::ClusterCidr) => cluster_cidr(cidrs, errors),
        Some(LocalMode::BridgeInterface) => interface(
            &names.bridge_interface,
            (
                format!("{UPSTREAM}.InterfaceName"),
                "detectLocal.bridgeInterface",
            ),
            errors,
        ),
        Some(LocalMode::InterfaceNamePrefix) => interface(
            &names.interface_name_prefix,
            (
                format!("{UPSTREAM}.InterfacePrefix"),
                "detectLocal.interfaceNamePrefix",
            ),
            errors,
        ),
        Some(LocalMode::NodeCidr) => {}
        None => {
            let supported = LocalMode::ALL.iter().map(|(name, _)| *name);
            errors.unsupported(
                "DetectLocalMode",
                "detectLocalMode",
                mode,
                supported.chain([""]),
            );
        }
    }
}

fn interface(name: &str, (upstream, field): (String, &str), errors: &mut Errors) {
    if name.is_empty() {
        errors.invalid(upstream, field, name, "must not be empty");
    } else if name.len() > INTERFACE_NAME_MAX {
        // kube-proxy takes it, and nft refuses every rule with it.
        errors.invalid(upstream, field, name, "must not be longer than 15 bytes");
    }
}

fn cluster_cidr(text: &str, errors: &mut Errors) {
    const UPSTREAM: &str = "DetectLocalConfiguration.ClusterCIDRs";
    const FIELD: &str = "clusterCIDR";
    if text.is_empty() {
        return;
    }
    let cidrs: Vec<_> = text.split(',').collect();
    if cidrs.len() > 2 {
        errors.invalid(
            UPSTREAM,
            FIELD,
            cidrs,
            "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]",
        );
        return;
    }
    let mut good = Vec::new();
    for (index, cidr) in cidrs.iter().enumerate() {
        match address::cidr(cidr) {
            Some(cidr) => good.push(cidr),
            None => errors.invalid(
                format!("{UPSTREAM}[{index}]"),
                FIELD,
                *cidr,
                "must be a valid CIDR block (e.g. 10.100.0.0/16 or fde4:8dba:82e1::/48)",
            ),
        }
    }
    if let [first, second] = &*good
        && first.addr().is_ipv4() == second.addr().is_ipv4()
    {
        errors.invalid(
            UPSTREAM,
            FIELD,
            cidrs,
            "must be a either a single CIDR or dual-stack pair of CIDRs (e.g. [10.100.0.0/16, fde4:8dba:82e1::/48]",
        );
    }
}
