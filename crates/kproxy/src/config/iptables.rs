//! `iptables`: read when the mode is iptables, and in part when it is ipvs.

use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::field::{Field, Kind};
use super::invalid::Errors;
use super::mode::Mode;

pub(super) const FIELDS: &[Field] = &[
    Field::accepted(
        "iptables.localhostNodePorts",
        Kind::Bool,
        "true",
        "node ports are not served at loopback addresses; feature gate \
         KubeProxyNFTablesLocalhostNodePorts serves those of TCP if nodePortAddresses names them",
    ),
    Field::works_in(
        "iptables.masqueradeAll",
        Kind::Bool,
        "false",
        &[Mode::Iptables, Mode::Ipvs],
    ),
    Field::works_in(
        "iptables.masqueradeBit",
        Kind::Integer,
        "14",
        &[Mode::Iptables, Mode::Ipvs],
    ),
    Field::works_in(
        "iptables.minSyncPeriod",
        Kind::Duration,
        "1s",
        &[Mode::Iptables],
    ),
    Field::works_in(
        "iptables.syncPeriod",
        Kind::Duration,
        "30s",
        &[Mode::Iptables],
    ),
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Iptables {
    /// Node ports at loopback addresses.
    pub localhost_node_ports: Option<bool>,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// Bit of the packet mark that asks for masquerading.
    pub masquerade_bit: Option<i32>,
    /// Shortest time between two syncs.
    pub min_sync_period: GoDuration,
    /// Longest pause after a failed sync.
    pub sync_period: GoDuration,
}

impl Iptables {
    pub(super) fn set_defaults(&mut self, mode: Mode) {
        self.localhost_node_ports.get_or_insert(true);
        self.masquerade_bit.get_or_insert(14);
        if mode == Mode::Iptables {
            default_periods(&mut self.sync_period, &mut self.min_sync_period);
        }
    }

    pub(super) fn validate(&self, errors: &mut Errors) {
        masquerade_bit(
            self.masquerade_bit,
            "KubeProxyIPTablesConfiguration.MasqueradeBit",
            "iptables.masqueradeBit",
            errors,
        );
    }
}

/// The periods of modes iptables and nftables.
pub(super) fn default_periods(sync: &mut GoDuration, min_sync: &mut GoDuration) {
    if sync.is_zero() {
        *sync = GoDuration::from_secs(30);
    }
    if min_sync.is_zero() {
        *min_sync = GoDuration::from_secs(1);
    }
}

/// A packet mark has 32 bits.
pub(super) fn masquerade_bit(bit: Option<i32>, upstream: &str, field: &str, errors: &mut Errors) {
    if let Some(bit) = bit.filter(|bit| !(0..32).contains(bit)) {
        errors.invalid(upstream, field, bit, "must be within the range [0, 31]");
    }
}
