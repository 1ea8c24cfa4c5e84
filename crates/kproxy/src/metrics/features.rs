//! `kubernetes_feature_enabled`: the feature gates that change something here.

use core::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::config::FeatureGates;

/// Each gate with its stage.
pub(super) fn encode(gates: &FeatureGates, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut metric = to.encode_descriptor(
        "kubernetes_feature_enabled",
        "1 for a feature gate that is on",
        None,
        MetricType::Gauge,
    )?;
    for (name, stage, on) in gates.states() {
        let labels = [("name", name), ("stage", stage)];
        ConstGauge::new(u32::from(on)).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
