//! What is planned, in numbers and by Service: for metrics, and for people to look at.

use core::net::IpAddr;
use core::ops::Range;

use super::Planner;
use crate::kernel::set::SetId;
use crate::model::address::Address;
use crate::model::frontend::Frontend;
use crate::model::service::{Role, Service};
use crate::model::slice::{Endpoint, Flags, Slice};
use crate::object::{ObjectName, Protocol, TrafficPolicy};
use crate::plan::{Family, Name, Route};

/// How full a set or map is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetFill {
    /// Name of its first generation.
    pub set: &'static str,
    /// Rows in it. Rules add those of a map of clients: they are not known here.
    pub rows: Option<u32>,
    /// Rows that it has room for before it is replaced by a bigger one; `None` for those without a
    /// size.
    pub room: Option<u32>,
    /// Rows that the biggest one has room for.
    pub limit: Option<u32>,
}

/// What there is of a family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Services with a ClusterIP of the family.
    pub services: usize,
    /// Their ports.
    pub ports: usize,
    /// EndpointSlices with endpoints of the family, or that had some.
    pub slices: usize,
    /// Endpoints of the family, in all slices.
    pub endpoints: usize,
    /// Live classes: chains that every commit walks.
    pub classes: usize,
    /// As many as there may be.
    pub classes_max: u32,
    /// Groups of endpoints.
    pub groups: usize,
    /// As many as there may be.
    pub groups_max: u32,
    /// Service ports of internal traffic policy Local that have endpoints, but none on this node.
    pub no_local_internal: usize,
    /// The same of external traffic policy.
    pub no_local_external: usize,
}

/// A Service in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceSummary<'p> {
    /// Namespace.
    pub namespace: &'p str,
    /// Name.
    pub name: &'p str,
    /// First ClusterIP of the family.
    pub cluster_ip: IpAddr,
    /// Addresses besides ClusterIPs.
    pub other_addresses: usize,
    /// Ports.
    pub ports: usize,
    /// Of them, those with a node port.
    pub node_ports: usize,
    /// Endpoints of the family in its slices.
    pub endpoints: usize,
    /// Of them, those that are ready.
    pub ready: usize,
    /// Of them, those on this node.
    pub local: usize,
    /// Internal traffic policy.
    pub internal: TrafficPolicy,
    /// External traffic policy.
    pub external: TrafficPolicy,
    /// ClientIP affinity timeout in seconds.
    pub affinity: Option<u32>,
    addresses: &'p [(Address, Role)],
    family: Family,
}

impl ServiceSummary<'_> {
    /// Whether it is reached at an address, of whatever role.
    #[must_use]
    pub fn has_address(&self, address: IpAddr) -> bool {
        let mut addresses = self.addresses.iter();
        addresses.any(|(it, _)| it.ip(self.family) == address)
    }
}

/// All about a Service, but for a part of its endpoints only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceDetail {
    /// Its frontends, those of others that it lost included.
    pub frontends: Vec<FrontendDetail>,
    /// Endpoints of the family in its slices.
    pub all: usize,
    /// Of them, those that are ready.
    pub ready: usize,
    /// The part of them that was asked for.
    pub endpoints: Vec<EndpointDetail>,
}

/// An address and port, or a node port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontendDetail {
    /// Name of the Service port.
    pub port_name: Box<str>,
    /// Address; `None` for a node port.
    pub address: Option<IpAddr>,
    /// Protocol.
    pub protocol: Protocol,
    /// Port number.
    pub port: u16,
    /// `ClusterIP`, `ExternalIP`, `LoadBalancer` or `NodePort`.
    pub role: &'static str,
    /// Another Service has it.
    pub lost: bool,
    /// Where its row leads: chain of its class, class and group. `None` if it is rejected, or not in
    /// the kernel yet.
    pub route: Option<(Name, u32, u32)>,
    /// It is rejected: nobody serves it.
    pub rejects: bool,
}

/// An endpoint of a slice, with each of the slice's ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointDetail {
    /// Name of the slice.
    pub slice: Box<str>,
    /// Address.
    pub address: IpAddr,
    /// Port name, protocol, number.
    pub ports: Vec<(Box<str>, Protocol, u16)>,
    /// Conditions of the slice.
    pub ready: bool,
    /// See there.
    pub serving: bool,
    /// See there.
    pub terminating: bool,
    /// It is on this node.
    pub local: bool,
}

