//! What processes of the node are to listen for, rather than the kernel: load balancers that ask for
//! its health, and clients of TCP node ports at loopback addresses.

use core::net::{IpAddr, SocketAddr};

use crate::object::{ObjectName, Uid};
use crate::report::PortName;

/// What the load balancers of a Service ask the node (`spec.healthCheckNodePort`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// Port to listen on.
    pub port: u16,
    /// Addresses of ready endpoints on this node, each counted once. Those that terminate do not
    /// count, even if they serve.
    pub local_endpoints: usize,
    /// `metadata.uid` of the Service.
    pub uid: Option<Uid>,
}

/// A TCP node port that is served at loopback addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalhostPort {
    /// Whose it is.
    pub port: PortName,
    /// Where its connections may go; never empty. Of this node only, if the external traffic policy
    /// is Local.
    pub endpoints: Vec<SocketAddr>,
    /// ClientIP affinity timeout in seconds.
    pub affinity: Option<u32>,
}

/// Where node ports, and so health checks, are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenOn {
    /// All addresses of the family.
    All,
    /// These: a loopback address, if one is named, then the others, sorted.
    Listed(Vec<IpAddr>),
}

/// What has come into force since the last time. `None` stands for what is no more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenerChanges {
    /// Where to listen for health checks, if that is new.
    pub addresses: Option<ListenOn>,
    /// Health checks that changed, by Service.
    pub health: Vec<(ObjectName, Option<HealthCheck>)>,
    /// TCP node ports that changed, by number; none unless
    /// [`LocalhostNodePorts::Proxied`](crate::config::LocalhostNodePorts).
    pub localhost: Vec<(u16, Option<LocalhostPort>)>,
}

impl ListenerChanges {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.addresses.is_none() && self.health.is_empty() && self.localhost.is_empty()
    }
}
