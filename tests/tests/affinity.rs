//! Clients that stick to endpoints on the running kernel, by every kind of frontend, protocol and
//! family: across several timeouts, across restarts, in a full map.

use core::{
    fmt,
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{collections::BTreeSet, thread, time::Instant};

use anyhow::{Result, bail, ensure};
use e2e::{engine, objects};
use kproxy::engine::{Engine, TABLE};
use netns_lab::{Probe, Topology, Transport, Verdict};
use nl_codec::msg::Family;
use smallvec::smallvec;
use svc_planner::{
    Config,
    object::{Change, Node, Protocol},
    plan,
};

const PORT: u16 = 80;
const NODE_PORT: u16 = 30_080;
const NODE: &str = "node";
const ENDPOINTS: [&str; 3] = ["ep1", "ep2", "ep3"];
const CLIENTS: [&str; 2] = ["one", "two"];
const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Sctp];
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
const PATIENCE: Duration = Duration::from_secs(10);

fn address(v6: bool, net: u8, host: u8) -> IpAddr {
    if v6 {
        IpAddr::from([0xfd00, 0x10, 0, 0, 0, 0, net.into(), host.into()])
    } else {
        IpAddr::from([10, net, 0, host])
    }
}

fn both(net: u8, host: u8) -> [IpAddr; 2] {
    [false, true].map(|v6| address(v6, net, host))
}

fn cluster_ips() -> [IpAddr; 2] {
    both(96, 1)
}

fn external_ips() -> [IpAddr; 2] {
    both(198, 1)
}

fn node() -> [IpAddr; 2] {
    both(168, 1)
}

/// One of the ways to the Service; clients stick to an endpoint on each by itself.
#[derive(Clone, Copy)]
struct Way {
    transport: Transport,
    to: SocketAddr,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.transport, self.to)
    }
}

/// Of each family, by ClusterIP, external IP and node port, and each protocol.
fn ways() -> Vec<Way> {
    let frontends = [
        (cluster_ips(), PORT),
        (external_ips(), PORT),
        (node(), NODE_PORT),
    ];
    let frontends = frontends
        .into_iter()
        .flat_map(|(addresses, port)| addresses.map(|address| SocketAddr::new(address, port)));
    frontends
        .flat_map(|to| TRANSPORTS.map(|transport| Way { transport, to }))
        .collect()
}

fn network() -> Result<Topology> {
    let mut builder = Topology::builder().node(node());
    for (name, number) in ENDPOINTS.into_iter().zip(1..) {
        builder = builder.host(name, both(1, number));
    }
    for (name, number) in CLIENTS.into_iter().zip(1..) {
        builder = builder.host(name, both(203, number));
    }
    let topology = builder.build()?;
    for host in ENDPOINTS {
        for transport in TRANSPORTS {
            topology.serve(host, transport, PORT)?;
        }
    }
    Ok(topology)
}

fn start(topology: &Topology, room: u32) -> Result<Engine> {
    engine::start(topology.node(), |_| Config {
        node_name: NODE.into(),
        max_affinity_clients: room,
        ..Config::default()
    })
}

/// A Service of both families whose clients stick for so many seconds.
fn apply(engine: &mut Engine, seconds: u32) -> Result<()> {
    let [v4, v6] = cluster_ips();
    let Change::Service(mut object) = objects::service("web", v4, &PROTOCOLS, PORT) else {
        bail!("a Service is a Service");
    };
    object.cluster_ips.push(v6);
    object.external_ips = external_ips().into_iter().collect();
    object.affinity = Some(seconds);
    for port in &mut object.ports {
        port.node_port = NODE_PORT;
    }
    engine.apply(Change::HostAddresses(node().into()));
    engine.apply(Change::Node(Node {
        name: NODE.into(),
        addresses: node().into_iter().collect(),
        pod_cidrs: smallvec![],
        zone: None,
        eligible: true,
    }));
    engine.apply(Change::Service(object));
    for change in part("web", &[1, 2, 3])? {
        engine.apply(change);
    }
    engine::settle(engine)
}

/// The endpoint that a new connection reaches.
fn connect(topology: &Topology, from: &str, way: Way) -> Result<Box<str>> {
    let Way { transport, to } = way;
    match topology.probe(from, Probe { transport, to }, PATIENCE)? {
        Verdict::Answered(answer) => Ok(answer.by),
        verdict => bail!("{way} from {from}: {verdict:?}"),
    }
}

/// The endpoint of each client on each way.
fn chosen(topology: &Topology) -> Result<Vec<(&'static str, Way, Box<str>)>> {
    let mut chosen = Vec::new();
    for way in ways() {
        for from in CLIENTS {
            chosen.push((from, way, connect(topology, from, way)?));
        }
    }
    Ok(chosen)
}

