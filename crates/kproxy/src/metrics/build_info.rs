//! Which build this is.

use core::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeMetric, LabelSetEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

/// Always 1; the labels are those of Kubernetes' components. What this program has no such thing for is
/// empty: its own release is not Kubernetes'.
#[derive(Debug)]
struct BuildInfo;

impl EncodeMetric for BuildInfo {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        ConstGauge::new(1_u32).encode(encoder.encode_family(self)?)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }
}

impl EncodeLabelSet for BuildInfo {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let platform = format!("linux/{}", go_architecture());
        let version = concat!("v", env!("CARGO_PKG_VERSION"), "+kproxy");
        [
            ("build_date", ""),
            ("compiler", "rustc"),
            ("git_commit", ""),
            ("git_tree_state", ""),
            ("git_version", version),
            ("go_version", ""),
            ("major", env!("CARGO_PKG_VERSION_MAJOR")),
            ("minor", env!("CARGO_PKG_VERSION_MINOR")),
            ("platform", &platform),
        ]
        .encode(encoder)
    }
}

/// Go's name of what this was built for.
fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.register(
        "kubernetes_build_info",
        "1; the labels tell which build this is",
        BuildInfo,
    );
}
