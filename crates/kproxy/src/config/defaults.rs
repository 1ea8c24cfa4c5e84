//! What stands for nothing (pkg/proxy/apis/config/v1alpha1/defaults.go and
//! cmd/kube-proxy/app/server_linux.go of 1.37).

use core::net::IpAddr;

use super::address::{ip, with_port};
use super::mode::Mode;
use super::{GoDuration, KubeProxyConfiguration};

/// Port of the health pages.
pub(super) const HEALTHZ_PORT: u16 = 10256;
/// Port of the metrics pages.
pub(super) const METRICS_PORT: u16 = 10249;

impl KubeProxyConfiguration {
    /// What a file that says nothing means.
    #[must_use]
    pub fn defaults() -> Self {
        let mut config = Self::default();
        config.set_defaults();
        config.settle();
        config
    }

    /// Fills in what a file left out.
    pub fn set_defaults(&mut self) {
        if self.bind_address.is_empty() {
            "0.0.0.0".clone_into(&mut self.bind_address);
        }
        let v6 = matches!(ip(&self.bind_address), Some(IpAddr::V6(_)));
        let (any, loopback) = if v6 {
            ("::", "::1")
        } else {
            ("0.0.0.0", "127.0.0.1")
        };
        listener(&mut self.healthz_bind_address, any, HEALTHZ_PORT);
        listener(&mut self.metrics_bind_address, loopback, METRICS_PORT);
        self.oom_score_adj.get_or_insert(-999);
        // kube-proxy tells by the word, so that one it does not know counts as iptables here.
        let mode = self.effective_mode();
        self.iptables.set_defaults(mode);
        self.ipvs.set_defaults(mode);
        self.nftables.set_defaults(mode);
        self.conntrack.set_defaults();
        if self.config_sync_period.is_zero() {
            self.config_sync_period = GoDuration::from_secs(15 * 60);
        }
        self.client_connection.set_defaults();
        self.logging.set_defaults();
    }

    /// Says what the words that were left out mean, and drops what the mode does not read.
    pub fn settle(&mut self) {
        if self.mode.is_empty() {
            Mode::Iptables.name().clone_into(&mut self.mode);
        }
        let mode = self.effective_mode();
        if mode == Mode::Nftables && self.node_port_addresses.as_ref().is_none_or(Vec::is_empty) {
            self.node_port_addresses = Some(vec!["primary".to_owned()]);
        }
        self.port_range.clear();
        if self.detect_local_mode.is_empty() {
            "ClusterCIDR".clone_into(&mut self.detect_local_mode);
        }
        if mode != Mode::Iptables {
            self.iptables.sync_period = GoDuration::ZERO;
            self.iptables.min_sync_period = GoDuration::ZERO;
        }
        if mode != Mode::Ipvs {
            self.ipvs.sync_period = GoDuration::ZERO;
            self.ipvs.min_sync_period = GoDuration::ZERO;
        }
        if mode == Mode::Nftables {
            self.iptables.masquerade_all = false;
        } else {
            self.nftables.sync_period = GoDuration::ZERO;
            self.nftables.min_sync_period = GoDuration::ZERO;
            self.nftables.masquerade_all = false;
        }
    }
}

fn listener(text: &mut String, default: &str, port: u16) {
    let address = if text.is_empty() {
        default
    } else {
        text.as_str()
    };
    *text = with_port(address, port);
}
