//! Services and their ports as they are kept.

use ipnet::IpNet;
use smallvec::SmallVec;

use super::address::{Address, LocalTarget};
use super::arena::NONE;
use super::source_ranges;
use crate::object::{self, Algorithm, Protocol, TrafficPolicy};
use crate::plan::Family;

/// What kind of address a frontend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Role {
    ClusterIp,
    ExternalIp,
    LoadBalancer,
    NodePort,
}

impl Role {
    /// Is it reached from outside the cluster?
    pub(crate) const fn is_external(self) -> bool {
        !matches!(self, Self::ClusterIp)
    }
}

/// A Service, or the place where slices wait for theirs.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) namespace: u32,
    pub(crate) name: Box<str>,
    /// Absent while only slices are known, or the Service has no ClusterIP of this family.
    pub(crate) spec: Option<Box<Spec>>,
    /// Number of its ClusterIP if it has exactly one, else `NONE`; spares planning a lookup.
    pub(crate) cluster_ip: u32,
    /// Its ports.
    pub(crate) ports: SmallVec<[u32; 2]>,
    /// Its slices, by name.
    pub(crate) slices: SmallVec<[u32; 2]>,
}

/// What a Service asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Spec {
    /// [`object::Seconds::MAX`] if unknown.
    pub(crate) created: object::Seconds,
    pub(crate) uid: Option<object::Uid>,
    /// Its ClusterIPs come first, whatever their role.
    pub(crate) addresses: Box<[(Address, Role)]>,
    /// How many ClusterIPs it has.
    cluster_ips: u8,
    /// Who may reach its load-balancer addresses, see [`source_ranges::admitted`].
    pub(crate) sources: Option<Box<[IpNet]>>,
    pub(crate) internal_policy: TrafficPolicy,
    pub(crate) external_policy: TrafficPolicy,
    pub(crate) affinity: Option<u32>,
    /// 0 if there is none.
    pub(crate) health_check_node_port: u16,
    pub(crate) algorithm: Algorithm,
}

impl Spec {
    /// `None` if the Service has no ClusterIP of the family: it is not ours then.
    pub(crate) fn new(
        service: &object::Service,
        family: Family,
        serve_external_ips: bool,
    ) -> Option<Box<Self>> {
        let external_ips = if serve_external_ips {
            &service.external_ips[..]
        } else {
            &[]
        };
        let roles = [
            (&service.cluster_ips[..], Role::ClusterIp),
            (external_ips, Role::ExternalIp),
            // Source ranges hold for addresses that are external IPs as well.
            (&service.load_balancer_ips[..], Role::LoadBalancer),
        ];
        let mut addresses: SmallVec<[(Address, Role); 4]> = SmallVec::new();
        let mut cluster_ips = 0_u8;
        for (list, role) in roles {
            for address in list.iter().filter_map(|ip| Address::new(family, *ip)) {
                // An address named twice has its last role, as for kube-proxy.
                match addresses.iter_mut().find(|(other, _)| *other == address) {
                    Some((_, known)) => *known = role,
                    None => addresses.push((address, role)),
                }
            }
            if role == Role::ClusterIp {
                cluster_ips = u8::try_from(addresses.len()).unwrap_or(u8::MAX);
            }
        }
        if cluster_ips == 0 {
            return None;
        }
        Some(Box::new(Self {
            created: service.created.unwrap_or(object::Seconds::MAX),
            uid: service.uid,
            addresses: addresses.into_vec().into_boxed_slice(),
            cluster_ips,
            sources: source_ranges::admitted(&service.source_ranges, family),
            internal_policy: service.internal_policy,
            external_policy: service.external_policy,
            affinity: service.affinity,
            health_check_node_port: match service.external_policy {
                TrafficPolicy::Local => service.health_check_node_port,
                TrafficPolicy::Cluster => 0,
            },
            algorithm: service.algorithm,
        }))
    }

    /// Does it have addresses that only some sources may reach?
    pub(crate) fn is_restricted(&self) -> bool {
        let is_balancer = |(_, role): &(Address, Role)| *role == Role::LoadBalancer;
        self.sources.is_some() && self.addresses.iter().any(is_balancer)
    }

    pub(crate) fn cluster_ips(&self) -> impl Iterator<Item = Address> {
        let addresses = self.addresses.iter().take(self.cluster_ips.into());
        addresses.map(|(address, _)| *address)
    }
}

/// A Service port: the unit of planning.
#[derive(Debug)]
pub(crate) struct Port {
    /// Its Service; [`NONE`] once the port is gone and only its kernel state remains.
    pub(crate) service: u32,
    pub(crate) name: u32,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
    pub(crate) node_port: u16,
    /// Waits in the queue.
    pub(crate) queued: bool,
    /// Refused by the kernel: not planned until something changes.
    pub(crate) set_aside: bool,
    /// Internal and external traffic policy, Local, leave it no endpoint of those it has.
    pub(crate) no_local: [bool; 2],
    /// Waits in [`FlowNotes`](super::flow_notes::FlowNotes).
    pub(crate) noted: bool,
    /// Hash of what was last told of its flows, 0 if nothing.
    pub(crate) told: u64,
    /// Group of the cluster's endpoints, 0 if none.
    pub(crate) cluster_group: u32,
    /// Group of this node's endpoints, 0 if none.
    pub(crate) local_group: u32,
    /// Frontends it claims.
    pub(crate) frontends: SmallVec<[u32; 2]>,
    /// Local endpoints it has hairpin rows for.
    pub(crate) hairpins: Vec<LocalTarget>,
}

impl Port {
    pub(crate) fn new(service: u32, name: u32, port: &object::ServicePort) -> Self {
        Self {
            service,
            name,
            protocol: port.protocol,
            port: port.port,
            node_port: port.node_port,
            queued: false,
            set_aside: false,
            no_local: [false; 2],
            noted: false,
            told: 0,
            cluster_group: 0,
            local_group: 0,
            frontends: SmallVec::new(),
            hairpins: Vec::new(),
        }
    }

    pub(crate) const fn is_gone(&self) -> bool {
        self.service == NONE
    }
}
