//! Telling what processes are to listen for.

use core::net::{IpAddr, SocketAddr};

use super::{Planner, Stage};
use crate::listeners::{HealthCheck, ListenOn, ListenerChanges, LocalhostPort};
use crate::model::Model;
use crate::model::address::Address;
use crate::model::frontend::FrontendKey;
use crate::object::{ObjectName, Protocol, TrafficPolicy};
use crate::plan::Family;
use crate::policy::node_addresses::NodePortMatch;

impl Planner {
    /// What has come into force since the last call; `None` while ours is not the table in force,
    /// or a transaction is in flight. To be asked when there is nothing to commit. Costs what
    /// changed, and allocates only if there is something to tell.
    pub fn take_listener_changes(&mut self) -> Option<ListenerChanges> {
        if self.stage != Stage::Serving || self.in_flight.is_some() {
            return None;
        }
        let mut changes = ListenerChanges {
            addresses: self.listen_on(),
            ..ListenerChanges::default()
        };
        self.tell_health(&mut changes);
        self.tell_localhost(&mut changes);
        Some(changes)
    }

    fn listen_on(&mut self) -> Option<ListenOn> {
        let family = self.model.family;
        let addresses = &self.config.node_port_addresses;
        let now = self.model.node.node_ports(family, addresses);
        let loopback = addresses.loopback(family);
        let same = match (&now, &self.model.listeners.addresses) {
            (NodePortMatch::All, Some(ListenOn::All)) => true,
            (NodePortMatch::Listed(now), Some(ListenOn::Listed(told))) => {
                ips(loopback, now, family).eq(told.iter().copied())
            }
            _ => false,
        };
        if same {
            return None;
        }
        let now = match &now {
            NodePortMatch::All => ListenOn::All,
            NodePortMatch::Listed(now) => ListenOn::Listed(ips(loopback, now, family).collect()),
        };
        self.model.listeners.addresses = Some(now.clone());
        Some(now)
    }

    fn tell_health(&mut self, changes: &mut ListenerChanges) {
        let notes = &mut self.model.listeners;
        if notes.services.is_empty() && notes.gone.is_empty() {
            return;
        }
        let gone = core::mem::take(&mut notes.gone);
        let mut services = core::mem::take(&mut notes.services);
        for id in services.drain() {
            let local_endpoints = self.selection.ready_here(&self.model, id);
            let told = health(&self.model, id, local_endpoints);
            changes.health.extend(told);
        }
        self.model.listeners.services = services;
        for name in gone {
            // Back again.
            if changes.health.iter().all(|(other, _)| *other != name) {
                changes.health.push((name, None));
            }
        }
        // Hashing must not decide who comes first.
        changes.health.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    }

    fn tell_localhost(&mut self, changes: &mut ListenerChanges) {
        if self.model.listeners.node_ports.is_empty() {
            return;
        }
        let mut node_ports = core::mem::take(&mut self.model.listeners.node_ports);
        for number in node_ports.drain() {
            let port = self.localhost_port(number);
            changes.localhost.push((number, port));
        }
        self.model.listeners.node_ports = node_ports;
        changes
            .localhost
            .sort_unstable_by_key(|(number, _)| *number);
    }

    fn localhost_port(&mut self, number: u16) -> Option<LocalhostPort> {
        let model = &self.model;
        if !model.listeners.proxied {
            return None;
        }
        let key = FrontendKey {
            address: None,
            protocol: Protocol::Tcp,
            port: number,
        };
        let owner = model.frontends.arena.at(model.frontends.find(&key)?)?.owner;
        let port = model.ports.at(owner.port)?;
        let spec = model.services.at(port.service)?.spec.as_ref()?;
        self.selection.select(model, port);
        let endpoints = match spec.external_policy {
            TrafficPolicy::Local => &self.selection.local,
            TrafficPolicy::Cluster => &self.selection.cluster,
        };
        if endpoints.is_empty() {
            return None;
        }
        let family = model.family;
        let socket = |target: &crate::model::address::Target| {
            SocketAddr::new(target.address.ip(family), target.port)
        };
        Some(LocalhostPort {
            port: model.port_name(owner.port)?,
            endpoints: endpoints.iter().map(socket).collect(),
            affinity: spec.affinity,
        })
    }
}

/// A loopback address and those of a list.
fn ips(
    loopback: Option<IpAddr>,
    listed: &[Address],
    family: Family,
) -> impl Iterator<Item = IpAddr> {
    let listed = listed.iter().map(move |address| address.ip(family));
    loopback.into_iter().chain(listed)
}

fn health(
    model: &Model,
    id: u32,
    local_endpoints: usize,
) -> Option<(ObjectName, Option<HealthCheck>)> {
    let service = model.services.at(id)?;
    let spec = service.spec.as_ref()?;
    let name = ObjectName {
        namespace: model.names.text(service.namespace).into(),
        name: service.name.clone(),
    };
    let check = HealthCheck {
        port: spec.health_check_node_port,
        local_endpoints,
        uid: spec.uid,
    };
    Some((name, Some(check)))
}
