//! What is wanted: Services, EndpointSlices and the Node, slim, and which Service ports changed.

pub(crate) mod address;
pub(crate) mod arena;
mod changes;
pub(crate) mod counts;
pub(crate) mod flow_notes;
pub(crate) mod frontend;
pub(crate) mod interner;
pub(crate) mod listener_notes;
pub(crate) mod node;
pub(crate) mod service;
pub(crate) mod service_cidr;
pub(crate) mod slice;
pub(crate) mod source_ranges;
pub(crate) mod triggers;

use core::hash::BuildHasher;
use std::collections::VecDeque;

use hashbrown::{DefaultHashBuilder, HashTable};
use smallvec::SmallVec;

use self::address::LocalTarget;
use self::arena::Arena;
use self::counts::Counts;
use self::flow_notes::FlowNotes;
use self::frontend::{ClusterIps, Frontends};
use self::interner::Interner;
use self::listener_notes::ListenerNotes;
use self::node::NodeView;
use self::service::{Port, Service};
use self::service_cidr::ServiceCidrs;
use self::slice::Slice;
use self::triggers::Triggers;
use crate::clock::IN_USE;
use crate::object::{self, Change, ObjectName};
use crate::plan::{Family, Key};
use crate::report::PortName;

/// The wanted state of one family.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) family: Family,
    own_node: Box<str>,
    /// External IPs are served.
    pub(crate) external_ips: bool,
    pub(crate) names: Interner,
    pub(crate) services: Arena<Service>,
    service_index: HashTable<u32>,
    pub(crate) slices: Arena<Slice>,
    slice_index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub(crate) ports: Arena<Port>,
    pub(crate) frontends: Frontends,
    pub(crate) cluster_ips: ClusterIps,
    pub(crate) node: NodeView,
    pub(crate) service_cidrs: ServiceCidrs,
    /// Ports to plan, oldest change first.
    pub(crate) queue: VecDeque<u32>,
    /// Frontends that lost their owner.
    pub(crate) lost_frontends: Vec<u32>,
    /// ClusterIPs that lost their last Service.
    pub(crate) lost_cluster_ips: Vec<u32>,
    /// What may leave stale connections behind.
    pub(crate) flows: FlowNotes,
    /// What processes may have to listen for.
    pub(crate) listeners: ListenerNotes,
    /// When what is not in force yet happened.
    pub(crate) triggers: Triggers,
    pub(crate) counts: Counts,
}

impl Model {
    pub(crate) fn new(family: Family, own_node: Box<str>) -> Self {
        Self {
            family,
            own_node,
            external_ips: true,
            names: Interner::default(),
            services: Arena::default(),
            service_index: HashTable::new(),
            slices: Arena::default(),
            slice_index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            ports: Arena::default(),
            frontends: Frontends::default(),
            cluster_ips: ClusterIps::default(),
            node: NodeView::default(),
            service_cidrs: ServiceCidrs::default(),
            queue: VecDeque::new(),
            lost_frontends: Vec::new(),
            lost_cluster_ips: Vec::new(),
            flows: FlowNotes::default(),
            listeners: ListenerNotes::default(),
            triggers: Triggers::default(),
            counts: Counts::default(),
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Service(service) => self.set_service(&service),
            Change::ServiceGone(name) => self.remove_service(&name),
            Change::EndpointSlice(slice) => self.set_slice(slice),
            Change::EndpointSliceGone(name) => self.remove_slice(&name),
            Change::Node(node) => {
                let primary = self.node.addresses.first().copied();
                if self.node.set(self.family, node) {
                    self.queue_all();
                } else if self.node.addresses.first().copied() != primary {
                    self.queue_restricted();
                }
            }
            // Its last known addresses and zone stay in use.
            Change::NodeGone => {}
            Change::HostAddresses(addresses) => self.node.set_host(self.family, &addresses),
            Change::ServiceCidr { name, cidrs } => {
                self.service_cidrs.set(self.family, name, &cidrs)
            }
            Change::ServiceCidrGone(name) => self.service_cidrs.remove(&name),
        }
    }

    /// Puts a port at the end of the queue.
    pub(crate) fn queue(&mut self, id: u32) {
        let Some(port) = self.ports.at_mut(id) else {
            return;
        };
        self.listeners.note_frontend(port.protocol, port.node_port);
        if !port.queued {
            port.queued = true;
            self.queue.push_back(id);
        }
    }

    /// Puts a port at the front of the queue.
    pub(crate) fn queue_first(&mut self, id: u32) {
        if let Some(port) = self.ports.at_mut(id)
            && !port.queued
        {
            port.queued = true;
            self.queue.push_front(id);
        }
    }

    /// Queues all ports: something changed that concerns every Service.
    pub(crate) fn queue_all(&mut self) {
        for id in 0..self.ports.end() {
            self.queue(id);
        }
    }

    /// Queues the ports of Services with source ranges, which may name the node.
    fn queue_restricted(&mut self) {
        for id in 0..self.services.end() {
            let service = self.services.at(id);
            let spec = service.and_then(|service| service.spec.as_ref());
            if !spec.is_some_and(|spec| spec.is_restricted()) {
                continue;
            }
            for port in service.map_or_else(SmallVec::new, |service| service.ports.clone()) {
                self.queue(port);
            }
        }
    }

