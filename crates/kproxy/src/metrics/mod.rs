//! Numbers about the proxy: the pages of `--metrics-bind-address`.
//!
//! What kube-proxy has a name for has that name (`kubeproxy_…`); what only this program counts is
//! named `kproxy_…`. `/metrics` is in Prometheus' text form 0.0.4, or in OpenMetrics for who prefers that.
//! docs/METRICS.md lists all names.

mod buckets;
mod build_info;
mod collect;
mod features;
mod page;
mod per_family;
mod process;
mod rejected;
mod skipped;
mod sync;
mod tables;

pub use collect::Sources;
pub use page::{ConfigPage, Site as MetricsSite};
pub(crate) use per_family::PerFamily;
pub use skipped::Skipped;
pub use sync::{SyncMetrics, SyncOutcome};
pub use tables::{Table, Tables};
