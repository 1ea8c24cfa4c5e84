//! Telling what may leave stale connections behind.

use core::hash::{BuildHasher as _, Hash as _, Hasher as _};
use core::net::SocketAddr;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use super::{Planner, Stage};
use crate::flows::{FlowChanges, Frontend, Served};
use crate::model::Model;
use crate::model::address::Target;
use crate::model::frontend::FrontendKey;
use crate::model::service::{Port, Role};
use crate::policy::node_addresses::NodePortMatch;
use crate::policy::serving;

impl Planner {
    /// What has come into force since the last call; `None` while ours is not the table in force,
    /// or a transaction is in flight. To be asked when there is nothing to commit. Costs what
    /// changed, and allocates only if there is something to tell.
    pub fn take_flow_changes(&mut self) -> Option<FlowChanges> {
        if self.stage != Stage::Serving || self.in_flight.is_some() {
            return None;
        }
        let mut changes = FlowChanges::default();
        self.tell_node_ports(&mut changes);
        self.tell_gone(&mut changes);
        self.tell_appeared(&mut changes);
        self.tell_serving(&mut changes);
        Some(changes)
    }

    fn tell_node_ports(&mut self, changes: &mut FlowChanges) {
        let family = self.model.family;
        let addresses = &self.config.node_port_addresses;
        let matched = self.model.node.node_ports(family, addresses);
        let flows = &mut self.model.flows;
        flows.addresses.clear();
        match &matched {
            NodePortMatch::Listed(listed) => flows.addresses.extend_from_slice(listed),
            NodePortMatch::All => {
                flows.addresses.extend_from_slice(self.model.node.host());
                flows.addresses.sort_unstable();
            }
        }
        if flows.addresses != flows.node_ports {
            core::mem::swap(&mut flows.addresses, &mut flows.node_ports);
            let now = flows.node_ports.iter();
            changes.node_ports = Some(now.map(|address| address.ip(family)).collect());
        }
    }

    fn tell_gone(&mut self, changes: &mut FlowChanges) {
        let mut gone = core::mem::take(&mut self.model.flows.gone);
        for (key, endpoints) in gone.drain(..) {
            // Back again, or never gone.
            if !self.is_known(&key) {
                let endpoints = endpoints.iter().map(|target| self.socket(*target));
                changes.gone.push((self.frontend(key), endpoints.collect()));
            }
        }
        self.model.flows.gone = gone;
    }

    fn tell_appeared(&mut self, changes: &mut FlowChanges) {
        let mut appeared = core::mem::take(&mut self.model.flows.appeared);
        for key in appeared.drain(..) {
            if self.is_known(&key) {
                changes.appeared.push(self.frontend(key));
            }
        }
        // A cold load notes all frontends there are.
        appeared.shrink_to(KEPT);
        self.model.flows.appeared = appeared;
    }

    fn tell_serving(&mut self, changes: &mut FlowChanges) {
        let mut ports = core::mem::take(&mut self.model.flows.ports);
        let mut endpoints = core::mem::take(&mut self.model.flows.serving);
        for id in ports.drain(..) {
            let Some(port) = self.model.ports.at_mut(id) else {
                continue;
            };
            port.noted = false;
            let Some(port) = self.model.ports.at(id).filter(|port| !port.is_gone()) else {
                continue;
            };
            serving::list(&self.model, port, &mut endpoints);
            let told = hash(&self.model.flows.hasher, &self.model, id, port, &endpoints);
            if told == port.told {
                continue;
            }
            let shared: Arc<[SocketAddr]> = endpoints.iter().map(|it| self.socket(*it)).collect();
            for (key, role) in frontends(&self.model, id, port) {
                let served = Served {
                    by: Arc::clone(&shared),
                    at_cluster_ip: role == Role::ClusterIp,
                };
                changes.serving.push((self.frontend(key), served));
            }
            if let Some(port) = self.model.ports.at_mut(id) {
                port.told = told;
            }
        }
        ports.shrink_to(KEPT);
        self.model.flows.ports = ports;
        self.model.flows.serving = endpoints;
    }

    /// Is it a frontend with rows?
    fn is_known(&self, key: &FrontendKey) -> bool {
        let frontends = &self.model.frontends;
        let frontend = frontends.find(key).and_then(|id| frontends.arena.at(id));
        frontend.is_some_and(|frontend| frontend.route.is_some() || frontend.rejects)
    }

    fn socket(&self, target: Target) -> SocketAddr {
        SocketAddr::new(target.address.ip(self.model.family), target.port)
    }

    fn frontend(&self, key: FrontendKey) -> Frontend {
        Frontend {
            address: key.address.map(|address| address.ip(self.model.family)),
            protocol: key.protocol,
            port: key.port,
        }
    }
}

/// Notes that buffers have room for at most between two calls.
const KEPT: usize = 1024;

/// Frontends of a port that lead to its endpoints, or refuse.
fn frontends<'a>(
    model: &'a Model,
    id: u32,
    port: &'a Port,
) -> impl Iterator<Item = (FrontendKey, Role)> + use<'a> {
    let all = port.frontends.iter();
    let all = all.filter_map(|frontend| model.frontends.arena.at(*frontend));
    all.filter(move |it| it.owner.port == id && (it.route.is_some() || it.rejects))
        .map(|frontend| (frontend.key, frontend.owner.role))
}

/// A hash of what would be told of a port; never 0.
fn hash(
    hasher: &DefaultHashBuilder,
    model: &Model,
    id: u32,
    port: &Port,
    endpoints: &[Target],
) -> u64 {
    let mut state = hasher.build_hasher();
    endpoints.hash(&mut state);
    for frontend in frontends(model, id, port) {
        frontend.hash(&mut state);
    }
    state.finish().max(1)
}
