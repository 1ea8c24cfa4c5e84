//! `ipvs`: its periods are read when the mode is ipvs; there is nothing else for it to say.

use serde::{Deserialize, Serialize};

use super::field::{Field, Kind};
use super::invalid::Errors;
use super::mode::Mode;
use super::{GoDuration, address};

const NO_IPVS: &str = "there is no IPVS: nf_tables balances at random over all endpoints, and \
                       connections time out as conntrack says";

pub(super) const FIELDS: &[Field] = &[
    Field::works("ipvs.excludeCIDRs", Kind::Texts, ""),
    Field::works_in("ipvs.minSyncPeriod", Kind::Duration, "0s", &[Mode::Ipvs]),
    Field::accepted("ipvs.scheduler", Kind::Text, "", NO_IPVS),
    Field::accepted(
        "ipvs.strictARP",
        Kind::Bool,
        "false",
        "no address is put on an interface, so ARP needs no guarding",
    ),
    Field::works_in("ipvs.syncPeriod", Kind::Duration, "30s", &[Mode::Ipvs]),
    Field::accepted("ipvs.tcpFinTimeout", Kind::Duration, "0s", NO_IPVS),
    Field::accepted("ipvs.tcpTimeout", Kind::Duration, "0s", NO_IPVS),
    Field::accepted("ipvs.udpTimeout", Kind::Duration, "0s", NO_IPVS),
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ipvs {
    /// Ranges whose IPVS services are left alone.
    #[serde(rename = "excludeCIDRs")]
    pub exclude_cidrs: Option<Vec<String>>,
    /// Shortest time between two syncs.
    pub min_sync_period: GoDuration,
    /// How endpoints would be picked.
    pub scheduler: String,
    /// Answer ARP for own addresses only.
    #[serde(rename = "strictARP")]
    pub strict_arp: bool,
    /// Longest pause after a failed sync.
    pub sync_period: GoDuration,
    /// Of IPVS's TCP connections after a FIN.
    pub tcp_fin_timeout: GoDuration,
    /// Of IPVS's idle TCP connections.
    pub tcp_timeout: GoDuration,
    /// Of IPVS's UDP packets.
    pub udp_timeout: GoDuration,
}

impl Ipvs {
    pub(super) fn set_defaults(&mut self, mode: Mode) {
        if mode == Mode::Ipvs && self.sync_period.is_zero() {
            self.sync_period = GoDuration::from_secs(30);
        }
    }

    pub(super) fn validate(&self, errors: &mut Errors) {
        const UPSTREAM: &str = "KubeProxyIPVSConfiguration";
        let times = [
            ("TCPTimeout", "tcpTimeout", self.tcp_timeout),
            ("TCPFinTimeout", "tcpFinTimeout", self.tcp_fin_timeout),
            ("UDPTimeout", "udpTimeout", self.udp_timeout),
        ];
        for (upstream, field, time) in times {
            errors.not_negative(
                format!("{UPSTREAM}.{upstream}"),
                format!("ipvs.{field}"),
                time,
            );
        }
        let ranges = self.exclude_cidrs.iter().flatten().enumerate();
        for (index, range) in ranges {
            if address::cidr(range).is_none() {
                errors.invalid(
                    format!("{UPSTREAM}.ExcludeCidrs[{index}]"),
                    format!("ipvs.excludeCIDRs[{index}]"),
                    range.as_str(),
                    "must be a valid CIDR",
                );
            }
        }
    }
}
