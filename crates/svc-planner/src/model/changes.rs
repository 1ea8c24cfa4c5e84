//! What a change of an object means to the model.

use core::hash::BuildHasher;

use smallvec::SmallVec;

use super::Model;
use super::arena::NONE;
use super::service::{Port, Spec};
use super::slice::Slice;
use crate::object::{self, ObjectName};
use crate::plan::Family;

impl Model {
    pub(super) fn set_service(&mut self, object: &object::Service) {
        let Some(spec) = Spec::new(object, self.family, self.external_ips) else {
            return self.remove_service(&object.name);
        };
        let id = self.find_or_add_service(&object.name.namespace, &object.name.name);
        let Some(service) = self.services.at_mut(id) else {
            return;
        };
        let before = service.spec.replace(spec);
        let same_spec = before == service.spec;
        self.counts.services += usize::from(before.is_none());
        self.note_health_change(id, &object.name, before.as_deref());
        let Some(service) = self.services.at_mut(id) else {
            return;
        };
        let mut stale = core::mem::take(&mut service.ports);
        let mut kept: SmallVec<[u32; 2]> = SmallVec::new();
        let mut changed: SmallVec<[u32; 8]> = SmallVec::new();
        for wanted in &object.ports {
            let name = self.names.acquire(&wanted.name);
            let is_same = |&port: &u32| {
                self.ports
                    .at(port)
                    .is_some_and(|port| port.name == name && port.protocol == wanted.protocol)
            };
            let Some(position) = stale.iter().position(is_same) else {
                let port = self.ports.insert(Port::new(id, name, wanted));
                kept.push(port);
                changed.push(port);
                continue;
            };
            let port_id = stale.remove(position);
            self.names.release(name);
            kept.push(port_id);
            if let Some(port) = self.ports.at_mut(port_id)
                && (!same_spec || (port.port, port.node_port) != (wanted.port, wanted.node_port))
            {
                (port.port, port.node_port) = (wanted.port, wanted.node_port);
                changed.push(port_id);
            }
        }
        if let Some(service) = self.services.at_mut(id) {
            service.ports = kept;
        }
        for port in stale {
            self.detach_port(port);
        }
        if !same_spec {
            self.claim_cluster_ips(id);
            if let Some(before) = before {
                self.release_cluster_ips(&before);
            }
        }
        for port in changed {
            self.claim_frontends(port);
            self.touch_port(port);
        }
    }

    pub(super) fn remove_service(&mut self, name: &ObjectName) {
        let Some(id) = self.find_service(name) else {
            return;
        };
        let Some(service) = self.services.at_mut(id) else {
            return;
        };
        let ports = core::mem::take(&mut service.ports);
        let spec = service.spec.take();
        for port in ports {
            self.detach_port(port);
        }
        if let Some(spec) = spec {
            self.counts.services = self.counts.services.saturating_sub(1);
            self.note_health_change(id, name, Some(&spec));
            self.release_cluster_ips(&spec);
        }
        self.drop_unused_service(id);
    }

    pub(super) fn set_slice(&mut self, object: object::EndpointSlice) {
        let known = self.find_slice(&object.name);
        let is_ours = |it: &object::Endpoint| Family::of(it.address) == self.family;
        if known.is_none() && !object.endpoints.iter().any(is_ours) {
            // Most are of the other family: there is nothing to be kept of them.
            return;
        }
        let service = self.find_or_add_service(&object.name.namespace, &object.service);
        let triggers = object.triggers.clone();
        let slice = Slice::new(
            object,
            service,
            self.family,
            &self.own_node,
            &mut self.names,
        );
        let Some(id) = known else {
            let id = self.insert_slice(slice);
            self.triggers.note(id, &triggers);
            return self.touch_service(service);
        };
        let Some(old) = self.slices.at_mut(id) else {
            return;
        };
        let old = core::mem::replace(old, slice);
        self.counts.endpoints = self.counts.endpoints.saturating_sub(old.endpoints.len());
        old.release(&mut self.names);
        let Some(new) = self.slices.at(id) else {
            return;
        };
        self.counts.endpoints += new.endpoints.len();
        let same = new.ports == old.ports && new.endpoints == old.endpoints;
        if !(same || new.endpoints.is_empty() && old.endpoints.is_empty()) {
            self.triggers.note(id, &triggers);
        }
        if new.service == old.service {
            if !same {
                self.touch_service(service);
            }
            return;
        }
        self.unlink_slice(id, old.service);
        self.link_slice(id);
        self.touch_service(service);
    }

