//! A small cluster that changes at random, and what packets to it must come to.

use core::net::IpAddr;
use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use e2e::{dice::Dice, objects};
use kproxy::{
    engine::{Engine, StateDir, TABLE},
    explain::LiveState,
    lower::nf_family,
};
use nft_batch::{Connection, Transport};
use svc_planner::{
    Config,
    fake::{Host, Packet, oracle::Oracle},
    object::{Algorithm, Change, ObjectName, Protocol, Service, ServicePort, TrafficPolicy},
    plan::Family,
};

pub(crate) const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];
const SERVICES: u64 = 12;
const PODS: u64 = 6;
const PORT: u16 = 80;
const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];

/// See the module.
pub(crate) struct Cluster {
    oracles: [Oracle; 2],
}

impl Cluster {
    pub(crate) fn new() -> Self {
        Self {
            oracles: FAMILIES.map(|family| Oracle::new(family, config(family))),
        }
    }

    /// A change at random; it is in the cluster from here on.
    pub(crate) fn change(&mut self, dice: &mut Dice) -> Change {
        let change = random_change(dice);
        self.apply(change.clone());
        change
    }

    fn apply(&mut self, change: Change) {
        for oracle in &mut self.oracles {
            oracle.apply(change.clone());
        }
    }

    /// What makes an empty cluster this one.
    pub(crate) fn changes(&self) -> Vec<Change> {
        self.oracles[0].changes()
    }

    /// The kernel decides every packet as Kubernetes wants.
    pub(crate) fn check_packets(&self) -> Result<()> {
        let mut connection = Connection::open()?;
        let host = Host::new([]);
        for (family, oracle) in FAMILIES.into_iter().zip(&self.oracles) {
            for packet in packets(family) {
                let live = LiveState::read(&mut connection, &packet, &host)
                    .with_context(|| packet.to_string())?;
                let outcomes = live.kernel.outcomes(&packet, &host).into_iter();
                let seen: BTreeSet<_> = outcomes.map(|(outcome, _)| outcome.verdict).collect();
                let wanted = oracle.verdicts(&packet, &host);
                ensure!(seen == wanted, "{packet}: {seen:?}, not {wanted:?}");
            }
        }
        Ok(())
    }

    /// A process that knows nothing but what was written down finds every row in its place.
    pub(crate) fn check_saved(&self, state: &StateDir) -> Result<()> {
        let mut engine = Engine::new(Connection::open()?, config);
        engine.adopt(Some(state))?;
        for change in self.changes() {
            engine.apply(change);
        }
        let found = engine.dry_run()?;
        ensure!(found.is_empty(), "still to be done: {found:?}");
        Ok(())
    }
}

pub(crate) fn config(_family: Family) -> Config {
    Config::default()
}

/// Names of sets, without the number of their generation.
pub(crate) fn sets<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
) -> Result<Vec<String>> {
    let mut sets = Vec::new();
    connection.dump_sets(nf_family(family), TABLE, |set| {
        let name = set.name.and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.rsplit_once('-');
        let stem = stem.filter(|(_, number)| number.parse::<u32>().is_ok());
        sets.push(stem.map_or(name, |(stem, _)| stem).to_owned());
    })?;
    sets.sort();
    Ok(sets)
}

fn address(family: Family, net: u8, host: u64) -> IpAddr {
    let host = u8::try_from(host).unwrap_or(u8::MAX);
    match family {
        Family::Ipv4 => IpAddr::from([10, net, 0, host]),
        Family::Ipv6 => IpAddr::from([0xfd00, 0x10, 0, 0, 0, 0, net.into(), host.into()]),
    }
}

fn random_change(dice: &mut Dice) -> Change {
    let number = dice.below(SERVICES);
    let name = format!("s{number}");
    match dice.below(10) {
        0 => Change::ServiceGone(objects::name(&name)),
        1 => Change::EndpointSliceGone(slice_name(&name, dice.below(2))),
        2..=4 => service(dice, number, &name),
        _ => {
            let family = FAMILIES[usize::from(dice.one_in(2))];
            slice(dice, family, &name)
        }
    }
}

fn slice_name(service: &str, family: u64) -> ObjectName {
    objects::name(&format!(
        "{service}-{}",
        if family == 0 { "ipv4" } else { "ipv6" }
    ))
}

fn service(dice: &mut Dice, number: u64, name: &str) -> Change {
    let port = |protocol: Protocol| ServicePort {
        name: format!("{protocol:?}").to_lowercase().into(),
        protocol,
        port: PORT,
        node_port: 0,
    };
    let external = dice.one_in(3);
    Change::Service(Service {
        name: objects::name(name),
        created: Some(number),
        uid: None,
        cluster_ips: FAMILIES
            .map(|it| address(it, 96, number))
            .into_iter()
            .collect(),
        external_ips: FAMILIES
            .into_iter()
            .filter(|_| external)
            .map(|family| address(family, 198, number))
            .collect(),
        load_balancer_ips: [].into_iter().collect(),
        source_ranges: [].into_iter().collect(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: dice.one_in(5).then_some(600),
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: PROTOCOLS.map(port).into_iter().collect(),
    })
}

fn slice(dice: &mut Dice, family: Family, service: &str) -> Change {
    let pods: Vec<IpAddr> = (1..=PODS)
        .filter(|_| dice.one_in(2))
        .map(|pod| address(family, 1, pod))
        .collect();
    let change = objects::slice(service, &pods, &PROTOCOLS, 8080);
    let Change::EndpointSlice(mut slice) = change else {
        return change;
    };
    slice.name = slice_name(service, u64::from(family == Family::Ipv6));
    Change::EndpointSlice(slice)
}

/// To every address that a Service may have, and some that none has.
fn packets(family: Family) -> Vec<Packet> {
    let client = address(family, 9, 1);
    let mut packets = Vec::new();
    for number in 0..=SERVICES {
        for net in [96, 198] {
            for protocol in PROTOCOLS {
                for port in [PORT, 81] {
                    let to = address(family, net, number);
                    packets.push(Packet::arriving("eth0", client, to, protocol, port));
                }
            }
        }
    }
    packets
}
