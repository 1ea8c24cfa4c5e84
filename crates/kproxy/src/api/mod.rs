//! The Kubernetes API's own shapes, slim: only the fields a proxy reads, borrowed from the text
//! they were parsed from. Everything else is skipped without an allocation.
//!
//! Nothing is checked here beyond JSON types; [`crate::ingest`] turns these into the planner's
//! objects. `null` means the same as an absent field, as in the API.

mod endpoint_slice;
mod meta;
mod node;
mod service;
mod service_cidr;
mod text;

pub use endpoint_slice::{Conditions, Endpoint, EndpointPort, EndpointSlice, Hints, TopologyHint};
pub use meta::{Annotations, Labels, Metadata};
pub use node::{Node, NodeAddress, NodeSpec, NodeStatus, Taint};
pub use service::{
    ClientIpConfig, Ingress, LoadBalancerStatus, Service, ServicePort, ServiceSpec, ServiceStatus,
    SessionAffinityConfig,
};
pub use service_cidr::{ServiceCidr, ServiceCidrSpec};
pub use text::Text;

use serde::{Deserialize, Deserializer};

/// The kinds this proxy reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Kind {
    /// `v1` Service.
    Service,
    /// `discovery.k8s.io/v1` EndpointSlice.
    EndpointSlice,
    /// `v1` Node.
    Node,
    /// `networking.k8s.io/v1` ServiceCIDR.
    ServiceCidr,
}

impl Kind {
    /// The kind a document declares, `None` if it is none of ours.
    #[must_use]
    pub fn of(api_version: &str, kind: &str) -> Option<Self> {
        match (api_version, kind) {
            ("v1", "Service") => Some(Self::Service),
            ("discovery.k8s.io/v1", "EndpointSlice") => Some(Self::EndpointSlice),
            ("v1", "Node") => Some(Self::Node),
            ("networking.k8s.io/v1" | "networking.k8s.io/v1beta1", "ServiceCIDR") => {
                Some(Self::ServiceCidr)
            }
            _ => None,
        }
    }

    /// The kind of the items of a typed list, whose items say neither kind nor version.
    #[must_use]
    pub fn of_list(api_version: &str, kind: &str) -> Option<Self> {
        Self::of(api_version, kind.strip_suffix("List")?)
    }

    /// The name in the API.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::EndpointSlice => "EndpointSlice",
            Self::Node => "Node",
            Self::ServiceCidr => "ServiceCIDR",
        }
    }
}

impl core::fmt::Display for Kind {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

/// Reads `null` as the default.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}
