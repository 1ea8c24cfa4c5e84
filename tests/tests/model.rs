//! Some of the random clusters and histories on which the planner's properties are checked, sent
//! through the running kernel: what becomes of connections is what the model oracle says. A failure
//! names its seed; with `KPROXY_SEED=SEED` only that case is run.
#![allow(
    clippy::unwrap_used,
    reason = "how the generator, shared with the planner's tests, fails"
)]

use core::{net::IpAddr, time::Duration};
use std::{collections::BTreeSet, env};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use cluster::Action;
use e2e::engine;
use netns_lab::{self as lab, Probe, SINK, Topology, Transport};
use proptest::{
    strategy::{Strategy, ValueTree as _},
    test_runner::{Config as RunnerConfig, RngAlgorithm, TestRng, TestRunner},
};
use svc_planner::{
    Config,
    config::LocalDetector,
    fake::{self, Origin, Packet, Verdict, oracle::Oracle},
    object::Protocol,
    plan::Family,
};

#[allow(dead_code, reason = "the planner's tests use more of it")]
#[path = "../../crates/svc-planner/tests/planner/cluster.rs"]
mod cluster;
#[allow(dead_code, reason = "the planner's tests use more of it")]
#[path = "../../crates/svc-planner/tests/planner/packets.rs"]
mod packets;

/// Cases of each family, by default and with `KPROXY_LONG=1`.
const CASES: [u64; 2] = [8, 200];
/// Probes of each case.
const PROBES: usize = 40;
/// How often a probe is repeated: endpoints share them.
const TRIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to listen for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(300);

/// Hosts by the names of the interfaces that packets of the model arrive on.
const SENDERS: [(&str, &str); 3] = [("cni0", "a-pod1"), ("cni1", "a-pod2"), ("eth0", "client")];

#[test]
fn the_kernel_does_what_the_oracle_says_ipv4() -> Result<()> {
    run_all(Family::Ipv4)
}

#[test]
fn the_kernel_does_what_the_oracle_says_ipv6() -> Result<()> {
    run_all(Family::Ipv6)
}

fn run_all(family: Family) -> Result<()> {
    let only: Option<u64> = env::var("KPROXY_SEED")
        .ok()
        .map(|seed| seed.parse())
        .transpose()?;
    let [short, long] = CASES;
    let cases = if env::var_os("KPROXY_LONG").is_some() {
        long
    } else {
        short
    };
    let seeds = only.map_or(1..=cases, |seed| seed..=seed);
    let mut seen = BTreeSet::new();
    for seed in seeds {
        run(family, seed, &mut seen)
            .with_context(|| format!("{family:?}, to run it again: KPROXY_SEED={seed}"))?;
    }
    // Cases in which nothing is served prove nothing.
    ensure!(only.is_some() || seen.len() >= 4, "only seen: {seen:?}");
    Ok(())
}

fn run(family: Family, seed: u64, seen: &mut BTreeSet<&'static str>) -> Result<()> {
    let mut runner = runner(seed);
    let mut config = draw(&cluster::config(family), &mut runner)?;
    let history = draw(&cluster::history(family), &mut runner)?;
    let topology = topology(family)?;
    let pod_link = topology.interface(SENDERS[0].1)?;
    config.local = match config.local {
        LocalDetector::Iifname(_) => LocalDetector::Iifname(pod_link.as_str().into()),
        LocalDetector::IifnamePrefix(_) => LocalDetector::IifnamePrefix(pod_link.as_str().into()),
        other => other,
    };
    let mut oracle = Oracle::new(family, config.clone());
    play(&topology, family, &config, history, &mut oracle)?;
    let host = cluster::host(family);
    for packet in sample(family, seed, &topology)? {
        let from = sender(&topology, &packet)?;
        let expected = oracle.verdicts(&packet, &host);
        for _ in 0..TRIES {
            let (name, told) = probe(&topology, &from, &packet, &host, &expected)?;
            ensure!(
                told,
                "{packet} from {from}: {name}, not one of {expected:?}"
            );
            seen.insert(name);
        }
    }
    Ok(())
}

fn runner(seed: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    TestRunner::new_with_rng(RunnerConfig::default(), rng)
}

fn draw<S: Strategy>(strategy: &S, runner: &mut TestRunner) -> Result<S::Value> {
    let tree = strategy.new_tree(runner);
    Ok(tree.map_err(|why| anyhow!("{why}"))?.current())
}

/// The hosts of the model: senders that are pods or not, and all other pods.
fn topology(family: Family) -> Result<Topology> {
    let host = cluster::host(family);
    let own = host.local.iter().map(ipnet::IpNet::addr);
    let own = own.filter(|ip| !ip.is_loopback());
    let mut builder = Topology::builder().node(own);
    for (interface, name) in SENDERS {
        builder = builder.host(name, [address_of(family, interface)?]);
    }
    let pods = (1..=cluster::PODS).map(|number| cluster::pod(family, number).0);
    let sending: Vec<IpAddr> = SENDERS
        .iter()
        .map(|(interface, _)| address_of(family, interface))
        .collect::<Result<_>>()?;
    let others = pods.filter(|pod| !sending.contains(pod) && !host.is_local(pod));
    for (number, pod) in others.enumerate() {
        builder = builder.host(&format!("pod-{number}"), [pod]);
    }
    let topology = builder.build()?;
    let hosts = topology.hosts().iter().map(lab::Host::name);
    for name in hosts.filter(|name| *name != SINK).chain(["node"]) {
        for transport in [Transport::Tcp, Transport::Udp, Transport::Sctp] {
            for port in cluster::TARGET_PORTS {
                topology.serve(name, transport, port)?;
            }
        }
    }
    Ok(topology)
}