    /// A port that the kernel has rows of, of a Service yet to come.
    pub(crate) fn expect_port(&mut self, name: &PortName, groups: (u32, u32)) -> u32 {
        let service = self.find_or_add_service(&name.service.namespace, &name.service.name);
        let object = object::ServicePort {
            name: name.port.clone(),
            protocol: name.protocol,
            port: 0,
            node_port: 0,
        };
        let port_name = self.names.acquire(&name.port);
        let mut port = Port::new(service, port_name, &object);
        (port.cluster_group, port.local_group) = groups;
        let id = self.ports.insert(port);
        if let Some(service) = self.services.at_mut(service) {
            service.ports.push(id);
        }
        id
    }

    /// Gives up the ports whose Service did not come.
    pub(crate) fn drop_expected_ports(&mut self) {
        for id in 0..self.services.end() {
            let Some(service) = self.services.at_mut(id).filter(|s| s.spec.is_none()) else {
                continue;
            };
            for port in core::mem::take(&mut service.ports) {
                self.detach_port(port);
            }
            self.drop_unused_service(id);
        }
    }

    /// The kernel holds nothing of what was planned: everything is to be planned again.
    pub(crate) fn forget_kernel(&mut self) {
        for id in 0..self.ports.end() {
            let Some(port) = self.ports.at_mut(id) else {
                continue;
            };
            (port.cluster_group, port.local_group) = (0, 0);
            port.hairpins = Vec::new();
            port.set_aside = false;
            // While the table was not as planned, flows may have gone anywhere.
            port.told = 0;
            if port.is_gone() {
                self.note_no_local(id, [false; 2]);
                self.ports.remove(id);
            } else {
                self.queue(id);
            }
        }
        for id in 0..self.frontends.arena.end() {
            let Some(frontend) = self.frontends.arena.at_mut(id) else {
                continue;
            };
            (frontend.route, frontend.rejects, frontend.since) = (None, false, IN_USE);
            if frontend.is_unused() {
                self.frontends.remove(id);
            }
        }
        for id in 0..self.cluster_ips.arena.end() {
            let Some(ip) = self.cluster_ips.arena.at_mut(id) else {
                continue;
            };
            (ip.present, ip.leaves) = (false, false);
            if ip.claims == 0 {
                self.cluster_ips.remove(id);
            }
        }
        self.lost_frontends.clear();
        self.lost_cluster_ips.clear();
    }

    /// The key of a hairpin row.
    pub(crate) fn hairpin_key(&self, local: LocalTarget) -> Key {
        Key::Hairpin {
            address: local.target.address.ip(self.family),
            protocol: local.protocol,
            port: local.target.port,
        }
    }

    /// The full name of a port, if its Service is still there.
    pub(crate) fn port_name(&self, id: u32) -> Option<PortName> {
        let port = self.ports.at(id)?;
        let service = self.services.at(port.service)?;
        Some(PortName {
            service: ObjectName {
                namespace: self.names.text(service.namespace).into(),
                name: service.name.clone(),
            },
            port: self.names.text(port.name).into(),
            protocol: port.protocol,
        })
    }

    /// The port of a name.
    pub(crate) fn find_port(&self, name: &PortName) -> Option<u32> {
        let service = self.services.at(self.find_service(&name.service)?)?;
        let named = |&&id: &&u32| {
            self.ports.at(id).is_some_and(|port| {
                port.protocol == name.protocol && self.names.text(port.name) == &*name.port
            })
        };
        service.ports.iter().find(named).copied()
    }

    fn find_or_add_service(&mut self, namespace: &str, name: &str) -> u32 {
        if let Some(id) = self.find_service_parts(namespace, name) {
            return id;
        }
        let hash = self.hash_name(namespace, name);
        let namespace = self.names.acquire(namespace);
        let id = self.services.insert(Service {
            namespace,
            name: name.into(),
            spec: None,
            ports: SmallVec::new(),
            slices: SmallVec::new(),
            cluster_ip: arena::NONE,
        });
        let (services, names, hasher) = (&self.services, &self.names, &self.hasher);
        self.service_index.insert_unique(hash, id, |&id| {
            services.at(id).map_or(0, |service| {
                hasher.hash_one((names.text(service.namespace), &*service.name))
            })
        });
        id
    }

    fn drop_unused_service(&mut self, id: u32) {
        let unused = |service: &Service| {
            service.spec.is_none() && service.slices.is_empty() && service.ports.is_empty()
        };
        let Some(service) = self.services.at(id).filter(|service| unused(service)) else {
            return;
        };
        let hash = self.hash_name(self.names.text(service.namespace), &service.name);
        if let Ok(entry) = self.service_index.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        if let Some(service) = self.services.remove(id) {
            self.names.release(service.namespace);
        }
    }

    /// A Service's own identity.
    pub(crate) fn service_uid(&self, name: &ObjectName) -> Option<object::Uid> {
        let service = self.services.at(self.find_service(name)?)?;
        service.spec.as_ref()?.uid
    }

    pub(crate) fn find_service(&self, name: &ObjectName) -> Option<u32> {
        self.find_service_parts(&name.namespace, &name.name)
    }

    fn find_service_parts(&self, namespace: &str, name: &str) -> Option<u32> {
        let namespace_id = self.names.find(namespace)?;
        let same = |&id: &u32| {
            self.services
                .at(id)
                .is_some_and(|s| s.namespace == namespace_id && &*s.name == name)
        };
        self.service_index
            .find(self.hash_name(namespace, name), same)
            .copied()
    }

    fn find_slice(&self, name: &ObjectName) -> Option<u32> {
        let namespace = self.names.find(&name.namespace)?;
        let same = |&id: &u32| {
            self.slices
                .at(id)
                .is_some_and(|s| s.namespace == namespace && s.name == name.name)
        };
        self.slice_index
            .find(self.hash_name(&name.namespace, &name.name), same)
            .copied()
    }

    fn hash_name(&self, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }
}
