//! New flows on one CPU, commits on another: what do packets see in between?

mod contender;
mod control;
mod replay;

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::time::Instant;

use anyhow::Result;
use ipnet::IpNet;
use netns_lab::{SINK, Topology};
use svc_planner::plan::Family;

use crate::flood::{Flood, Pinned, Sent, arrivals, count_arrivals, count_deliveries};

pub use contender::{Contender, Made, Sequence};
pub use control::Control;
pub use replay::Replay;

/// Where the flows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    /// From a client, forwarded by the node.
    Prerouting,
    /// From the node itself.
    Output,
}

/// What is flooded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frontend {
    /// A Service's ClusterIP.
    ClusterIp,
    /// Its node port.
    NodePort,
    /// Its load balancer's address.
    LoadBalancer,
}

/// Pods behind the Service that is flooded.
pub const OWN: [&str; 3] = ["own-1", "own-2", "own-3"];
/// Addresses of these pods, numbered from 1 and dealt out in turn.
pub const PODS: u8 = 196;
/// Pod behind another Service.
pub const OTHER: &str = "other-1";
/// Port of both Services and of their endpoints.
pub const PORT: u16 = 80;
/// Node port of the Service that is flooded, if that is what is flooded.
const NODE_PORT: u16 = 30_080;

const OTHER_POD: u8 = 200;
const CLIENT: &str = "client";
/// Source addresses, enough for two million flows.
const SOURCES: u8 = 32;

/// A node, a client that floods an address of a Service, the pods that serve it, a pod that does not.
#[derive(Debug)]
pub struct Arena {
    /// The network.
    pub topology: Topology,
    family: Family,
    hook: Hook,
    frontend: Frontend,
}

/// Where the flows of a race went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Flows sent.
    pub sent: u64,
    /// Refused by the send call: dropped on the way out.
    pub refused: u64,
    /// Reached a pod of the Service.
    pub served: u64,
    /// Left the node untranslated, or ended there.
    pub missed: u64,
    /// Reached a pod of another Service.
    pub foreign: u64,
    /// Times the change under test was made.
    pub cycles: u64,
}

impl Arena {
    /// Builds it.
    ///
    /// # Errors
    /// When the laboratory cannot be built.
    pub fn new(family: Family, hook: Hook, frontend: Frontend) -> Result<Self> {
        let node = (1..=SOURCES).map(|number| node(family, number));
        let clients = (1..=SOURCES).map(|number| client(family, number));
        let mut builder = Topology::builder().node(node).host(CLIENT, clients);
        for (index, name) in (0u8..).zip(OWN) {
            let numbers = (1..=PODS).filter(|number| (number - 1) % 3 == index);
            builder = builder.host(name, numbers.map(|number| pod(family, number)));
        }
        let topology = builder.host(OTHER, [pod(family, OTHER_POD)]).build()?;
        // Nobody answers, so the entries would stay for long; the table has room for some 10⁵.
        topology
            .node()
            .run(|| std::fs::write("/proc/sys/net/netfilter/nf_conntrack_udp_timeout", "1"))??;
        for host in OWN.into_iter().chain([OTHER, SINK]) {
            count_arrivals(topology.host(host)?.namespace())?;
        }
        count_deliveries(topology.node(), NODE_PORT)?;
        Ok(Self {
            topology,
            family,
            hook,
            frontend,
        })
    }

    /// Address of the Service that is flooded; of its node port, the node's.
    #[must_use]
    pub fn service(&self) -> IpAddr {
        match self.frontend {
            Frontend::ClusterIp | Frontend::LoadBalancer => vip(self.family, 41),
            Frontend::NodePort => self.node(),
        }
    }

    /// The node's address, as its Node says.
    #[must_use]
    pub fn node(&self) -> IpAddr {
        node(self.family, 1)
    }

    /// Address of another Service, number 1 to 2^16.
    #[must_use]
    pub fn other_service(&self, number: u16) -> IpAddr {
        vip(self.family, 256 + u32::from(number))
    }

    /// Address number 1 to [`PODS`] of the Service's pods; the first three are of different pods.
    #[must_use]
    pub fn pod(&self, number: u8) -> IpAddr {
        pod(self.family, number)
    }