impl Planner {
    /// How full each set is, always in the same order.
    pub fn set_fills(&self) -> impl Iterator<Item = SetFill> + '_ {
        SetId::ALL
            .into_iter()
            .zip(&self.kernel.sets)
            .map(|(id, state)| SetFill {
                set: id.name(),
                rows: (!id.is_dynamic()).then_some(state.rows),
                room: state.size,
                limit: id.is_sized().then_some(self.config.max_rows).or(state.size),
            })
    }

    /// What there is, in numbers. Costs the same however much there is.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let model = &self.model;
        Totals {
            services: model.counts.services,
            ports: model.ports.len(),
            slices: model.slices.len(),
            endpoints: model.counts.endpoints,
            classes: self.kernel.classes.len(),
            classes_max: self.config.max_classes.min(Route::MAX_CLASS),
            groups: self.kernel.groups.len(),
            groups_max: Route::MAX_GROUP - 1,
            no_local_internal: model.counts.no_local[0],
            no_local_external: model.counts.no_local[1],
        }
    }

    /// Shows Services from a position on, in no particular order, until about `work` Services and
    /// endpoints were looked at. Returns where to go on; `None` at the end. Services that come and go
    /// meanwhile are shown or not.
    pub fn services(
        &self,
        from: u32,
        work: usize,
        mut each: impl FnMut(ServiceSummary<'_>),
    ) -> Option<u32> {
        let mut done = 0;
        for id in from..self.model.services.end() {
            if done >= work {
                return Some(id);
            }
            done += 1;
            if let Some(service) = self.model.services.at(id)
                && let Some(summary) = self.summary(service)
            {
                done += summary.endpoints;
                each(summary);
            }
        }
        None
    }

    fn summary<'p>(&'p self, service: &'p Service) -> Option<ServiceSummary<'p>> {
        let spec = service.spec.as_ref()?;
        let (first, _) = spec.addresses.first()?;
        let ports = service.ports.iter();
        let ports = ports.filter_map(|id| self.model.ports.at(*id));
        let mut summary = ServiceSummary {
            namespace: self.model.names.text(service.namespace),
            name: &service.name,
            cluster_ip: first.ip(self.model.family),
            other_addresses: spec.addresses.len() - spec.cluster_ips().count(),
            ports: service.ports.len(),
            node_ports: ports.filter(|port| port.node_port != 0).count(),
            endpoints: 0,
            ready: 0,
            local: 0,
            internal: spec.internal_policy,
            external: spec.external_policy,
            affinity: spec.affinity,
            addresses: &spec.addresses,
            family: self.model.family,
        };
        for endpoint in self.slices_of(service).flat_map(|slice| &slice.endpoints) {
            summary.endpoints += 1;
            summary.ready += usize::from(endpoint.flags.has(Flags::READY));
            summary.local += usize::from(endpoint.flags.has(Flags::LOCAL));
        }
        Some(summary)
    }

    /// All about a Service, with those of its endpoints whose positions are in `part`; `None` if the
    /// family has none of that name.
    #[must_use]
    pub fn service(&self, name: &ObjectName, part: Range<usize>) -> Option<ServiceDetail> {
        let service = self.model.services.at(self.model.find_service(name)?)?;
        service.spec.as_ref()?;
        let ports = service.ports.iter();
        let frontends = ports.flat_map(|&port| {
            let claimed = self.model.ports.at(port).map(|it| it.frontends.as_slice());
            let claimed = claimed.unwrap_or_default().iter();
            claimed.filter_map(move |id| self.frontend_detail(port, *id))
        });
        let mut detail = ServiceDetail {
            frontends: frontends.collect(),
            all: 0,
            ready: 0,
            endpoints: Vec::new(),
        };
        for slice in self.slices_of(service) {
            let before = detail.all;
            detail.all += slice.endpoints.len();
            let is_ready = |it: &&Endpoint| it.flags.has(Flags::READY);
            detail.ready += slice.endpoints.iter().filter(is_ready).count();
            let within = |at: usize| at.saturating_sub(before).min(slice.endpoints.len());
            let part = within(part.start)..within(part.end);
            let part = slice.endpoints.get(part).unwrap_or_default();
            detail.endpoints.extend(self.endpoint_details(slice, part));
        }
        Some(detail)
    }

    fn slices_of<'p>(&'p self, service: &'p Service) -> impl Iterator<Item = &'p Slice> {
        let slices = service.slices.iter();
        slices.filter_map(|id| self.model.slices.at(*id))
    }

    fn frontend_detail(&self, port: u32, id: u32) -> Option<FrontendDetail> {
        let frontend: &Frontend = self.model.frontends.arena.at(id)?;
        let name = self.model.ports.at(port)?.name;
        let lost = frontend.owner.port != port;
        let route = frontend.route.filter(|_| !lost).map(|route| {
            let class = self.kernel.classes.at(route.class());
            let chain = class.map_or_else(|| Name::from("?"), |class| class.shape.chain(0));
            (chain, route.class(), route.group())
        });
        Some(FrontendDetail {
            port_name: self.model.names.text(name).into(),
            address: frontend.key.address.map(|it| it.ip(self.model.family)),
            protocol: frontend.key.protocol,
            port: frontend.key.port,
            role: match frontend.owner.role {
                Role::ClusterIp => "ClusterIP",
                Role::ExternalIp => "ExternalIP",
                Role::LoadBalancer => "LoadBalancer",
                Role::NodePort => "NodePort",
            },
            lost,
            route,
            rejects: frontend.rejects && !lost,
        })
    }

    fn endpoint_details<'p>(
        &'p self,
        slice: &'p Slice,
        part: &'p [Endpoint],
    ) -> impl Iterator<Item = EndpointDetail> + 'p {
        let port = |port: &crate::model::slice::SlicePort| {
            let name = self.model.names.text(port.name).into();
            (name, port.protocol, port.port)
        };
        let ports: Vec<_> = slice.ports.iter().map(port).collect();
        part.iter().map(move |endpoint| EndpointDetail {
            slice: slice.name.clone(),
            address: endpoint.address.ip(self.model.family),
            ports: ports.clone(),
            ready: endpoint.flags.has(Flags::READY),
            serving: endpoint.flags.has(Flags::SERVING),
            terminating: endpoint.flags.has(Flags::TERMINATING),
            local: endpoint.flags.has(Flags::LOCAL),
        })
    }
}
