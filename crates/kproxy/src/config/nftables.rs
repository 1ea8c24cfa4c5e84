//! `nftables`: read when the mode is nftables.

use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::field::{Field, Kind};
use super::invalid::Errors;
use super::iptables::{default_periods, masquerade_bit};
use super::mode::Mode;

const HERE: &[Mode] = &[Mode::Nftables];

pub(super) const FIELDS: &[Field] = &[
    Field::works_in("nftables.masqueradeAll", Kind::Bool, "false", HERE),
    Field::works_in("nftables.masqueradeBit", Kind::Integer, "14", HERE),
    Field::works_in("nftables.minSyncPeriod", Kind::Duration, "1s", HERE),
    Field::works_in("nftables.syncPeriod", Kind::Duration, "30s", HERE),
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Nftables {
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// Bit of the packet mark that asks for masquerading.
    pub masquerade_bit: Option<i32>,
    /// Shortest time between two syncs.
    pub min_sync_period: GoDuration,
    /// Longest pause after a failed sync.
    pub sync_period: GoDuration,
}

impl Nftables {
    pub(super) fn set_defaults(&mut self, mode: Mode) {
        self.masquerade_bit.get_or_insert(14);
        if mode == Mode::Nftables {
            default_periods(&mut self.sync_period, &mut self.min_sync_period);
        }
    }

    pub(super) fn validate(&self, errors: &mut Errors) {
        masquerade_bit(
            self.masquerade_bit,
            "KubeProxyNFTablesConfiguration.MasqueradeBit",
            "nftables.masqueradeBit",
            errors,
        );
    }
}