    pub(super) fn remove_slice(&mut self, name: &ObjectName) {
        let Some(id) = self.find_slice(name) else {
            return;
        };
        let hash = self.hash_name(&name.namespace, &name.name);
        if let Ok(entry) = self.slice_index.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        let Some(slice) = self.slices.at(id) else {
            return;
        };
        let service = slice.service;
        self.triggers.forget(id);
        self.unlink_slice(id, service);
        if let Some(slice) = self.slices.remove(id) {
            self.counts.endpoints = self.counts.endpoints.saturating_sub(slice.endpoints.len());
            slice.release(&mut self.names);
        }
    }

    fn insert_slice(&mut self, slice: Slice) -> u32 {
        self.counts.endpoints += slice.endpoints.len();
        let hash = self.hash_name(self.names.text(slice.namespace), &slice.name);
        let id = self.slices.insert(slice);
        let (slices, names, hasher) = (&self.slices, &self.names, &self.hasher);
        self.slice_index.insert_unique(hash, id, |&id| {
            slices.at(id).map_or(0, |slice| {
                hasher.hash_one((names.text(slice.namespace), &*slice.name))
            })
        });
        self.link_slice(id);
        id
    }

    /// Puts a slice into its Service's list.
    fn link_slice(&mut self, id: u32) {
        let slices = &self.slices;
        let Some(slice) = slices.at(id) else {
            return;
        };
        if let Some(service) = self.services.at_mut(slice.service) {
            let name = |&id: &u32| slices.at(id).map(|slice| &*slice.name);
            let position = service
                .slices
                .binary_search_by(|other| name(other).cmp(&Some(&*slice.name)))
                .unwrap_or_else(|position| position);
            service.slices.insert(position, id);
        }
    }

    /// Takes a slice out of a Service's list.
    fn unlink_slice(&mut self, id: u32, service: u32) {
        if let Some(entry) = self.services.at_mut(service) {
            entry.slices.retain(|other| *other != id);
        }
        self.touch_service(service);
        self.drop_unused_service(service);
    }

    /// The ports of a Service are to be planned.
    fn touch_service(&mut self, id: u32) {
        self.note_health(id);
        let ports = self
            .services
            .at(id)
            .map_or_else(SmallVec::new, |service| service.ports.clone());
        for port in ports {
            self.touch_port(port);
        }
    }

    /// A port changed: it is to be planned, even if it was set aside.
    fn touch_port(&mut self, id: u32) {
        if let Some(port) = self.ports.at_mut(id) {
            port.set_aside = false;
            self.queue(id);
        }
    }

    /// A port is gone; what it left in the kernel is removed when it is planned.
    pub(super) fn detach_port(&mut self, id: u32) {
        self.release_frontends(id);
        if let Some(port) = self.ports.at_mut(id) {
            port.service = NONE;
            port.set_aside = false;
            self.names.release(port.name);
            self.queue(id);
        }
    }

    fn claim_cluster_ips(&mut self, service: u32) {
        let Some(service) = self.services.at_mut(service) else {
            return;
        };
        service.cluster_ip = NONE;
        let Some(spec) = &service.spec else {
            return;
        };
        for (place, address) in spec.cluster_ips().enumerate() {
            let id = self.cluster_ips.claim(address);
            service.cluster_ip = if place == 0 { id } else { NONE };
        }
    }

    fn release_cluster_ips(&mut self, spec: &Spec) {
        for address in spec.cluster_ips() {
            self.lost_cluster_ips
                .extend(self.cluster_ips.release(address));
        }
    }
}
