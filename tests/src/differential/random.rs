//! Made-up clusters and what happens to them.

mod manifests;

use std::collections::BTreeMap;

use anyhow::Result;
use netns_lab::Transport;
use proptest::{collection::vec, option, prelude::*, sample::select};

use self::manifests::{cluster_ip, external_ip, node, node_port_base, port_number, vip};
use super::trial::{Check, Trial, TrialStep};
use crate::scenario::{Family, NodeSpec, Target};

/// Hosts that send: name, address of each family.
const CLIENTS: [(&str, [&str; 2]); 3] = [
    ("pod", ["10.0.0.2", "fd00:10::2"]),
    // A pod of another node, on which no endpoint is.
    ("other", ["10.0.9.2", "fd00:10::9:2"]),
    ("external", ["203.0.113.2", "2001:db8:cafe::2"]),
];
/// Endpoints: name, node, address of each family.
const ENDPOINTS: [(&str, &str, [&str; 2]); 4] = [
    ("near1", "node-a", ["10.0.1.1", "fd00:10::1:1"]),
    ("near2", "node-a", ["10.0.1.2", "fd00:10::1:2"]),
    ("far1", "node-b", ["10.0.2.1", "fd00:10::2:1"]),
    ("far2", "node-b", ["10.0.2.2", "fd00:10::2:2"]),
];
const NODE: [&str; 2] = ["192.168.0.2", "2001:db8::1"];
const PODS: [&str; 2] = ["10.0.0.0/8", "fd00:10::/64"];
/// Ports that Services may have: name, protocol, port, node port less the Service's own. The last has
/// the number of another Service's node port.
const PORTS: [(&str, Transport, u16, u16); 5] = [
    ("web", Transport::Tcp, 80, 0),
    ("dns", Transport::Udp, 53, 1),
    ("tls", Transport::Tcp, 443, 2),
    ("sig", Transport::Sctp, 80, 3),
    ("met", Transport::Tcp, 0, 4),
];
/// Ports that endpoints answer on, for each of [`PORTS`].
const TARGETS: [u16; 2] = [8080, 8081];
/// Source ranges: pods, the external client, somebody else.
const RANGES: [[&str; 2]; 3] = [
    ["10.0.0.0/8", "fd00:10::/64"],
    ["203.0.113.0/25", "2001:db8:cafe::/48"],
    ["192.0.2.128/25", "2001:db8:7::/48"],
];
/// Services of a cluster.
const SERVICES: usize = 3;

/// A cluster and what happens to it.
#[derive(Debug, Clone)]
pub struct History {
    masquerade_all: bool,
    detector: bool,
    /// Each step changes a Service or its endpoints.
    steps: Vec<(usize, Change)>,
}

#[derive(Debug, Clone)]
enum Change {
    Service(Service),
    Endpoints(Endpoints),
    Delete,
    NoEndpoints,
}

#[derive(Debug, Clone)]
struct Service {
    kind: &'static str,
    /// Which of [`PORTS`].
    ports: [bool; PORTS.len()],
    internal_local: bool,
    external_local: bool,
    external_ip: bool,
    /// Its load balancer's mode, if it has an address.
    balancer: Option<&'static str>,
    /// The external and the load-balancer IP are its ClusterIP.
    one_address: [bool; 2],
    /// The external IP is the node's.
    at_node: bool,
    /// Who may reach that address: some of [`RANGES`].
    ranges: Option<usize>,
    /// Clients stick to endpoints.
    sticky: bool,
}

/// Of each of [`ENDPOINTS`] its state, if it is one of this Service's.
#[derive(Debug, Clone)]
struct Endpoints {
    states: [Option<State>; 4],
    /// One of them, if it is one, once more in another state.
    again: Option<(usize, State)>,
    /// Nobody says on which nodes they are.
    nodeless: bool,
    /// Which of [`TARGETS`].
    target: usize,
    /// Ports that the slices know.
    ports: [bool; PORTS.len()],
    /// Endpoints of the two nodes are in slices of their own.
    split: bool,
    hints: Hints,
}