/// Address from which packets of the model come by an interface.
fn address_of(family: Family, interface: &str) -> Result<IpAddr> {
    let packets = packets::packets(family);
    let by = |packet: &&Packet| matches!(&packet.origin, Origin::Interface(name) if **name == *interface);
    let packet = packets.iter().find(by);
    Ok(packet
        .with_context(|| format!("nothing comes by {interface}"))?
        .saddr)
}

/// Plays a history: engines come and go with it.
fn play(
    topology: &Topology,
    family: Family,
    config: &Config,
    history: Vec<Action>,
    oracle: &mut Oracle,
) -> Result<()> {
    let start = |instance: u32| {
        engine::start(topology.node(), |of| Config {
            instance,
            local: if of == family {
                config.local.clone()
            } else {
                LocalDetector::None
            },
            ..config.clone()
        })
    };
    let mut running = start(0)?;
    let mut instance = 0;
    for action in history {
        match action {
            Action::Change(change) => {
                oracle.apply((*change).clone());
                running.apply(*change);
            }
            Action::Commit | Action::Settle => {
                running.sync(|_, _| ())?;
            }
            Action::Drain => engine::settle(&mut running)?,
            Action::Restart => {
                instance += 1;
                running = start(instance)?;
                running.adopt(None)?;
                for change in oracle.changes() {
                    running.apply(change);
                }
            }
            _ => {}
        }
    }
    engine::settle(&mut running)
}

/// Some of the model's packets, from where they can be sent in the laboratory.
fn sample(family: Family, seed: u64, topology: &Topology) -> Result<Vec<Packet>> {
    let node = topology.node_addresses();
    let mut all = packets::packets(family);
    all.retain(|packet| {
        let from_here = node.first() == Some(&packet.saddr);
        !packet.daddr.is_loopback() && (packet.origin != Origin::Local || from_here)
    });
    let mut state = seed.wrapping_mul(2) | 1;
    let mut sample = Vec::new();
    while sample.len() < PROBES && !all.is_empty() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 33)? % all.len();
        let mut packet = all.swap_remove(at);
        if let Origin::Interface(name) = &packet.origin {
            let host = SENDERS.iter().find(|(interface, _)| **interface == **name);
            let (_, host) = host.with_context(|| format!("nobody sends by {name}"))?;
            packet.origin = Origin::Interface(topology.interface(host)?.into());
        }
        sample.push(packet);
    }
    Ok(sample)
}

fn sender(topology: &Topology, packet: &Packet) -> Result<String> {
    if packet.origin == Origin::Local {
        return Ok("node".to_owned());
    }
    let has = |host: &&lab::Host| host.addresses().contains(&packet.saddr);
    let host = topology.hosts().iter().find(has);
    Ok(host.with_context(|| packet.to_string())?.name().to_owned())
}

/// Sends a packet: what became of it, and whether that was expected.
fn probe(
    topology: &Topology,
    from: &str,
    packet: &Packet,
    host: &fake::Host,
    expected: &BTreeSet<Verdict>,
) -> Result<(&'static str, bool)> {
    let fake::Transport::Ports {
        protocol,
        destination,
        ..
    } = packet.transport
    else {
        bail!("{packet} has no ports");
    };
    let transport = match protocol {
        Protocol::Tcp => Transport::Tcp,
        Protocol::Udp => Transport::Udp,
        _ => Transport::Sctp,
    };
    let to = (packet.daddr, destination).into();
    // What a stack answers on whose ports nothing listens.
    let untouched = |it: &Verdict| matches!(it, Verdict::Untouched { .. });
    let reached_the_node = host.is_local(&packet.daddr) && expected.iter().any(untouched);
    if reached_the_node && transport == Transport::Sctp {
        // Without SCTP in the kernel nothing, as if it was dropped.
        return Ok(("reset", true));
    }
    let silent = expected.contains(&Verdict::Dropped);
    let patience = if silent { SILENCE } else { PATIENCE };
    let verdict = topology.probe(from, Probe { transport, to }, patience)?;
    let is = |wanted: &dyn Fn(&Verdict) -> bool| expected.iter().any(wanted);
    Ok(match verdict {
        lab::Verdict::Answered(answer) if &*answer.by == SINK => {
            let untouched = is(&|it| matches!(it, Verdict::Untouched { .. }));
            ("untouched", untouched && answer.at == to)
        }
        lab::Verdict::Answered(answer) => {
            let changed = answer.source.ip() != packet.saddr;
            let told = is(&|it| match it {
                Verdict::Delivered {
                    endpoint,
                    masqueraded,
                } => {
                    let at = (endpoint.address, endpoint.port);
                    let own = packet.origin == Origin::Local;
                    answer.at == at.into() && (own || *masqueraded == changed)
                }
                _ => false,
            });
            (if changed { "masqueraded" } else { "delivered" }, told)
        }
        lab::Verdict::Rejected { .. } => {
            let told = expected.contains(&Verdict::Rejected);
            ("rejected", told || reached_the_node)
        }
        lab::Verdict::Silent | lab::Verdict::NotPermitted => ("dropped", silent),
        lab::Verdict::Reset => ("reset", reached_the_node),
        other => bail!("{packet}: {other:?}"),
    })
}
