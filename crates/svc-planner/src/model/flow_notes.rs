//! What is to be told of flows (see [`crate::flows`]) once it is in force.

use hashbrown::DefaultHashBuilder;

use super::Model;
use super::address::{Address, Target};
use super::frontend::FrontendKey;
use crate::object::Protocol;

/// Notes since the last time. A note is a reason to look, not a fact: a transaction that was taken
/// back leaves some that are not true.
#[derive(Debug, Default)]
pub(crate) struct FlowNotes {
    /// Ports that were planned.
    pub(crate) ports: Vec<u32>,
    /// Frontends whose rows are deleted, and the endpoints these led to.
    pub(crate) gone: Vec<(FrontendKey, Vec<Target>)>,
    /// Frontends with a row to endpoints that had none.
    pub(crate) appeared: Vec<FrontendKey>,
    /// Where node ports were served, as was last told.
    pub(crate) node_ports: Vec<Address>,
    /// Buffer for the endpoints of one port.
    pub(crate) serving: Vec<Target>,
    /// Buffer for addresses.
    pub(crate) addresses: Vec<Address>,
    /// For [`Port::told`](super::service::Port).
    pub(crate) hasher: DefaultHashBuilder,
}

impl FlowNotes {
    /// Notes a frontend that new connections are led away from now.
    pub(crate) fn note_new(&mut self, key: FrontendKey) {
        // Of others it is told what serves them, which says more.
        if key.protocol == Protocol::Tcp {
            self.appeared.push(key);
        }
    }
}

/// Is it told which endpoints serve frontends of this protocol?
pub(crate) fn is_told(protocol: Protocol, sctp: bool) -> bool {
    protocol == Protocol::Udp || (sctp && protocol == Protocol::Sctp)
}

impl Model {
    /// Notes a port whose rows are in the kernel.
    pub(crate) fn note_port(&mut self, id: u32, sctp: bool) {
        if let Some(port) = self.ports.at_mut(id)
            && !port.noted
            && is_told(port.protocol, sctp)
        {
            port.noted = true;
            self.flows.ports.push(id);
        }
    }
}
