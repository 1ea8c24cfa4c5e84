//! One metric for each IP family, labelled `ip_family` as kube-proxy does.

use core::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder};
use prometheus_client::metrics::{MetricType, TypedMetric};
use smallvec::SmallVec;
use svc_planner::plan::Family;

use crate::health::family_label;

/// Metrics of the families that are programmed, all made before anything is counted: counting
/// allocates nothing. Clones share their values.
#[derive(Debug, Clone)]
pub(crate) struct PerFamily<M>(SmallVec<[(Family, M); 2]>);

impl<M> PerFamily<M> {
    pub(crate) fn new(families: &[Family], make: impl Fn() -> M) -> Self {
        Self(families.iter().map(|family| (*family, make())).collect())
    }

    /// The metric of a family, if that is programmed.
    pub(crate) fn of(&self, family: Family) -> Option<&M> {
        self.iter()
            .find_map(|(it, metric)| (it == family).then_some(metric))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Family, &M)> {
        self.0.iter().map(|(family, metric)| (*family, metric))
    }
}

impl<M: EncodeMetric + TypedMetric> EncodeMetric for PerFamily<M> {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        for (family, metric) in self.iter() {
            let labels = [("ip_family", family_label(family))];
            metric.encode(encoder.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn metric_type(&self) -> MetricType {
        M::TYPE
    }
}
