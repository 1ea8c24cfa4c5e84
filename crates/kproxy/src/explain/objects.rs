use core::net::IpAddr;
use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;
use svc_planner::object::{
    Change, Endpoint, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort,
};
use svc_planner::report::PortName;

use super::FrontendKind;

/// The objects that explanations name.
#[derive(Debug, Default)]
pub struct Objects {
    services: BTreeMap<ObjectName, Service>,
    slices: HashMap<ObjectName, Vec<EndpointSlice>, RandomState>,
    node: Option<Node>,
}

/// A Service that has an address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Holder<'a> {
    pub(super) service: &'a Service,
    pub(super) kind: FrontendKind,
}

impl Objects {
    /// Takes a change in.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Service(service) => {
                self.services.insert(service.name.clone(), service.clone());
            }
            Change::ServiceGone(name) => {
                self.services.remove(name);
            }
            Change::EndpointSlice(slice) => {
                let slices = self.slices.entry(service_of(slice)).or_default();
                slices.retain(|other| other.name != slice.name);
                slices.push(slice.clone());
            }
            Change::EndpointSliceGone(name) => {
                for slices in self.slices.values_mut() {
                    slices.retain(|slice| slice.name != *name);
                }
            }
            Change::Node(node) => self.node = Some(node.clone()),
            Change::NodeGone => self.node = None,
            _ => {}
        }
    }

    /// Addresses of the own Node.
    #[must_use]
    pub fn node_addresses(&self) -> &[IpAddr] {
        self.node.as_ref().map_or(&[], |node| &node.addresses)
    }

    pub(super) fn service(&self, name: &ObjectName) -> Option<&Service> {
        self.services.get(name)
    }

    /// Services that have an address, whatever its ports.
    pub(super) fn holders(&self, address: IpAddr) -> impl Iterator<Item = Holder<'_>> {
        self.services.values().filter_map(move |service| {
            let kind = kind_of(service, address)?;
            Some(Holder { service, kind })
        })
    }

    /// The endpoints of a Service port, each once and with its port.
    pub(super) fn endpoints(&self, port: &PortName) -> Vec<(&Endpoint, u16)> {
        let mut found: Vec<(&Endpoint, u16)> = Vec::new();
        for slice in self.slices.get(&port.service).into_iter().flatten() {
            let wanted = |it: &&svc_planner::object::SlicePort| {
                it.name == port.port && it.protocol == port.protocol
            };
            let Some(number) = slice.ports.iter().find(wanted).map(|it| it.port) else {
                continue;
            };
            for endpoint in &slice.endpoints {
                let same = |(other, at): &&mut (&Endpoint, u16)| {
                    other.address == endpoint.address && *at == number
                };
                match found.iter_mut().find(same) {
                    // Of several the one that is not about to end counts.
                    Some(known) if known.0.terminating && !endpoint.terminating => {
                        *known = (endpoint, number);
                    }
                    Some(_) => {}
                    None => found.push((endpoint, number)),
                }
            }
        }
        found
    }

    /// The Service port that claims a frontend: an address and port, or with no address a node port.
    pub(super) fn claimant(
        &self,
        address: Option<IpAddr>,
        protocol: Protocol,
        number: u16,
    ) -> Option<PortName> {
        let claims = |service: &Service, port: &ServicePort| {
            port.protocol == protocol
                && match address {
                    Some(address) => port.port == number && kind_of(service, address).is_some(),
                    None => port.node_port == number,
                }
        };
        self.services.values().find_map(|service| {
            let port = service.ports.iter().find(|port| claims(service, port))?;
            Some(PortName {
                service: service.name.clone(),
                port: port.name.clone(),
                protocol,
            })
        })
    }
}

/// What an address is to a Service.
pub(super) fn kind_of(service: &Service, address: IpAddr) -> Option<FrontendKind> {
    if service.cluster_ips.contains(&address) {
        Some(FrontendKind::ClusterIp)
    } else if service.load_balancer_ips.contains(&address) {
        Some(FrontendKind::LoadBalancer)
    } else if service.external_ips.contains(&address) {
        Some(FrontendKind::ExternalIp)
    } else {
        None
    }
}

fn service_of(slice: &EndpointSlice) -> ObjectName {
    ObjectName {
        namespace: slice.name.namespace.clone(),
        name: slice.service.clone(),
    }
}
