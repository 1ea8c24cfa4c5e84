//! The sample cluster: its objects, and the hosts they call for.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeMap;

use netns_lab::{Topology, Transport};
use svc_planner::object::{Change, EndpointSlice, ObjectName, Protocol, Service};
use svc_planner::plan::Family;

use super::DemoError;
use crate::{
    family::{is_present, present_families},
    manifest::Source,
};

/// The own node's name in the manifests.
pub(super) const NODE: &str = "demo-node";
/// A host on the node's network that sends the traffic.
pub(super) const CLIENT: &str = "client";

const MANIFESTS: &str = include_str!("manifests.yaml");
const CLIENT_ADDRESSES: [&str; 2] = ["10.244.0.100", "fd00:244::100"];

/// A Service's address and port, and what should answer there.
#[derive(Debug, Clone)]
pub(super) struct Frontend {
    /// Service and port name.
    pub(super) service: Box<str>,
    /// How to send.
    pub(super) transport: Transport,
    /// Where to.
    pub(super) address: SocketAddr,
    /// Names of the pods behind it.
    pub(super) pods: Vec<Box<str>>,
}

/// Objects, hosts and what to expect.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) changes: Vec<Change>,
    pub(super) frontends: Vec<Frontend>,
    node: Vec<IpAddr>,
    pods: BTreeMap<Box<str>, Vec<IpAddr>>,
    /// Pod, transport and port that must answer.
    served: Vec<(Box<str>, Transport, u16)>,
}

impl Cluster {
    /// Reads the embedded manifests.
    pub(super) fn read() -> Result<Self, DemoError> {
        let mut source = Source::new(NODE);
        let mut changes = Vec::new();
        source.load_text("demo", MANIFESTS.to_owned(), |change| changes.push(change));
        if let Some(problem) = source.take_problems().into_iter().next() {
            return Err(DemoError::Manifest(problem.to_string().into()));
        }
        Ok(Self::from_changes(changes, &present_families()))
    }

    /// What is of other families is left out.
    fn from_changes(changes: Vec<Change>, families: &[Family]) -> Self {
        let has = |address: &IpAddr| families.contains(&Family::of(*address));
        let mut node = Vec::new();
        let mut pods = BTreeMap::<Box<str>, Vec<IpAddr>>::new();
        let mut served = Vec::new();
        let mut services = Vec::new();
        let mut slices = Vec::new();
        for change in &changes {
            match change {
                Change::Node(own) => node.extend(own.addresses.iter().copied().filter(has)),
                Change::Service(service) => services.push(service),
                Change::EndpointSlice(slice) => slices.push(slice),
                _ => {}
            }
        }
        for slice in &slices {
            for (name, address) in pods_of(slice).filter(|(_, address)| has(address)) {
                for port in &slice.ports {
                    served.push((name.clone(), transport(port.protocol), port.port));
                }
                pods.entry(name).or_default().push(address);
            }
        }
        let frontends = services
            .iter()
            .flat_map(|service| frontends_of(service, &slices))
            .filter(|frontend| has(&frontend.address.ip()))
            .collect();
        Self {
            changes,
            frontends,
            node,
            pods,
            served,
        }
    }

    /// Builds the network with every pod answering.
    pub(super) fn build(&self) -> Result<Topology, DemoError> {
        let client: Result<Vec<IpAddr>, _> = CLIENT_ADDRESSES
            .iter()
            .map(|address| address.parse())
            .collect();
        let mut client = client.map_err(|error| DemoError::Manifest(error.to_string().into()))?;
        client.retain(|address| is_present(Family::of(*address)));
        let mut builder = Topology::builder()
            .node(self.node.iter().copied())
            .host(CLIENT, client);
        for (name, addresses) in &self.pods {
            builder = builder.host(name, addresses.iter().copied());
        }
        let topology = builder.build()?;
        for (pod, transport, port) in &self.served {
            topology.serve(pod, *transport, *port)?;
        }
        Ok(topology)
    }

    /// Number of pods.
    pub(super) fn pods(&self) -> usize {
        self.pods.len()
    }

    /// Number of Services.
    pub(super) fn services(&self) -> usize {
        self.changes
            .iter()
            .filter(|change| matches!(change, Change::Service(_)))
            .count()
    }
}

/// The pods of a slice: named after the Service, numbered as they come in it. The slices of both
/// families list them in the same order.
fn pods_of(slice: &EndpointSlice) -> impl Iterator<Item = (Box<str>, IpAddr)> {
    (1u32..).zip(&slice.endpoints).map(|(number, endpoint)| {
        (
            format!("{}-{number}", slice.service).into_boxed_str(),
            endpoint.address,
        )
    })
}

fn frontends_of(service: &Service, slices: &[&EndpointSlice]) -> Vec<Frontend> {
    let mut frontends = Vec::new();
    let ObjectName { namespace, name } = &service.name;
    for port in &service.ports {
        for address in &service.cluster_ips {
            let pods = slices
                .iter()
                .filter(|slice| slice.service == *name && slice.name.namespace == *namespace)
                .flat_map(|slice| pods_of(slice))
                .filter(|(_, pod)| pod.is_ipv4() == address.is_ipv4())
                .map(|(name, _)| name)
                .collect();
            frontends.push(Frontend {
                service: format!("{namespace}/{name}:{}", port.name).into(),
                transport: transport(port.protocol),
                address: SocketAddr::new(*address, port.port),
                pods,
            });
        }
    }
    frontends
}

const fn transport(protocol: Protocol) -> Transport {
    match protocol {
        Protocol::Udp => Transport::Udp,
        Protocol::Sctp => Transport::Sctp,
        _ => Transport::Tcp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_with_one_family_shows_that_one() {
        let mut source = Source::new(NODE);
        let mut changes = Vec::new();
        source.load_text("demo", MANIFESTS.to_owned(), |change| changes.push(change));
        let both = Cluster::from_changes(changes.clone(), &[Family::Ipv4, Family::Ipv6]);
        for family in [Family::Ipv4, Family::Ipv6] {
            let one = Cluster::from_changes(changes.clone(), &[family]);
            let addresses = one.pods.values().flatten().chain(&one.node);
            let frontends = one.frontends.iter().map(|it| it.address.ip());
            let mut addresses = addresses.copied().chain(frontends);
            assert!(addresses.all(|address| Family::of(address) == family));
            assert_eq!(one.frontends.len() * 2, both.frontends.len());
        }
    }
}