/// ready, serving, terminating; the absent ones are left to default.
#[derive(Debug, Clone, Copy)]
struct State(&'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hints {
    None,
    /// Each endpoint for the zone of its node.
    Zones,
    /// Each endpoint for its node.
    Nodes,
    /// All for a zone in which nobody is.
    Elsewhere,
}

/// All histories.
pub fn histories() -> impl Strategy<Value = History> {
    let step = (0..SERVICES, changes());
    // Something to begin with, then changes of it.
    let first = (0..SERVICES, services().prop_map(Change::Service));
    (any::<bool>(), any::<bool>(), first, vec(step, 1..8)).prop_map(
        |(masquerade_all, detector, first, mut steps)| {
            steps.insert(0, first);
            History {
                masquerade_all,
                detector,
                steps,
            }
        },
    )
}

fn changes() -> impl Strategy<Value = Change> {
    prop_oneof![
        3 => services().prop_map(Change::Service),
        4 => endpoints().prop_map(Change::Endpoints),
        1 => Just(Change::Delete),
        1 => Just(Change::NoEndpoints),
    ]
}

fn services() -> impl Strategy<Value = Service> {
    (
        select(&["ClusterIP", "NodePort", "LoadBalancer"][..]),
        any::<[bool; PORTS.len()]>().prop_filter("no port", |ports| ports.contains(&true)),
        any::<bool>(),
        any::<bool>(),
        (any::<bool>(), prop::bool::weighted(0.25)),
        option::weighted(0.7, select(&["VIP", "VIP", "Proxy"][..])),
        proptest::array::uniform2(prop::bool::weighted(0.15)),
        option::weighted(0.4, 0..RANGES.len()),
        prop::bool::weighted(0.2),
    )
        .prop_map(
            |(
                kind,
                ports,
                internal_local,
                external_local,
                (external_ip, at_node),
                balancer,
                one_address,
                ranges,
                sticky,
            )| Service {
                kind,
                ports,
                internal_local,
                external_local,
                external_ip,
                balancer,
                one_address,
                at_node,
                ranges,
                sticky,
            },
        )
}

fn endpoints() -> impl Strategy<Value = Endpoints> {
    let state = prop_oneof![
        3 => Just(State("{}")),
        2 => Just(State("{ready: true, serving: true, terminating: false}")),
        1 => Just(State("{ready: false}")),
        1 => Just(State("{ready: false, serving: true, terminating: false}")),
        2 => Just(State("{ready: false, serving: true, terminating: true}")),
        1 => Just(State("{ready: false, serving: false, terminating: true}")),
    ];
    let states = proptest::array::uniform4(option::weighted(0.7, state.clone()));
    let again = option::weighted(0.2, (0..ENDPOINTS.len(), state));
    let nodeless = prop::bool::weighted(0.1);
    let known = proptest::array::uniform5(prop::bool::weighted(0.8));
    let hints = select(
        &[
            Hints::None,
            Hints::None,
            Hints::Zones,
            Hints::Nodes,
            Hints::Elsewhere,
        ][..],
    );
    let twists = (again, nodeless);
    (
        states,
        twists,
        0..TARGETS.len(),
        known,
        any::<bool>(),
        hints,
    )
        .prop_map(
            |(states, (again, nodeless), target, ports, split, hints)| Endpoints {
                states,
                again,
                nodeless,
                target,
                ports,
                split,
                hints,
            },
        )
}

impl History {
    /// The history as a trial.
    ///
    /// # Errors
    /// Never with the addresses above.
    pub fn trial(&self, family: Family) -> Result<Trial> {
        let of = usize::from(family == Family::Ipv6);
        let mut hosts = BTreeMap::new();
        for (name, addresses) in CLIENTS {
            hosts.insert(name.to_owned(), vec![addresses[of].parse()?]);
        }
        let mut serve = Vec::new();
        for (name, _, addresses) in ENDPOINTS {
            hosts.insert(name.to_owned(), vec![addresses[of].parse()?]);
            for port in TARGETS {
                for transport in [Transport::Tcp, Transport::Udp, Transport::Sctp] {
                    serve.push((name.to_owned(), transport, port));
                }
            }
        }
        let mut clusters = Clusters::new(of);
        let steps = self.steps.iter().map(|change| clusters.step(change));
        let mut steps = steps.collect::<Result<Vec<_>>>()?;
        if let Some(first) = steps.first_mut() {
            first.write.insert("node.yaml".to_owned(), node(of));
        }
        Ok(Trial {
            name: "random".to_owned(),
            family,
            node: NodeSpec {
                name: "node-a".to_owned(),
                addresses: vec![NODE[of].parse()?],
                cluster_cidr: self.detector.then(|| PODS[of].to_owned()),
                masquerade_all: self.masquerade_all,
                ..NodeSpec::default()
            },
            hosts,
            serve,
            steps,
        })
    }
}

