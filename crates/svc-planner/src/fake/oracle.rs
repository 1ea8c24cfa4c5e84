//! What Kubernetes wants to become of a packet, written down plainly: no sharing, no order, no
//! time. It knows nothing of rules and sets and is compared with what they do.
//!
//! Sources: the Service API's documentation, kube-proxy's nftables mode as observed.

mod endpoints;
mod translated;

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use endpoints::Chosen;

use super::packet::{Host, Origin, Packet, Transport, Verdict};
use crate::config::{Config, LocalDetector, NoLocalEndpoint, NodePortAddresses};
use crate::object::{
    Change, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort, TrafficPolicy,
};
use crate::plan::Family;

/// A cluster as one node's proxy of one family sees it.
#[derive(Debug, Clone)]
pub struct Oracle {
    family: Family,
    config: Config,
    services: BTreeMap<ObjectName, Service>,
    slices: BTreeMap<ObjectName, EndpointSlice>,
    node: Option<Node>,
    cidrs: BTreeMap<Box<str>, Vec<IpNet>>,
    host_addresses: Option<Vec<IpAddr>>,
}

/// How a connection came to a Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ClusterIp,
    External,
    LoadBalancer,
}

/// What becomes of connections on one way to a Service port.
enum Fate {
    NoEndpoint,
    Drop,
    Deliver {
        endpoints: Vec<Chosen>,
        masquerade: bool,
    },
}

impl Oracle {
    /// An empty cluster.
    #[must_use]
    pub fn new(family: Family, config: Config) -> Self {
        Self {
            family,
            config,
            services: BTreeMap::new(),
            slices: BTreeMap::new(),
            node: None,
            cidrs: BTreeMap::new(),
            host_addresses: None,
        }
    }

    /// Changes the configuration.
    pub fn reconfigure(&mut self, config: Config) {
        self.config = config;
    }

