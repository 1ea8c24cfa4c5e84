//! What the engine does under load: each kind of change again and again, as fast as it goes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use anyhow::{Result, bail};
use ipnet::IpNet;
use kproxy::engine::Engine;
use smallvec::smallvec;
use svc_planner::{
    Config,
    object::{Change, Node, Protocol, Service},
    plan::{Family, Transaction},
};

use super::{Arena, Frontend, NODE_PORT, PODS, PORT};
use crate::{engine, objects};

/// A kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sequence {
    /// Two endpoints, one, two.
    Count,
    /// One of two endpoints is another one each time.
    Replacement,
    /// As many endpoints as never before, up to all: class chains come, and go when more are idle
    /// than are kept.
    Classes,
    /// Other Services come until the maps are replaced by bigger ones, and go.
    Growth,
    /// A new engine takes the table over, as after a restart, and tidies up.
    TakeOver,
    /// The address is a load balancer's, and its source ranges are other ones each time; the
    /// clients are in all of them.
    Admitted,
    /// The same, the clients are in none.
    Excluded,
}

const NODE: &str = "node";
/// Other Services that come and go, per cycle and in all, in [`Sequence::Growth`].
const STEP: u16 = 50;
const MOST: u16 = 2_000;
/// Number of the Service address that the flooded one has beside the flooded address when that is a
/// load balancer's.
const OWN_CLUSTER_IP: u16 = 1_000;
/// Groups of classes in [`Sequence::Classes`]: two together are more than are kept idle, the third
/// gives their chains time to go.
const WINDOWS: usize = 4;

/// An engine that serves the flooded Service and another one.
#[derive(Debug)]
pub struct Contender<'a> {
    arena: &'a Arena,
    engine: Engine,
    cycle: usize,
    started: Instant,
    made: Made,
    /// Clients of the flooded Service stick to endpoints.
    sticky: bool,
}

/// What was committed so far, to see that a sequence does what it is for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Made {
    /// Chains created.
    pub chains_added: usize,
    /// Chains deleted.
    pub chains_deleted: usize,
    /// Sets and maps created.
    pub sets_added: usize,
    /// Sets and maps deleted.
    pub sets_deleted: usize,
}

impl Made {
    fn add(&mut self, transaction: &Transaction) {
        self.chains_added += transaction.add_chains.len();
        self.chains_deleted += transaction.delete_chains.len();
        self.sets_added += transaction.add_sets.len();
        self.sets_deleted += transaction.delete_sets.len();
    }
}

