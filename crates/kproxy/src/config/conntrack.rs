//! `conntrack`: settings of the kernel's connection tracking.

use serde::{Deserialize, Serialize};

use super::GoDuration;
use super::field::{Field, Kind};
use super::invalid::Errors;

pub(super) const FIELDS: &[Field] = &[
    Field::works("conntrack.maxPerCore", Kind::Integer, "32768"),
    Field::works("conntrack.min", Kind::Integer, "131072"),
    Field::works("conntrack.tcpBeLiberal", Kind::Bool, "false"),
    Field::works(
        "conntrack.tcpCloseWaitTimeout",
        Kind::OptionalDuration,
        "1h0m0s",
    ),
    Field::works(
        "conntrack.tcpEstablishedTimeout",
        Kind::OptionalDuration,
        "24h0m0s",
    ),
    Field::works("conntrack.udpStreamTimeout", Kind::Duration, "0s"),
    Field::works("conntrack.udpTimeout", Kind::Duration, "0s"),
];

/// See the module. A time of nothing leaves the kernel's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conntrack {
    /// Entries per CPU; nothing leaves the kernel's limit.
    pub max_per_core: Option<i32>,
    /// Entries at least.
    pub min: Option<i32>,
    /// Take TCP packets outside their window for part of their connection.
    pub tcp_be_liberal: bool,
    /// How long one in state `CLOSE_WAIT` is kept.
    pub tcp_close_wait_timeout: Option<GoDuration>,
    /// How long an established one is kept.
    pub tcp_established_timeout: Option<GoDuration>,
    /// How long a UDP flow is kept that was answered more than once.
    pub udp_stream_timeout: GoDuration,
    /// How long another one is kept.
    pub udp_timeout: GoDuration,
}

impl Conntrack {
    pub(super) fn set_defaults(&mut self) {
        self.max_per_core.get_or_insert(32 << 10);
        self.min.get_or_insert(128 << 10);
        let (hour, day) = (3_600, 86_400);
        self.tcp_close_wait_timeout
            .get_or_insert_with(|| GoDuration::from_secs(hour));
        self.tcp_established_timeout
            .get_or_insert_with(|| GoDuration::from_secs(day));
    }

    pub(super) fn validate(&self, errors: &mut Errors) {
        const UPSTREAM: &str = "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration";
        let counts = [
            ("MaxPerCore", "maxPerCore", self.max_per_core),
            ("Min", "min", self.min),
        ];
        for (upstream, field, count) in counts {
            if let Some(count) = count.filter(|count| *count < 0) {
                errors.invalid(
                    format!("{UPSTREAM}.{upstream}"),
                    format!("conntrack.{field}"),
                    count,
                    "must be greater than or equal to 0",
                );
            }
        }
        let times = [
            (
                "TCPEstablishedTimeout",
                "tcpEstablishedTimeout",
                self.tcp_established_timeout,
            ),
            (
                "TCPCloseWaitTimeout",
                "tcpCloseWaitTimeout",
                self.tcp_close_wait_timeout,
            ),
            ("UDPTimeout", "udpTimeout", Some(self.udp_timeout)),
            (
                "UDPStreamTimeout",
                "udpStreamTimeout",
                Some(self.udp_stream_timeout),
            ),
        ];
        for (upstream, field, time) in times {
            errors.not_negative(
                format!("{UPSTREAM}.{upstream}"),
                format!("conntrack.{field}"),
                time.unwrap_or_default(),
            );
        }
    }
}
