//! Kinds of changes to one Service of a cluster, each with its way back.

use core::net::{IpAddr, Ipv4Addr};

use svc_planner::object::{Change, EndpointSlice, Node, Service, TrafficPolicy};

use crate::cluster::Cluster;

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A Service with its endpoints comes; it goes again.
    Service,
    /// Its endpoints are other ones.
    Replacement,
    /// An endpoint more, and one less.
    Endpoint,
    /// An endpoint terminates, and is ready again.
    Terminating,
    /// From a ClusterIP alone to a load-balancer address and a node port, and back.
    Type,
    /// Internal traffic policy Local, and Cluster again.
    InternalPolicy,
    /// External traffic policy Local, and Cluster again, of a Service with a load-balancer address.
    ExternalPolicy,
    /// Clients stick to endpoints, and do no more.
    Affinity,
    /// A load-balancer address is restricted to source ranges, and open again.
    SourceRanges,
    /// The Node's address is another one.
    NodeAddress,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Service,
        Self::Replacement,
        Self::Endpoint,
        Self::Terminating,
        Self::Type,
        Self::InternalPolicy,
        Self::ExternalPolicy,
        Self::Affinity,
        Self::SourceRanges,
        Self::NodeAddress,
    ];

    /// What the change and the way back are called.
    #[must_use]
    pub const fn names(self) -> [&'static str; 2] {
        match self {
            Self::Service => ["Service added", "Service deleted"],
            Self::Replacement => ["endpoints replaced", "endpoints back"],
            Self::Endpoint => ["endpoint up", "endpoint down"],
            Self::Terminating => ["endpoint terminating", "endpoint ready"],
            Self::Type => ["to LoadBalancer", "to ClusterIP"],
            Self::InternalPolicy => ["internal policy Local", "internal policy Cluster"],
            Self::ExternalPolicy => ["external policy Local", "external policy Cluster"],
            Self::Affinity => ["affinity on", "affinity off"],
            Self::SourceRanges => ["source ranges on", "source ranges off"],
            Self::NodeAddress => ["node address changed", "node address back"],
        }
    }

    /// Does it take several transactions, at least the first times?
    #[must_use]
    pub const fn waits(self) -> bool {
        matches!(self, Self::SourceRanges)
    }

    /// What is there before the change.
    #[must_use]
    pub fn before(self, cluster: Cluster, service: u32) -> Vec<Change> {
        match self {
            Self::ExternalPolicy | Self::SourceRanges => {
                vec![Change::Service(balanced(cluster, service))]
            }
            Self::NodeAddress => vec![node(1)],
            _ => Vec::new(),
        }
    }

    /// The change.
    #[must_use]
    pub fn there(self, cluster: Cluster, service: u32) -> Vec<Change> {
        let edited = |edit: &dyn Fn(&mut Service)| {
            let mut service = cluster.service(service);
            edit(&mut service);
            vec![Change::Service(service)]
        };
        let rebalanced = |edit: &dyn Fn(&mut Service)| {
            let mut service = balanced(cluster, service);
            edit(&mut service);
            vec![Change::Service(service)]
        };
        match self {
            Self::Service => vec![
                Change::EndpointSlice(cluster.slice(service)),
                Change::Service(cluster.service(service)),
            ],
            Self::Replacement => vec![Change::EndpointSlice(cluster.slice_at(service, other))],
            Self::Endpoint => {
                let more = Cluster {
                    endpoints: cluster.endpoints + 1,
                    ..cluster
                };
                vec![Change::EndpointSlice(more.slice_at(service, |number| {
                    if number < cluster.endpoints {
                        cluster.endpoint(service, number)
                    } else {
                        other(number)
                    }
                }))]
            }
            Self::Terminating => {
                let mut slice = cluster.slice(service);
                terminate(&mut slice);
                vec![Change::EndpointSlice(slice)]
            }
            Self::Type => vec![Change::Service(balanced(cluster, service))],
            Self::InternalPolicy => {
                edited(&|service| service.internal_policy = TrafficPolicy::Local)
            }
            Self::ExternalPolicy => {
                rebalanced(&|service| service.external_policy = TrafficPolicy::Local)
            }
            Self::Affinity => edited(&|service| service.affinity = Some(10_800)),
            Self::SourceRanges => rebalanced(&|service| {
                let net = ipnet::IpNet::new_assert(Ipv4Addr::new(203, 0, 113, 0).into(), 24);
                service.source_ranges.push(net);
            }),
            Self::NodeAddress => vec![node(2)],
        }
    }

    /// The way back to what was before.
    #[must_use]
    pub fn back(self, cluster: Cluster, service: u32) -> Vec<Change> {
        let slice = cluster.slice(service);
        match self {
            Self::Service => vec![
                Change::ServiceGone(slice.name.clone()),
                Change::EndpointSliceGone(slice.name),
            ],
            Self::Replacement | Self::Endpoint | Self::Terminating => {
                vec![Change::EndpointSlice(slice)]
            }
            Self::Type | Self::InternalPolicy | Self::Affinity => {
                vec![Change::Service(cluster.service(service))]
            }
            Self::ExternalPolicy | Self::SourceRanges => {
                vec![Change::Service(balanced(cluster, service))]
            }
            Self::NodeAddress => vec![node(1)],
        }
    }
}

/// An endpoint that no Service has.
fn other(number: u32) -> Ipv4Addr {
    Ipv4Addr::from(0xc612_0000 + number)
}

fn terminate(slice: &mut EndpointSlice) {
    if let Some(endpoint) = slice.endpoints.first_mut() {
        (endpoint.ready, endpoint.terminating) = (false, true);
    }
}

/// The Service with a load-balancer address and a node port of its own.
fn balanced(cluster: Cluster, number: u32) -> Service {
    let mut service = cluster.service(number);
    let address = Ipv4Addr::from(0x0b00_0000 + number);
    service.load_balancer_ips.push(IpAddr::V4(address));
    if let Some(port) = service.ports.first_mut() {
        port.node_port = u16::try_from(30_000 + number % 32_768).unwrap_or(30_000);
    }
    service
}

fn node(last: u8) -> Change {
    Change::Node(Node {
        name: "node".into(),
        addresses: [IpAddr::from([192, 168, 0, last])].into_iter().collect(),
        pod_cidrs: Default::default(),
        zone: None,
        eligible: true,
    })
}
