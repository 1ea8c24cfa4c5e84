//! kube-proxy's configuration, `kubeproxy.config.k8s.io/v1alpha1` of 1.37: one section a file.
//!
//! ```text
//! file ──decode──> KubeProxyConfiguration ──defaults, validate──> settings ──> crate::node
//! flags ─────────────────────^                                        └──> crate::logging
//! ```
//! What becomes of each field is said once, in [`fields`]: the decoder knows the names from there, the
//! warnings about what is accepted only, and docs/CONFIGURATION.md.

mod address;
mod client_connection;
mod configz;
mod conntrack;
mod decode;
mod defaults;
mod detect_local;
mod duration;
mod encode;
mod feature_gates;
mod field;
mod flags;
mod invalid;
mod iptables;
mod ipvs;
mod logging;
mod mode;
mod nftables;
mod quantity;
mod settings;
mod validation;
mod warnings;
mod winkernel;

pub use client_connection::ClientConnection;
pub use configz::Configz;
pub use conntrack::Conntrack;
pub use decode::{DecodeError, Decoded, Strictness, decode};
pub use detect_local::{DetectLocal, LocalMode};
pub use duration::{DurationError, GoDuration};
pub(crate) use feature_gates::boolean;
pub use feature_gates::{FeatureGate, FeatureGates};
pub use field::{Field, Kind, Standing};
pub use flags::{Complete, ConfigError, FLAGS, Flag, FlagError, FlagKind, Given, Target};
pub use invalid::{FieldError, Invalid};
pub use iptables::Iptables;
pub use ipvs::Ipvs;
pub use logging::{FormatOptions, Logging, LoggingError, StreamOptions, VmoduleItem};
pub use mode::Mode;
pub use nftables::Nftables;
pub use quantity::{Quantity, QuantityError};
pub use settings::localhost_node_ports;
pub use winkernel::Winkernel;

use serde::{Deserialize, Serialize};

/// `apiVersion` of the file.
pub const API_VERSION: &str = "kubeproxy.config.k8s.io/v1alpha1";
/// `kind` of the file.
pub const KIND: &str = "KubeProxyConfiguration";

/// What the file says; see the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeProxyConfiguration {
    /// The node's own address, instead of what the Node says; nothing listens there.
    pub bind_address: String,
    /// A listener that cannot listen ends the process.
    pub bind_address_hard_fail: bool,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// Ranges of the cluster's pods, one or one of each family, separated by a comma.
    #[serde(rename = "clusterCIDR")]
    pub cluster_cidr: String,
    /// In this time everything in the kernel is compared once with what it is to be.
    pub config_sync_period: GoDuration,
    /// Settings of connection tracking.
    pub conntrack: Conntrack,
    /// For some of the modes below.
    pub detect_local: DetectLocal,
    /// What local traffic is told by.
    pub detect_local_mode: String,
    /// Profiles over HTTP.
    pub enable_profiling: bool,
    /// Switches.
    #[serde(skip_serializing_if = "FeatureGates::is_empty")]
    pub feature_gates: FeatureGates,
    /// Where health is told.
    pub healthz_bind_address: String,
    /// Name of the own Node, instead of the host's name.
    pub hostname_override: String,
    /// For mode iptables.
    pub iptables: Iptables,
    /// For mode ipvs.
    pub ipvs: Ipvs,
    /// Logs.
    pub logging: Logging,
    /// Where metrics are told.
    pub metrics_bind_address: String,
    /// Which backend.
    pub mode: String,
    /// For mode nftables.
    pub nftables: Nftables,
    /// Where node ports are served.
    pub node_port_addresses: Option<Vec<String>>,
    /// How likely the kernel ends the process when memory runs out.
    pub oom_score_adj: Option<i32>,
    /// Was for a mode that is no more.
    pub port_range: String,
    /// Metrics that were hidden since.
    pub show_hidden_metrics_for_version: String,
    /// For Windows.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub windows_run_as_service: bool,
    /// For Windows.
    pub winkernel: Winkernel,
}

/// Fields outside the sections.
const FIELDS: &[Field] = &[
    Field::works("bindAddress", Kind::Text, "0.0.0.0"),
    Field::works("bindAddressHardFail", Kind::Bool, "false"),
    Field::works("configSyncPeriod", Kind::Duration, "15m0s"),
    Field::accepted(
        "enableProfiling",
        Kind::Bool,
        "false",
        "there are no profiles; perf(1) takes them",
    ),
    Field::works("featureGates", Kind::Switches, ""),
    Field::works("healthzBindAddress", Kind::Text, "0.0.0.0:10256"),
    Field::works("hostnameOverride", Kind::Text, ""),
    Field::works("metricsBindAddress", Kind::Text, "127.0.0.1:10249"),
    Field::works("mode", Kind::Text, "iptables"),
    Field::works("nodePortAddresses", Kind::Texts, ""),
    Field::works("oomScoreAdj", Kind::Integer, "-999"),
    Field::accepted(
        "portRange",
        Kind::Text,
        "",
        "kube-proxy does not read it either",
    ),
    Field::accepted(
        "showHiddenMetricsForVersion",
        Kind::Text,
        "",
        "no metric is hidden",
    ),
];

/// All fields that hold a value, ordered by path.
#[must_use]
pub fn fields() -> Vec<&'static Field> {
    let sections = [
        FIELDS,
        client_connection::FIELDS,
        conntrack::FIELDS,
        detect_local::FIELDS,
        iptables::FIELDS,
        ipvs::FIELDS,
        logging::FIELDS,
        nftables::FIELDS,
        winkernel::FIELDS,
    ];
    let mut fields: Vec<_> = sections.into_iter().flatten().collect();
    fields.sort_unstable_by_key(|field| field.path);
    fields
}

impl KubeProxyConfiguration {
    /// The mode in effect; of one that is refused, iptables.
    #[must_use]
    pub fn effective_mode(&self) -> Mode {
        Mode::of(&self.mode).unwrap_or(Mode::Iptables)
    }

    /// `syncPeriod` and `minSyncPeriod` of the mode.
    #[must_use]
    pub fn periods_of_mode(&self) -> (GoDuration, GoDuration) {
        match self.effective_mode() {
            Mode::Iptables => (self.iptables.sync_period, self.iptables.min_sync_period),
            Mode::Ipvs => (self.ipvs.sync_period, self.ipvs.min_sync_period),
            Mode::Nftables => (self.nftables.sync_period, self.nftables.min_sync_period),
        }
    }

    /// `masqueradeAll` of the mode.
    #[must_use]
    pub const fn masquerade_all(&self, mode: Mode) -> bool {
        match mode {
            Mode::Iptables | Mode::Ipvs => self.iptables.masquerade_all,
            Mode::Nftables => self.nftables.masquerade_all,
        }
    }

    /// `masqueradeBit` of the mode.
    #[must_use]
    pub const fn masquerade_bit(&self, mode: Mode) -> Option<i32> {
        match mode {
            Mode::Iptables | Mode::Ipvs => self.iptables.masquerade_bit,
            Mode::Nftables => self.nftables.masquerade_bit,
        }
    }
}
