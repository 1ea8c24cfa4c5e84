//! What Kubernetes wants of a proxy, one concept a file.

mod candidate;
pub(crate) mod endpoint_selection;
pub(crate) mod frontends;
pub(crate) mod hairpin;
pub(crate) mod masquerade;
pub(crate) mod node_addresses;
pub(crate) mod notices;
pub(crate) mod serving;
pub(crate) mod source_ranges;
pub(crate) mod topology;
pub(crate) mod traffic_policy;