    /// Takes a change in.
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Service(mut service) => {
                if !self.config.external_ips {
                    service.external_ips.clear();
                }
                self.services.insert(service.name.clone(), service);
            }
            Change::ServiceGone(name) => {
                self.services.remove(&name);
            }
            Change::EndpointSlice(slice) => {
                self.slices.insert(slice.name.clone(), slice);
            }
            Change::EndpointSliceGone(name) => {
                self.slices.remove(&name);
            }
            Change::Node(node) => self.node = Some(node),
            // The last known Node counts on.
            Change::NodeGone => {}
            Change::ServiceCidr { name, cidrs } => {
                self.cidrs.insert(name, cidrs.into_vec());
            }
            Change::ServiceCidrGone(name) => {
                self.cidrs.remove(&name);
            }
            Change::HostAddresses(addresses) => self.host_addresses = Some(addresses),
        }
    }

    /// The changes that make an empty cluster this one.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let services = self.services.values().cloned().map(Change::Service);
        let slices = self.slices.values().cloned().map(Change::EndpointSlice);
        let cidrs = self.cidrs.iter().map(|(name, cidrs)| Change::ServiceCidr {
            name: name.clone(),
            cidrs: cidrs.iter().copied().collect(),
        });
        let host = self.host_addresses.clone().map(Change::HostAddresses);
        let node = self.node.iter().cloned().map(Change::Node);
        services
            .chain(slices)
            .chain(cidrs)
            .chain(host)
            .chain(node)
            .collect()
    }

    /// Everything that may become of a packet.
    #[must_use]
    pub fn verdicts(&self, packet: &Packet, host: &Host) -> BTreeSet<Verdict> {
        let fates = match packet.transport {
            Transport::Ports {
                protocol,
                destination,
                ..
            } => {
                // Judged before anything else, with or without endpoints.
                if let Some((service, _, Way::LoadBalancer)) =
                    self.owner(&packet.daddr, protocol, destination)
                    && !self.admits(service, &packet.saddr)
                {
                    return BTreeSet::from([Verdict::Dropped]);
                }
                self.fates(packet, host, protocol, destination)
            }
            Transport::Other(_) => Vec::new(),
        };
        for fate in &fates {
            match fate {
                Fate::Deliver {
                    endpoints,
                    masquerade,
                } => {
                    return self.delivered(packet, host, endpoints, *masquerade);
                }
                Fate::Drop => return BTreeSet::from([Verdict::Dropped]),
                Fate::NoEndpoint => {}
            }
        }
        let verdict = if !fates.is_empty() || self.rejects_localhost(packet) {
            Verdict::Rejected
        } else if self.is_judged_by_address(packet, host) {
            self.by_address(&packet.daddr)
        } else {
            Verdict::Untouched { masqueraded: false }
        };
        BTreeSet::from([verdict])
    }

    /// Node ports do not lead on from loopback addresses.
    fn rejects_localhost(&self, packet: &Packet) -> bool {
        let Transport::Ports {
            protocol,
            destination,
            ..
        } = packet.transport
        else {
            return false;
        };
        let rejected = self.config.localhost_node_ports.rejected();
        let mut ports = self.claimants(protocol).map(|(_, port)| port.node_port);
        packet.daddr.is_loopback()
            && rejected.contains(&protocol)
            && ports.any(|port| port == destination && port != 0)
    }

    /// What the Service ports that a packet is for do with it, the address before the node port.
    fn fates(&self, packet: &Packet, host: &Host, protocol: Protocol, port: u16) -> Vec<Fate> {
        let mut found: Vec<_> = self
            .owner(&packet.daddr, protocol, port)
            .into_iter()
            .collect();
        let by_node_port = self.node_port_owner(&packet.daddr, host, protocol, port);
        found.extend(by_node_port.map(|(service, port)| (service, port, Way::External)));
        found
            .into_iter()
            .map(|(s, p, way)| self.fate(packet, host, s, p, way))
            .collect()
    }

    /// The Service port whose node port is served at an address.
    fn node_port_owner(
        &self,
        address: &IpAddr,
        host: &Host,
        protocol: Protocol,
        number: u16,
    ) -> Option<(&Service, &ServicePort)> {
        let claims = self.claimants(protocol);
        claims
            .filter(|(_, port)| port.node_port == number && number != 0)
            .filter(|_| self.serves_node_ports(address, host))
            .min_by_key(|(service, port)| precedence(service, port))
    }

    /// The Service port that an address, protocol and port belong to.
    fn owner(
        &self,
        address: &IpAddr,
        protocol: Protocol,
        port: u16,
    ) -> Option<(&Service, &ServicePort, Way)> {
        let claims = self
            .claimants(protocol)
            .filter_map(|(service, service_port)| {
                let way = way_to(service, address)?;
                (service_port.port == port).then_some((service, service_port, way))
            });
        claims.min_by_key(|(s, p, _)| precedence(s, p))
    }

    /// May a source reach the load-balancer addresses of a Service?
    #[must_use]
    pub fn admits(&self, service: &Service, source: &IpAddr) -> bool {
        let ranges = &service.source_ranges;
        let contain = |address: &IpAddr| ranges.iter().any(|range| range.contains(address));
        let admits_all = |range: &IpNet| range.prefix_len() == 0;
        // Where an address is the node's own as well, the node comes from it.
        let node_as_balancer =
            || service.load_balancer_ips.contains(source) && self.primary().is_some_and(contain);
        ranges.is_empty() || ranges.iter().any(admits_all) || contain(source) || node_as_balancer()
    }

    /// The node's first address of the family.
    fn primary(&self) -> Option<&IpAddr> {
        let own = |ip: &&IpAddr| self.is_ours(ip) && !ip.is_loopback();
        self.node.as_ref()?.addresses.iter().find(own)
    }

    /// All ports of the Services with a ClusterIP of this family.
    fn claimants(&self, protocol: Protocol) -> impl Iterator<Item = (&Service, &ServicePort)> {
        self.services
            .values()
            .filter(|service| service.cluster_ips.iter().any(|ip| self.is_ours(ip)))
            .flat_map(|service| service.ports.iter().map(move |port| (service, port)))
            .filter(move |(_, port)| port.protocol == protocol)
    }

    fn fate(
        &self,
        packet: &Packet,
        host: &Host,
        service: &Service,
        port: &ServicePort,
        way: Way,
    ) -> Fate {
        let candidates = self.candidates(service, port);
        let cluster = self.cluster_endpoints(&candidates);
        let local = self.local_endpoints(&candidates);
        if cluster.is_empty() {
            return Fate::NoEndpoint;
        }
        let is_local_pod = self.is_local_source(packet);
        let has_detector = is_local_pod.is_some();
        let is_local_pod = is_local_pod == Some(true);
        let to_cluster_ip = self.config.masquerade_all || (has_detector && !is_local_pod);
        // Some Service's ClusterIP, and an external IP, too.
        let at_cluster_ip = to_cluster_ip && self.is_cluster_ip(&packet.daddr);
        let (endpoints, masquerade) = match way {
            Way::ClusterIp => match service.internal_policy {
                TrafficPolicy::Cluster => (cluster, to_cluster_ip),
                TrafficPolicy::Local => (local, to_cluster_ip),
            },
            Way::External | Way::LoadBalancer => match service.external_policy {
                TrafficPolicy::Cluster => (cluster, true),
                TrafficPolicy::Local if is_local_pod => (cluster, at_cluster_ip),
                TrafficPolicy::Local if host.is_local(&packet.saddr) => (cluster, true),
                TrafficPolicy::Local => (local, at_cluster_ip),
            },
        };
        if endpoints.is_empty() {
            match (way, self.config.no_local_endpoint) {
                (Way::ClusterIp, NoLocalEndpoint::Reject) => Fate::NoEndpoint,
                _ => Fate::Drop,
            }
        } else {
            Fate::Deliver {
                endpoints,
                masquerade,
            }
        }
    }

    fn delivered(
        &self,
        packet: &Packet,
        host: &Host,
        endpoints: &[Chosen],
        masquerade: bool,
    ) -> BTreeSet<Verdict> {
        endpoints
            .iter()
            .map(
                |Chosen {
                     endpoint,
                     on_this_node,
                 }| {
                    if let Some(verdict) = self.stopped(packet, host, endpoint) {
                        return verdict;
                    }
                    let hairpin = packet.saddr == endpoint.address && *on_this_node;
                    // What arrives and stays here does not pass the postrouting hook.
                    let stays = packet.origin != Origin::Local && host.is_local(&endpoint.address);
                    let masqueraded = (masquerade || hairpin) && !stays;
                    Verdict::Delivered {
                        endpoint: *endpoint,
                        masqueraded,
                    }
                },
            )
            .collect()
    }

    /// Addresses are judged when packets are forwarded or leave, not when they arrive for this
    /// host.
    fn is_judged_by_address(&self, packet: &Packet, host: &Host) -> bool {
        packet.origin == Origin::Local || !host.is_local(&packet.daddr)
    }

    fn by_address(&self, address: &IpAddr) -> Verdict {
        if self.is_cluster_ip(address) {
            return Verdict::Rejected;
        }
        if self
            .cidrs
            .values()
            .flatten()
            .any(|cidr| cidr.contains(address))
        {
            return Verdict::Dropped;
        }
        Verdict::Untouched { masqueraded: false }
    }

    fn is_cluster_ip(&self, address: &IpAddr) -> bool {
        let mut services = self.services.values();
        services.any(|service| service.cluster_ips.contains(address))
    }

    /// Whether the source is a local pod; `None` if that cannot be told.
    fn is_local_source(&self, packet: &Packet) -> Option<bool> {
        let interface = |matches: &dyn Fn(&str) -> bool| match &packet.origin {
            Origin::Local => false,
            Origin::Interface(name) => matches(name),
        };
        match &self.config.local {
            LocalDetector::None => None,
            LocalDetector::Cidr(cidr) => self
                .is_ours(&cidr.addr())
                .then(|| cidr.contains(&packet.saddr)),
            LocalDetector::NodeCidr => {
                let cidrs = &self.node.as_ref()?.pod_cidrs;
                let cidr = cidrs.iter().find(|cidr| self.is_ours(&cidr.addr()))?;
                Some(cidr.contains(&packet.saddr))
            }
            LocalDetector::Iifname(name) => Some(interface(&|other| other == &**name)),
            LocalDetector::IifnamePrefix(name) => {
                Some(interface(&|other| other.starts_with(&**name)))
            }
        }
    }

    fn serves_node_ports(&self, address: &IpAddr, host: &Host) -> bool {
        let everywhere = host.is_local(address) && !address.is_loopback();
        let NodePortAddresses {
            primary,
            all,
            localhost,
            prefixes,
        } = &self.config.node_port_addresses;
        let node_ip = self.node.as_ref().map(|_| self.primary());
        let mut prefixes = prefixes
            .iter()
            .filter(|prefix| self.is_ours(&prefix.addr()))
            .peekable();
        // Until the Node is known, it may still turn out to have an address.
        let names_primary = *primary && node_ip != Some(None);
        let names_any = *localhost || names_primary || prefixes.peek().is_some();
        if *all || !names_any || prefixes.clone().any(|prefix| prefix.prefix_len() == 0) {
            return everywhere;
        }
        let has = |host: &Vec<IpAddr>| host.contains(address);
        let is_host = self.host_addresses.as_ref().map(has);
        let is_primary = *primary && node_ip.flatten() == Some(address) && is_host != Some(false);
        let is_named = is_host == Some(true)
            && !address.is_loopback()
            && prefixes.any(|prefix| prefix.contains(address));
        is_primary || is_named
    }

    fn is_ours(&self, address: &IpAddr) -> bool {
        Family::of(*address) == self.family
    }
}

fn way_to(service: &Service, address: &IpAddr) -> Option<Way> {
    if service.load_balancer_ips.contains(address) {
        return Some(Way::LoadBalancer);
    }
    if service.external_ips.contains(address) {
        return Some(Way::External);
    }
    let inside = service.cluster_ips.contains(address);
    inside.then_some(Way::ClusterIp)
}

/// The oldest Service wins, then the first by name.
fn precedence<'a>(
    service: &'a Service,
    port: &'a ServicePort,
) -> (u64, &'a ObjectName, &'a str, Protocol) {
    (
        service.created.unwrap_or(u64::MAX),
        &service.name,
        &port.name,
        port.protocol,
    )
}