    /// Address of the pod of the other Service.
    #[must_use]
    pub fn other_pod(&self) -> IpAddr {
        pod(self.family, OTHER_POD)
    }

    /// Ranges that all sources of the flood are in, from the network and from the node.
    #[must_use]
    pub fn client_ranges(&self) -> [IpNet; 2] {
        let length = match self.family {
            Family::Ipv4 => 24,
            Family::Ipv6 => 64,
        };
        [client(self.family, 1), node(self.family, 1)]
            .map(|address| IpNet::new_assert(address, length).trunc())
    }

    /// What is flooded.
    #[must_use]
    pub const fn frontend(&self) -> Frontend {
        self.frontend
    }

    /// Its family.
    #[must_use]
    pub const fn family(&self) -> Family {
        self.family
    }

    /// Floods the Service with new flows, up to `flows` and no longer than `time`, while `cycle` is
    /// called again and again on another CPU, and tells where they went.
    ///
    /// # Errors
    /// When the flood or a cycle fails.
    pub fn race(
        &self,
        flows: u64,
        time: Duration,
        mut cycle: impl FnMut() -> Result<()>,
    ) -> Result<Tally> {
        let before = self.arrived()?;
        let (namespace, sources): (_, Vec<IpAddr>) = match self.hook {
            Hook::Prerouting => (
                self.topology.host(CLIENT)?.namespace(),
                (1..=SOURCES)
                    .map(|number| client(self.family, number))
                    .collect(),
            ),
            Hook::Output => (
                self.topology.node(),
                (1..=SOURCES)
                    .map(|number| node(self.family, number))
                    .collect(),
            ),
        };
        let port = match self.frontend {
            Frontend::ClusterIp | Frontend::LoadBalancer => PORT,
            Frontend::NodePort => NODE_PORT,
        };
        let target = SocketAddr::new(self.service(), port);
        let _pinned = Pinned::to(1)?;
        let started = Instant::now();
        let flood = Flood::start(namespace.handle(), sources, vec![target], flows, 0)?;
        let mut cycles = 0u64;
        let mut outcome = Ok(());
        while outcome.is_ok() && !flood.is_over() && started.elapsed() < time {
            outcome = cycle();
            cycles += 1;
        }
        let Sent {
            flows: sent,
            refused,
            ..
        } = flood.finish()?;
        outcome?;
        let after = self.arrived()?;
        let [served, missed, foreign] = [0, 1, 2].map(|index| after[index] - before[index]);
        Ok(Tally {
            sent,
            refused,
            served,
            missed,
            foreign,
            cycles,
        })
    }

    /// At the Service's pods; at the sink or the node itself; at the other pod.
    fn arrived(&self) -> Result<[u64; 3]> {
        let at = |host: &str| arrivals(self.topology.host(host)?.namespace());
        let served = OWN.iter().map(|host| at(host)).sum::<Result<u64>>()?;
        let missed = at(SINK)? + arrivals(self.topology.node())?;
        Ok([served, missed, at(OTHER)?])
    }
}

fn node(family: Family, number: u8) -> IpAddr {
    address(
        family,
        [192, 168, 0, number],
        [0x2001, 0xdb8, 0, 1],
        u32::from(number),
    )
}

fn client(family: Family, number: u8) -> IpAddr {
    address(
        family,
        [203, 0, 113, number],
        [0x2001, 0xdb8, 0, 2],
        u32::from(number),
    )
}

fn pod(family: Family, number: u8) -> IpAddr {
    address(
        family,
        [10, 0, 1, number],
        [0xfd00, 0x10, 0, 1],
        u32::from(number),
    )
}

fn vip(family: Family, number: u32) -> IpAddr {
    let [_, b, c, d] = number.to_be_bytes();
    address(family, [172, 16 + b, c, d], [0xfd00, 0x10, 0, 0x96], number)
}

fn address(family: Family, four: [u8; 4], six: [u16; 4], number: u32) -> IpAddr {
    match family {
        Family::Ipv4 => four.into(),
        Family::Ipv6 => {
            let [a, b, c, d] = number.to_be_bytes();
            let low = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
            [six[0], six[1], six[2], six[3], 0, 0, low[0], low[1]].into()
        }
    }
}
