//! Traffic policies: from a Service port's endpoints to what happens to a new connection.

use super::endpoint_selection::Selection;
use crate::config::NoLocalEndpoint;
use crate::object::TrafficPolicy;

/// What is done to a connection besides balancing it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) enum Kind {
    /// ClusterIPs: foreign sources are masqueraded, if so configured.
    Internal,
    /// Reached from outside, policy Cluster: masqueraded.
    External,
    /// Reached from outside, policy Local: not masqueraded; pods and the node itself take the
    /// shortcut to the cluster's endpoints.
    ExternalLocal,
    /// End of the shortcut: balancing alone.
    Shortcut,
    /// Dropped.
    Drop,
}

/// What happens to connections to a kind of frontend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Refused: no endpoint anywhere, or none here and so configured.
    Reject,
    /// Dropped: endpoints elsewhere, none here.
    Drop,
    /// Balanced over the cluster's endpoints.
    Cluster(Kind),
    /// Balanced over this node's endpoints.
    Local(Kind),
}

/// For ClusterIPs. `Local`: endpoints of this node only; what is done if there are none is configured.
pub(crate) fn internal(
    policy: TrafficPolicy,
    endpoints: &Selection,
    none_here: NoLocalEndpoint,
) -> Fate {
    if endpoints.cluster.is_empty() {
        return Fate::Reject;
    }
    match policy {
        TrafficPolicy::Cluster => Fate::Cluster(Kind::Internal),
        TrafficPolicy::Local if endpoints.local.is_empty() => match none_here {
            NoLocalEndpoint::Drop => Fate::Drop,
            NoLocalEndpoint::Reject => Fate::Reject,
        },
        TrafficPolicy::Local => Fate::Local(Kind::Internal),
    }
}

/// For addresses reached from outside. `Local`: endpoints of this node only, silence if there are
/// none, except for pods and the node itself, which reach all endpoints.
pub(crate) fn external(policy: TrafficPolicy, endpoints: &Selection) -> Fate {
    if endpoints.cluster.is_empty() {
        return Fate::Reject;
    }
    match policy {
        TrafficPolicy::Cluster => Fate::Cluster(Kind::External),
        TrafficPolicy::Local => Fate::Local(Kind::ExternalLocal),
    }
}
