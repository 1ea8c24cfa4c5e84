//! Traffic goes on while endpoints come and go.

use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::thread;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::{engine, objects};
use kproxy::engine::Engine;
use netns_lab::{Connection, Probe, Topology, Transport, Verdict};
use svc_planner::{Config, object::Protocol};

const PORT: u16 = 80;
const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];
const PODS: [&str; 3] = ["web-1", "web-2", "web-3"];
const PATIENCE: Duration = Duration::from_secs(10);
/// Rounds of changes, and probes that must at least be made meanwhile.
const ROUNDS: usize = 100;
const PROBES: usize = 1_000;

struct Family {
    node: IpAddr,
    client: IpAddr,
    vip: IpAddr,
    other_vip: IpAddr,
    pods: [IpAddr; 3],
    other: IpAddr,
}

fn families() -> Result<[Family; 2]> {
    Ok([
        Family {
            node: "192.168.0.2".parse()?,
            client: "10.0.9.1".parse()?,
            vip: "172.30.0.41".parse()?,
            other_vip: "172.30.0.42".parse()?,
            pods: [
                "10.0.1.1".parse()?,
                "10.0.1.2".parse()?,
                "10.0.1.3".parse()?,
            ],
            other: "10.0.1.4".parse()?,
        },
        Family {
            node: "2001:db8::1".parse()?,
            client: "fd00:10::9:1".parse()?,
            vip: "fd00:10:96::41".parse()?,
            other_vip: "fd00:10:96::42".parse()?,
            pods: [
                "fd00:10::1".parse()?,
                "fd00:10::2".parse()?,
                "fd00:10::3".parse()?,
            ],
            other: "fd00:10::4".parse()?,
        },
    ])
}

fn topology(families: &[Family; 2]) -> Result<Topology> {
    let mut builder = Topology::builder()
        .node(families.each_ref().map(|family| family.node))
        .host("client", families.each_ref().map(|family| family.client))
        .host("other", families.each_ref().map(|family| family.other));
    for (index, pod) in PODS.into_iter().enumerate() {
        builder = builder.host(pod, families.each_ref().map(|family| family.pods[index]));
    }
    let topology = builder.build()?;
    for host in PODS.into_iter().chain(["other"]) {
        topology.serve(host, Transport::Tcp, PORT)?;
        topology.serve(host, Transport::Udp, PORT)?;
    }
    Ok(topology)
}

/// How many probes ended in which way.
#[derive(Debug, Default)]
struct Probes {
    answered: AtomicUsize,
    rejected: AtomicUsize,
}

/// Probes until told to stop; every probe must reach an endpoint of the Service, or be rejected
/// where that is allowed.
fn probe_until(
    topology: &Topology,
    vip: IpAddr,
    may_reject: bool,
    stop: &AtomicBool,
    probes: &Probes,
) -> Result<()> {
    let ways = [
        ("client", Transport::Tcp),
        ("client", Transport::Udp),
        ("node", Transport::Tcp),
        ("node", Transport::Udp),
    ];
    for (from, transport) in ways.into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let probe = Probe {
            transport,
            to: SocketAddr::new(vip, PORT),
        };
        match topology.probe(from, probe, PATIENCE)? {
            Verdict::Answered(answer) if PODS.contains(&&*answer.by) => {
                probes.answered.fetch_add(1, Ordering::Relaxed);
            }
            Verdict::Rejected { .. } if may_reject => {
                probes.rejected.fetch_add(1, Ordering::Relaxed);
            }
            other => bail!("{transport} from {from}: {other:?}"),
        }
    }
    Ok(())
}

/// Changes the endpoints, and uses a connection made before, for some rounds and until it is enough.
fn change_until(
    shapes: &[&[IpAddr]],
    engine: &mut Engine,
    connection: &mut Connection,
    enough: impl Fn() -> bool,
) -> Result<()> {
    for (round, shape) in shapes.iter().cycle().enumerate() {
        if round >= ROUNDS && enough() {
            break;
        }
        engine.apply(objects::slice("web", shape, &PROTOCOLS, PORT));
        engine::settle(engine)?;
        let text = format!("round {round}");
        connection.echo(text.as_bytes(), PATIENCE).context(text)?;
    }
    Ok(())
}

/// Serves a Service and another one, and goes through the shapes while probes run.
fn churn(topology: &Topology, family: &Family, shapes: &[&[IpAddr]]) -> Result<Probes> {
    let mut engine = engine::start(topology.node(), |_| Config::default())?;
    engine.adopt(None)?;
    let services = [
        ("web", family.vip, family.pods[0]),
        ("other", family.other_vip, family.other),
    ];
    for (name, vip, endpoint) in services {
        engine.apply(objects::service(name, vip, &PROTOCOLS, PORT));
        engine.apply(objects::slice(name, &[endpoint], &PROTOCOLS, PORT));
    }
    engine::settle(&mut engine)?;
    let to = SocketAddr::new(family.vip, PORT);
    let mut connection = topology.connect("client", to, PATIENCE)?;
    let may_reject = shapes.iter().any(|shape| shape.is_empty());
    let (stop, probes) = (AtomicBool::new(false), Probes::default());
    thread::scope(|scope| -> Result<()> {
        let prober = scope.spawn(|| probe_until(topology, family.vip, may_reject, &stop, &probes));
        let answered = || probes.answered.load(Ordering::Relaxed);
        let rejected = || probes.rejected.load(Ordering::Relaxed);
        let enough = || {
            let all = answered() >= PROBES && (!may_reject || rejected() >= PROBES / 10);
            prober.is_finished() || all
        };
        let changed = change_until(shapes, &mut engine, &mut connection, enough);
        stop.store(true, Ordering::Relaxed);
        prober
            .join()
            .map_err(|_| anyhow!("the prober panicked"))??;
        changed
    })?;
    Ok(probes)
}

#[test]
fn no_probe_is_lost_while_endpoints_change() -> Result<()> {
    let families = families()?;
    let topology = topology(&families)?;
    for family in &families {
        let [a, b, c] = family.pods;
        let shapes: [&[IpAddr]; 6] = [&[a, b], &[b], &[b, c], &[c, a, b], &[a], &[c]];
        let probes = churn(&topology, family, &shapes)?;
        ensure!(probes.answered.into_inner() >= PROBES, "too few probes");
    }
    Ok(())
}

#[test]
fn to_zero_and_back_every_probe_is_answered_or_rejected() -> Result<()> {
    let families = families()?;
    let topology = topology(&families)?;
    for family in &families {
        let [a, b, _] = family.pods;
        let shapes: [&[IpAddr]; 4] = [&[a, b], &[], &[b], &[]];
        let probes = churn(&topology, family, &shapes)?;
        ensure!(
            probes.answered.load(Ordering::Relaxed) >= PROBES,
            "{probes:?}"
        );
        ensure!(
            probes.rejected.load(Ordering::Relaxed) >= PROBES / 10,
            "{probes:?}"
        );
    }
    Ok(())
}