impl<'a> Contender<'a> {
    /// Starts with two endpoints for the Service and one for the other.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn new(arena: &'a Arena) -> Result<Self> {
        Self::start(arena, false)
    }

    /// As [`new`](Self::new), for a Service whose clients stick to endpoints.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn sticky(arena: &'a Arena) -> Result<Self> {
        Self::start(arena, true)
    }

    fn start(arena: &'a Arena, sticky: bool) -> Result<Self> {
        let mut contender = Self {
            sticky,
            arena,
            engine: start(arena, 0)?,
            cycle: 0,
            started: Instant::now(),
            made: Made::default(),
        };
        contender.apply_all()?;
        engine::settle(&mut contender.engine)?;
        Ok(contender)
    }

    /// Makes one change of a kind, and commits what is due.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn cycle(&mut self, sequence: Sequence) -> Result<()> {
        self.cycle_with(sequence, |_| ())
    }

    /// Commits all that is due soon.
    ///
    /// # Errors
    /// When the engine fails.
    pub fn settle(&mut self) -> Result<()> {
        engine::settle(&mut self.engine)
    }

    /// As [`cycle`](Self::cycle), and shows what is committed.
    pub(super) fn cycle_with(
        &mut self,
        sequence: Sequence,
        mut committed: impl FnMut(Transaction),
    ) -> Result<()> {
        self.cycle += 1;
        let number = self.cycle;
        match sequence {
            Sequence::Count => self.endpoints(if number.is_multiple_of(2) {
                &[1, 2]
            } else {
                &[1]
            }),
            Sequence::Replacement => self.endpoints(match number % 3 {
                0 => &[1, 2],
                1 => &[1, 3],
                _ => &[2, 3],
            }),
            Sequence::Classes => {
                // A class must be out of use for a second before it may go.
                let window = usize::try_from(self.started.elapsed().as_millis())? / 1_200 % WINDOWS;
                let each = usize::from(PODS) / WINDOWS;
                let all: Vec<u8> = (1..=PODS).collect();
                self.endpoints(all.get(..=window * each + number % each).unwrap_or(&all));
            }
            Sequence::Growth => {
                // Maps never shrink; a new engine starts with small ones.
                if !self.others(number)? {
                    self.take_over(number)?;
                }
            }
            Sequence::TakeOver => {
                self.take_over(number)?;
            }
            Sequence::Admitted | Sequence::Excluded => {
                self.restrict(number, sequence == Sequence::Admitted)?;
                return self.settle();
            }
        }
        let made = &mut self.made;
        self.engine.sync(|_, transaction| {
            made.add(transaction);
            committed(transaction.clone());
        })?;
        Ok(())
    }

    /// What was committed so far by cycles.
    #[must_use]
    pub const fn made(&self) -> Made {
        self.made
    }

    /// Makes the flooded address a load balancer's with ranges that were never there before.
    fn restrict(&mut self, number: usize, admit: bool) -> Result<()> {
        let mut service = self.beside()?;
        service.load_balancer_ips.push(self.arena.service());
        let everywhere = self.arena.client_ranges();
        let number = u32::try_from(number)?;
        let changing = match self.arena.family() {
            Family::Ipv4 => IpNet::new(Ipv4Addr::from(0x0b00_0000 | number).into(), 32)?,
            Family::Ipv6 => IpNet::new(Ipv6Addr::from(u128::from(number) << 64).into(), 128)?,
        };
        service.source_ranges.push(changing);
        if admit {
            service.source_ranges.extend(everywhere);
        }
        self.engine.apply(Change::Service(service));
        Ok(())
    }

    fn take_over(&mut self, number: usize) -> Result<()> {
        self.engine = start(self.arena, u32::try_from(number)?)?;
        self.engine.adopt(None)?;
        self.apply_all()?;
        let made = &mut self.made;
        engine::rest(&mut self.engine, |transaction| made.add(transaction))
    }

    fn apply_all(&mut self) -> Result<()> {
        let node = self.arena.node();
        self.engine.apply(Change::HostAddresses([node].into()));
        self.engine.apply(Change::Node(Node {
            name: NODE.into(),
            addresses: smallvec![node],
            pod_cidrs: smallvec![],
            zone: None,
            eligible: true,
        }));
        self.engine.apply(self.flooded()?);
        self.engine.apply(Change::Service(service(self.arena, 1)?));
        self.endpoints(&[1, 2]);
        self.engine.apply(slice(1, &[self.arena.other_pod()]));
        Ok(())
    }

    fn flooded(&self) -> Result<Change> {
        let mut flooded = match self.arena.frontend() {
            Frontend::ClusterIp => service(self.arena, 0)?,
            Frontend::NodePort => {
                let mut flooded = self.beside()?;
                for port in &mut flooded.ports {
                    port.node_port = NODE_PORT;
                }
                flooded
            }
            Frontend::LoadBalancer => {
                let mut flooded = self.beside()?;
                flooded.load_balancer_ips.push(self.arena.service());
                flooded
            }
        };
        flooded.affinity = self.sticky.then_some(600);
        Ok(Change::Service(flooded))
    }

    /// The flooded Service with a ClusterIP that is not what is flooded.
    fn beside(&self) -> Result<Service> {
        made(&name(0), self.arena.other_service(OWN_CLUSTER_IP))
    }

    fn endpoints(&mut self, pods: &[u8]) {
        let addresses: Vec<_> = pods.iter().map(|&pod| self.arena.pod(pod)).collect();
        self.engine.apply(slice(0, &addresses));
    }

    /// Adds or removes the next few other Services: up to the most, then down again. False when a
    /// new round begins.
    fn others(&mut self, number: usize) -> Result<bool> {
        let steps = usize::from(MOST / STEP);
        let (step, add) = match number % (2 * steps + 1) {
            step if step < steps => (step, true),
            step if step < 2 * steps => (step - steps, false),
            _ => return Ok(false),
        };
        let first = 2 + u16::try_from(step).unwrap_or_default() * STEP;
        for other in first..first + STEP {
            if add {
                self.engine
                    .apply(Change::Service(service(self.arena, other)?));
                self.engine.apply(slice(other, &[self.arena.other_pod()]));
            } else {
                self.engine
                    .apply(Change::ServiceGone(objects::name(&name(other))));
                self.engine
                    .apply(Change::EndpointSliceGone(objects::name(&name(other))));
            }
        }
        Ok(true)
    }
}

fn start(arena: &Arena, instance: u32) -> Result<Engine> {
    engine::start(arena.topology.node(), |_| Config {
        node_name: NODE.into(),
        instance,
        ..Config::default()
    })
}

/// Name of a Service; 0 is the one that is flooded.
fn name(number: u16) -> String {
    format!("service-{number}")
}

fn service(arena: &Arena, number: u16) -> Result<Service> {
    let address = if number == 0 {
        arena.service()
    } else {
        arena.other_service(number)
    };
    made(&name(number), address)
}

fn made(name: &str, address: IpAddr) -> Result<Service> {
    match objects::service(name, address, &[Protocol::Udp], PORT) {
        Change::Service(service) => Ok(service),
        _ => bail!("not a Service"),
    }
}

fn slice(number: u16, addresses: &[IpAddr]) -> Change {
    objects::slice(&name(number), addresses, &[Protocol::Udp], PORT)
}
