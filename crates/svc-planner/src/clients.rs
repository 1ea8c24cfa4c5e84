//! Clients that stick to endpoints in a table that is taken over: they go on to these in ours.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use crate::object::Protocol;
use crate::report::PortName;

/// A client that sticks to an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StuckClient {
    /// Its address.
    pub client: IpAddr,
    /// Which of its connections go there.
    pub scope: ClientScope,
    /// The endpoint.
    pub endpoint: SocketAddr,
    /// How long it still sticks to it.
    pub left: Duration,
}

/// Which connections of a client go on to the same endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientScope {
    /// Those to an address and port, a node's or a Service's.
    Frontend {
        /// Address.
        address: IpAddr,
        /// Protocol.
        protocol: Protocol,
        /// Port.
        port: u16,
    },
    /// All to a Service port, by whatever address: so kube-proxy has it.
    Port(PortName),
}