/// What the cluster is like after each step.
struct Clusters {
    of: usize,
    services: [Option<Service>; SERVICES],
    endpoints: [Option<Endpoints>; SERVICES],
}

impl Clusters {
    const fn new(of: usize) -> Self {
        Self {
            of,
            services: [const { None }; SERVICES],
            endpoints: [const { None }; SERVICES],
        }
    }

    fn step(&mut self, (number, change): &(usize, Change)) -> Result<TrialStep> {
        let mut step = TrialStep {
            about: format!("{change:?} of {number}"),
            ..TrialStep::default()
        };
        let (service_file, slices_file) = (format!("svc{number}"), format!("slices{number}"));
        let (services, endpoints) = (&mut self.services[*number], &mut self.endpoints[*number]);
        match change {
            Change::Service(service) => {
                step.write
                    .insert(service_file, service.manifest(*number, self.of));
                *services = Some(service.clone());
            }
            Change::Endpoints(new) => {
                step.write
                    .insert(slices_file, new.manifests(*number, self.of));
                *endpoints = Some(new.clone());
            }
            Change::Delete => {
                if services.take().is_some() {
                    step.remove.push(service_file);
                }
            }
            Change::NoEndpoints => {
                if endpoints.take().is_some() {
                    step.remove.push(slices_file);
                }
            }
        }
        // The one that was changed, and another that must not be.
        for number in [*number, (number + 1) % SERVICES] {
            self.probe(number, &mut step)?;
        }
        Ok(step)
    }

    fn probe(&self, number: usize, step: &mut TrialStep) -> Result<()> {
        let present = self.endpoints[number].as_ref();
        let count = present.map_or(0, |it| it.states.iter().flatten().count());
        // One in a hundred misses an endpoint; what differs is looked at again.
        let tries = [3, 3, 9, 16, 24][count];
        let sticky = self.services[number].as_ref().is_some_and(|it| it.sticky);
        let endpoints = ENDPOINTS.iter().filter(|_| sticky);
        let sticks_to: Vec<_> = endpoints
            .flat_map(|(name, ..)| TARGETS.map(|port| ((*name).to_owned(), port)))
            .collect();
        let mut targets = Vec::new();
        for (name, transport, _, node_port) in PORTS {
            let port = port_number(number, name);
            let node_port = node_port_base(number) + node_port;
            let shared = [
                cluster_ip(number, self.of),
                external_ip(number, self.of),
                vip(number, self.of),
            ];
            // Every kind of frontend for some ports, each port for some kinds.
            let addresses = match name {
                "web" => &shared[..],
                "dns" => &shared[..2],
                _ => &shared[..1],
            };
            for address in addresses {
                targets.push((transport, address.clone(), port));
            }
            targets.push((transport, NODE[self.of].to_owned(), node_port));
            if name == "met" {
                targets.push((transport, NODE[self.of].to_owned(), port));
            }
        }
        for (transport, address, port) in targets {
            let to: Target = format!("{transport} {address} {port}").parse()?;
            let clients = CLIENTS.iter().map(|(name, _)| *name);
            for from in clients.chain(["node"]) {
                step.probes.push(Check {
                    id: format!("{from} to {transport} {address} {port}"),
                    from: from.to_owned(),
                    to,
                    tries,
                    sticks_to: sticks_to.clone(),
                });
            }
        }
        Ok(())
    }
}
