//! What the planner tells of connections that a change may leave behind: conntrack goes on
//! translating a flow as it once began, whatever the rules say by now.
//!
//! It is a report of state, not of events: for each frontend concerned the endpoints that serve it
//! now. A change that leaves these as they are (an endpoint that moves from one slice to another, a
//! new traffic policy) is not told.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::object::Protocol;

/// An address and port, or a node port, on which a Service port is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frontend {
    /// `None` for node ports: all of [`FlowChanges::node_ports`].
    pub address: Option<IpAddr>,
    /// Protocol.
    pub protocol: Protocol,
    /// Port.
    pub port: u16,
}

/// Who serves a frontend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Its endpoints, sorted. All that serve count, whatever policy, topology and their termination
    /// say about new connections.
    pub by: Arc<[SocketAddr]>,
    /// It is a ClusterIP: no host has that address.
    pub at_cluster_ip: bool,
}

/// What has come into force since the last time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FlowChanges {
    /// UDP (if so configured, SCTP) frontends that are new or served by other endpoints than
    /// before.
    pub serving: Vec<(Frontend, Served)>,
    /// Frontends of these protocols that are none any more, with the endpoints that their rows led
    /// to in the end.
    pub gone: Vec<(Frontend, Vec<SocketAddr>)>,
    /// TCP addresses and node ports that connections are led away from now, and were not before.
    pub appeared: Vec<Frontend>,
    /// Where node ports are served, if that is new: addresses of this host, sorted.
    pub node_ports: Option<Vec<IpAddr>>,
}

impl FlowChanges {
    /// Whether there is nothing to tell.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.serving.is_empty()
            && self.gone.is_empty()
            && self.appeared.is_empty()
            && self.node_ports.is_none()
    }
}
