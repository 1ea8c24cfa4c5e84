//! What of the objects could not be used, in numbers.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;

use crate::api::Kind;

/// Objects, or fields of them, that were left out, by kind.
#[derive(Debug, Default)]
pub struct Skipped {
    counts: [AtomicU64; KINDS.len()],
    /// What is no object: a file that cannot be read.
    others: AtomicU64,
}

const KINDS: [Kind; 4] = [
    Kind::Service,
    Kind::EndpointSlice,
    Kind::Node,
    Kind::ServiceCidr,
];

impl Skipped {
    /// Something of an object of this kind was left out; `None` for what is no object at all.
    pub fn count(&self, kind: Option<Kind>) {
        let counts = KINDS.iter().zip(&self.counts);
        let counter = kind.and_then(|kind| counts.clone().find(|(it, _)| **it == kind));
        let counter = counter.map_or(&self.others, |(_, counter)| counter);
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn encode(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = to.encode_descriptor(
            "kproxy_objects_skipped",
            "Objects, or fields of them, that could not be used; the log names them",
            None,
            MetricType::Counter,
        )?;
        let kinds = KINDS.iter().map(|kind| kind.name()).zip(&self.counts);
        for (kind, counter) in kinds.chain([("other", &self.others)]) {
            let count = ConstCounter::new(counter.load(Ordering::Relaxed));
            count.encode(metric.encode_family(&[("kind", kind)])?)?;
        }
        Ok(())
    }
}