/// Nobody is led elsewhere with so many connections.
fn stay(
    topology: &Topology,
    before: &[(&'static str, Way, Box<str>)],
    connections: usize,
) -> Result<()> {
    for (from, way, before) in before {
        for _ in 0..connections {
            let reached = connect(topology, from, *way)?;
            ensure!(
                reached == *before,
                "{way}: {from} moved from {before} to {reached}"
            );
        }
    }
    Ok(())
}

/// Clients that are remembered, of each family.
fn remembered(engine: &mut Engine) -> Result<[usize; 2]> {
    let mut counts = [0; 2];
    for (family, count) in [Family::IPV4, Family::IPV6].into_iter().zip(&mut counts) {
        engine
            .connection()
            .dump_elements(family, TABLE, "client-affinity", |_| *count += 1)?;
    }
    Ok(counts)
}

#[test]
fn each_connection_starts_the_time_anew_and_its_end_ends_it() -> Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(2);
    let topology = network()?;
    let mut engine = start(&topology, 1_000)?;
    apply(&mut engine, 2)?;
    let mut ways: Vec<_> = ways()
        .into_iter()
        .map(|way| (way, None, Instant::now()))
        .collect();
    let started = Instant::now();
    let mut kept = 0;
    while started.elapsed() < TIMEOUT * 5 / 2 {
        for (way, stuck, last) in &mut ways {
            let reached = connect(&topology, "one", *way)?;
            // A machine that stood still for that long shows nothing.
            if last.elapsed() < TIMEOUT
                && let Some(stuck) = stuck
            {
                ensure!(reached == *stuck, "{way}: moved from {stuck} to {reached}");
                kept += 1;
            }
            (*stuck, *last) = (Some(reached), Instant::now());
        }
        // What is tested is that time goes by.
        thread::sleep(TIMEOUT / 10);
    }
    ensure!(kept > ways.len() * 3, "the machine stood still: {kept}");
    let each = ways.len() / 2;
    ensure!(
        remembered(&mut engine)? == [each; 2],
        "not all are remembered"
    );
    let last = ways.iter().map(|(_, _, last)| *last).max();
    let last = last.unwrap_or_else(Instant::now);
    while remembered(&mut engine)? != [0; 2] {
        ensure!(last.elapsed() < TIMEOUT * 10, "it is not forgotten");
        thread::sleep(Duration::from_millis(20));
    }
    let after = last.elapsed();
    ensure!(after > TIMEOUT * 9 / 10, "forgotten after {after:?}");
    stay(&topology, &chosen(&topology)?, 3)
}

#[test]
fn a_process_that_knows_nothing_asks_the_table() -> Result<()> {
    let topology = network()?;
    let mut engine = start(&topology, 1_000)?;
    apply(&mut engine, 600)?;
    let before = chosen(&topology)?;
    for _ in 0..3 {
        engine = start(&topology, 1_000)?;
        engine.adopt(None)?;
        apply(&mut engine, 600)?;
        engine::rest(&mut engine, |_| ())?;
        stay(&topology, &before, 3)?;
    }
    Ok(())
}

#[test]
fn a_full_map_loses_no_connection() -> Result<()> {
    let topology = network()?;
    let mut engine = start(&topology, 1)?;
    apply(&mut engine, 600)?;
    // One of each family finds room.
    let mut first = Vec::new();
    for to in [
        SocketAddr::new(cluster_ips()[0], PORT),
        SocketAddr::new(node()[1], NODE_PORT),
    ] {
        let transport = Transport::Tcp;
        let way = Way { transport, to };
        first.push(("one", way, connect(&topology, "one", way)?));
    }
    for way in ways() {
        let mut others = BTreeSet::new();
        for _ in 0..26 {
            others.insert(connect(&topology, "two", way)?);
        }
        ensure!(others.len() == ENDPOINTS.len(), "{way}: {others:?}");
        stay(&topology, &first, 1)?;
    }
    ensure!(remembered(&mut engine)? == [1; 2], "others are remembered");
    // Told by Linux 6.17 and later.
    for fill in engine.affinity_fill()? {
        ensure!((fill.clients, fill.room) == (1, 1), "{fill:?}");
        ensure!(fill.is_tight(), "{fill:?}");
    }
    Ok(())
}

/// Slices of the Service `web` under other names, one of each family.
fn part(text: &str, numbers: &[u8]) -> Result<[Change; 2]> {
    let slice = |v6: bool| {
        let pods: Vec<_> = numbers
            .iter()
            .map(|number| address(v6, 1, *number))
            .collect();
        let Change::EndpointSlice(mut slice) = objects::slice("web", &pods, &PROTOCOLS, PORT)
        else {
            bail!("a slice is a slice");
        };
        let family = if v6 {
            plan::Family::Ipv6
        } else {
            plan::Family::Ipv4
        };
        slice.name = objects::name(&format!("{text}-{family}"));
        Ok(Change::EndpointSlice(slice))
    };
    Ok([slice(false)?, slice(true)?])
}

#[test]
fn endpoints_move_between_slices_and_nobody_with_them() -> Result<()> {
    let topology = network()?;
    let mut engine = start(&topology, 1_000)?;
    apply(&mut engine, 600)?;
    let before = chosen(&topology)?;
    // Of two slices: in both, in the other, and in neither until the next change.
    let rounds: [&[(&str, &[u8])]; 5] = [
        &[("more", &[3, 1])],
        &[("web", &[2])],
        &[("web", &[]), ("more", &[2, 3, 1])],
        &[("more", &[]), ("web", &[3, 2]), ("third", &[1])],
        &[("third", &[]), ("web", &[1, 2, 3])],
    ];
    for (round, changes) in rounds.into_iter().cycle().take(20).enumerate() {
        for (slice, numbers) in changes {
            for change in part(slice, numbers)? {
                engine.apply(change);
            }
        }
        let mut rows = 0;
        engine::settle_with(&mut engine, |transaction| rows += transaction.rows())?;
        ensure!(rows == 0, "round {round}: {rows} rows");
        stay(&topology, &before, 1)?;
    }
    Ok(())
}
