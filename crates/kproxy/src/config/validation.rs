//! Whether a configuration can be meant, in kube-proxy's words
//! (pkg/proxy/apis/config/validation of 1.37).
//!
//! kube-proxy 1.37 names fields as its internal type has them; beside these, each error has the name
//! that the field has in the file.

use super::invalid::{Errors, Invalid};
use super::mode::Mode;
use super::{GoDuration, KubeProxyConfiguration, address, detect_local};

impl KubeProxyConfiguration {
    /// Checks the values of a configuration that has its defaults.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn validate(&self) -> Result<(), Invalid> {
        let mut errors = Errors::default();
        self.iptables.validate(&mut errors);
        match Mode::of(&self.mode) {
            Some(Mode::Ipvs) => self.ipvs.validate(&mut errors),
            Some(Mode::Nftables) => self.nftables.validate(&mut errors),
            _ => {}
        }
        self.conntrack.validate(&mut errors);
        self.check_oom_score_adj(&mut errors);
        if Mode::of(&self.mode).is_none() {
            errors.invalid(
                "Mode.ProxyMode",
                "mode",
                self.mode.as_str(),
                "must be iptables, ipvs, nftables or blank (blank means the best-available proxy [currently iptables])",
            );
        }
        self.client_connection.validate(&mut errors);
        self.check_periods(&mut errors);
        self.check_addresses(&mut errors);
        self.check_node_ports(&mut errors);
        self.check_hidden_metrics(&mut errors);
        detect_local::validate(
            &self.detect_local_mode,
            &self.cluster_cidr,
            &self.detect_local,
            &mut errors,
        );
        errors.done()
    }

    fn check_oom_score_adj(&self, errors: &mut Errors) {
        let score = self.oom_score_adj.unwrap_or_default();
        if !(-1000..=1000).contains(&score) {
            errors.invalid(
                "KubeProxyLinuxConfiguration.OOMScoreAdj",
                "oomScoreAdj",
                score,
                "must be within the range [-1000, 1000]",
            );
        }
    }

    fn check_periods(&self, errors: &mut Errors) {
        const POSITIVE: &str = "must be greater than 0";
        if self.config_sync_period <= GoDuration::ZERO {
            let period = self.config_sync_period.to_string();
            errors.invalid("ConfigSyncPeriod", "configSyncPeriod", period, POSITIVE);
        }
        let section = self.effective_mode().name();
        let (sync, min_sync) = self.periods_of_mode();
        if sync <= GoDuration::ZERO {
            let field = format!("{section}.syncPeriod");
            errors.invalid("SyncPeriod", field, sync.to_string(), POSITIVE);
        }
        errors.not_negative(
            "MinSyncPeriod",
            format!("{section}.minSyncPeriod"),
            min_sync,
        );
        if min_sync > sync {
            errors.invalid(
                "SyncPeriod",
                format!("{section}.syncPeriod"),
                min_sync.to_string(),
                "must be greater than or equal to KubeProxyConfiguration.MinSyncPeriod",
            );
        }
    }

    fn check_addresses(&self, errors: &mut Errors) {
        if address::ip(&self.bind_address).is_none() {
            errors.invalid(
                "BindAddress",
                "bindAddress",
                self.bind_address.as_str(),
                "not a valid textual representation of an IP address",
            );
        }
        // Nothing is nowhere.
        if !self.healthz_bind_address.is_empty() {
            let address = &self.healthz_bind_address;
            listener(address, "HealthzBindAddress", "healthzBindAddress", errors);
        }
        if !self.metrics_bind_address.is_empty() {
            let address = &self.metrics_bind_address;
            listener(address, "MetricsBindAddress", "metricsBindAddress", errors);
        }
    }

    fn check_node_ports(&self, errors: &mut Errors) {
        let words = self.node_port_addresses.iter().flatten().enumerate();
        for (index, word) in words {
            let keyword = matches!(word.as_str(), "primary" | "localhost" | "all");
            let mut before = self.node_port_addresses.iter().flatten().take(index);
            if keyword && before.any(|it| it == word) {
                errors.duplicate(
                    format!("NodePortAddresses[{index}]"),
                    format!("nodePortAddresses[{index}]"),
                    word.as_str(),
                );
            }
            if !keyword && address::cidr(word).is_none() {
                errors.invalid(
                    format!("NodePortAddresses[{index}]"),
                    format!("nodePortAddresses[{index}]"),
                    word.as_str(),
                    "must be a valid CIDR or one of the keywords 'primary', 'localhost', 'all'",
                );
            }
        }
    }

    fn check_hidden_metrics(&self, errors: &mut Errors) {
        let version = &self.show_hidden_metrics_for_version;
        let number = |text: &str| text.parse::<u16>().is_ok();
        let good = version
            .split_once('.')
            .is_some_and(|(major, minor)| number(major) && number(minor));
        if !version.is_empty() && !good {
            errors.invalid(
                "ShowHiddenMetricsForVersion",
                "showHiddenMetricsForVersion",
                version.as_str(),
                "must be a version such as 1.36",
            );
        }
    }
}

fn listener(text: &str, upstream: &str, field: &str, errors: &mut Errors) {
    let Some((host, port)) = address::split_host_port(text) else {
        errors.invalid(upstream, field, text, "must be IP:port");
        return;
    };
    if address::ip(host).is_none() {
        errors.invalid(upstream, field, host, "must be a valid IP");
    }
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        errors.invalid(upstream, field, port, "must be a valid port");
    }
}
