//! What is to be told of listeners (see [`crate::listeners`]) once it is in force.

use hashbrown::HashSet;

use super::Model;
use super::frontend::FrontendKey;
use super::service::Spec;
use crate::listeners::ListenOn;
use crate::object::{ObjectName, Protocol};

/// Notes since the last time: reasons to look, not facts.
#[derive(Debug, Default)]
pub(crate) struct ListenerNotes {
    /// Services whose health check may have changed.
    pub(crate) services: HashSet<u32>,
    /// Services that lost theirs.
    pub(crate) gone: Vec<ObjectName>,
    /// Node ports at loopback addresses are served by processes.
    pub(crate) proxied: bool,
    /// TCP node ports that may have changed, if so.
    pub(crate) node_ports: HashSet<u16>,
    /// Where health checks are served, as was last told.
    pub(crate) addresses: Option<ListenOn>,
}

impl ListenerNotes {
    /// Notes a frontend that has another owner, or another Service behind it.
    pub(super) fn note_frontend(&mut self, protocol: Protocol, node_port: u16) {
        if self.proxied && protocol == Protocol::Tcp && node_port != 0 {
            self.node_ports.insert(node_port);
        }
    }
}

impl Model {
    /// Notes a node port with another owner.
    pub(crate) fn note_owner(&mut self, key: &FrontendKey) {
        if key.address.is_none() {
            self.listeners.note_frontend(key.protocol, key.port);
        }
    }

    /// Notes a Service with other endpoints.
    pub(super) fn note_health(&mut self, service: u32) {
        let spec = self.services.at(service).and_then(|it| it.spec.as_ref());
        if spec.is_some_and(|spec| spec.health_check_node_port != 0) {
            self.listeners.services.insert(service);
        }
    }

    /// Notes a Service that was so before.
    pub(super) fn note_health_change(
        &mut self,
        service: u32,
        name: &ObjectName,
        before: Option<&Spec>,
    ) {
        let has = |spec: &Spec| spec.health_check_node_port != 0;
        let spec = self.services.at(service).and_then(|it| it.spec.as_deref());
        if spec.is_some_and(has) {
            self.listeners.services.insert(service);
        } else if before.is_some_and(has) {
            self.listeners.services.remove(&service);
            self.listeners.gone.push(name.clone());
        }
    }

    /// Whether node ports at loopback addresses are served by processes; all are looked at anew if
    /// that changes.
    pub(crate) fn proxy_localhost(&mut self, proxied: bool) {
        if self.listeners.proxied == proxied {
            return;
        }
        // Those that were told are to be told again, to be closed.
        self.listeners.proxied = true;
        for id in 0..self.frontends.arena.end() {
            if let Some(frontend) = self.frontends.arena.at(id) {
                let key = frontend.key;
                self.note_owner(&key);
            }
        }
        self.listeners.proxied = proxied;
    }
}
