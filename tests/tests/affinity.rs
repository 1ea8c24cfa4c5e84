//! Clients that stick to endpoints on the running kernel: across several timeouts, across restarts, in
//! a full map.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::{collections::BTreeSet, thread, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{engine, objects};
use kproxy::engine::{Engine, TABLE};
use netns_lab::{Probe, Topology, Transport, Verdict};
use nl_codec::msg::Family;
use svc_planner::{
    Config,
    object::{Change, Protocol},
    plan,
};

const PORT: u16 = 80;
const ENDPOINTS: [&str; 3] = ["ep1", "ep2", "ep3"];
const CLIENTS: [&str; 2] = ["one", "two"];
const PATIENCE: Duration = Duration::from_secs(10);

fn address(net: u8, host: u8) -> IpAddr {
    IpAddr::from([10, net, 0, host])
}

fn service() -> IpAddr {
    address(96, 1)
}

fn network() -> Result<Topology> {
    let mut builder = Topology::builder().node([address(168, 1)]);
    for (name, number) in ENDPOINTS.into_iter().zip(1..) {
        builder = builder.host(name, [address(1, number)]);
    }
    for (name, number) in CLIENTS.into_iter().zip(1..) {
        builder = builder.host(name, [address(203, number)]);
    }
    let topology = builder.build()?;
    for host in ENDPOINTS {
        topology.serve(host, Transport::Tcp, PORT)?;
    }
    Ok(topology)
}

fn start(topology: &Topology, room: u32) -> Result<Engine> {
    engine::start(topology.node(), |_| Config {
        node_name: "node".into(),
        max_affinity_clients: room,
        ..Config::default()
    })
}

/// A Service whose clients stick for so many seconds.
fn apply(engine: &mut Engine, seconds: u32) -> Result<()> {
    let change = objects::service("web", service(), &[Protocol::Tcp], PORT);
    let Change::Service(mut object) = change else {
        bail!("a Service is a Service");
    };
    object.affinity = Some(seconds);
    engine.apply(Change::Service(object));
    let pods: Vec<_> = (1..=3).map(|number| address(1, number)).collect();
    engine.apply(objects::slice("web", &pods, &[Protocol::Tcp], PORT));
    engine::settle(engine)
}

/// The endpoint that a new connection reaches.
fn connect(topology: &Topology, from: &str) -> Result<Box<str>> {
    let probe = Probe {
        transport: Transport::Tcp,
        to: SocketAddr::new(service(), PORT),
    };
    match topology.probe(from, probe, PATIENCE)? {
        Verdict::Answered(answer) => Ok(answer.by),
        verdict => bail!("{verdict:?}"),
    }
}

/// Clients that are remembered.
fn remembered(engine: &mut Engine) -> Result<usize> {
    let mut count = 0;
    engine
        .connection()
        .dump_elements(Family::IPV4, TABLE, "client-affinity", |_| count += 1)?;
    Ok(count)
}

#[test]
fn each_connection_starts_the_time_anew_and_its_end_ends_it() -> Result<()> {
    const TIMEOUT: Duration = Duration::from_secs(1);
    let topology = network()?;
    let mut engine = start(&topology, 1_000)?;
    apply(&mut engine, 1)?;
    let first = connect(&topology, "one")?;
    let started = Instant::now();
    let mut last = started;
    while started.elapsed() < TIMEOUT * 5 / 2 {
        // What is tested is that time goes by.
        thread::sleep(TIMEOUT / 5);
        let reached = connect(&topology, "one")?;
        // A machine that stood still for that long shows nothing.
        ensure!(reached == first || last.elapsed() > TIMEOUT, "moved");
        last = Instant::now();
    }
    ensure!(remembered(&mut engine)? == 1, "it is not remembered");
    while remembered(&mut engine)? > 0 {
        ensure!(last.elapsed() < TIMEOUT * 10, "it is not forgotten");
        thread::sleep(Duration::from_millis(20));
    }
    let after = last.elapsed();
    ensure!(after > TIMEOUT * 9 / 10, "forgotten after {after:?}");
    let mut reached = BTreeSet::new();
    for _ in 0..10 {
        reached.insert(connect(&topology, "one")?);
    }
    ensure!(reached.len() == 1, "it does not stick again: {reached:?}");
    Ok(())
}

#[test]
fn a_process_that_knows_nothing_asks_the_table() -> Result<()> {
    let topology = network()?;
    let mut engine = start(&topology, 1_000)?;
    apply(&mut engine, 600)?;
    let before = CLIENTS.map(|from| connect(&topology, from));
    for _ in 0..3 {
        engine = start(&topology, 1_000)?;
        engine.adopt(None)?;
        apply(&mut engine, 600)?;
        engine::rest(&mut engine, |_| ())?;
        for (from, before) in CLIENTS.into_iter().zip(&before) {
            let before = before.as_ref().ok().context("no first connection")?;
            for _ in 0..5 {
                let reached = connect(&topology, from)?;
                ensure!(
                    reached == *before,
                    "{from} moved from {before} to {reached}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn a_full_map_loses_no_connection() -> Result<()> {
    let topology = network()?;
    let mut engine = start(&topology, 1)?;
    apply(&mut engine, 600)?;
    let first = connect(&topology, "one")?;
    let mut others = BTreeSet::new();
    for _ in 0..26 {
        others.insert(connect(&topology, "two")?);
        ensure!(connect(&topology, "one")? == first, "the first one moved");
    }
    ensure!(others.len() == ENDPOINTS.len(), "{others:?}");
    // Told by Linux 6.17 and later.
    for fill in engine.affinity_fill()? {
        let v4 = fill.family == plan::Family::Ipv4;
        let expected = u32::from(v4);
        ensure!((fill.clients, fill.room) == (expected, 1), "{fill:?}");
        ensure!(fill.is_tight() || !v4, "{fill:?}");
    }
    Ok(())
}

/// A slice of the Service `web` under another name.
fn part(text: &str, numbers: &[u8]) -> Result<Change> {
    let pods: Vec<_> = numbers.iter().map(|number| address(1, *number)).collect();
    let Change::EndpointSlice(mut slice) = objects::slice("web", &pods, &[Protocol::Tcp], PORT)
    else {
        bail!("a slice is a slice");
    };
    slice.name = objects::name(text);
    Ok(Change::EndpointSlice(slice))
}

#[test]
fn endpoints_move_between_slices_and_nobody_with_them() -> Result<()> {
    let topology = network()?;
    let mut engine = start(&topology, 1_000)?;
    apply(&mut engine, 600)?;
    let before = CLIENTS.map(|from| connect(&topology, from));
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
            engine.apply(part(slice, numbers)?);
        }
        let mut rows = 0;
        engine::settle_with(&mut engine, |transaction| rows += transaction.rows())?;
        ensure!(rows == 0, "round {round}: {rows} rows");
        for (from, before) in CLIENTS.into_iter().zip(&before) {
            let before = before.as_ref().ok().context("no first connection")?;
            let reached = connect(&topology, from)?;
            ensure!(
                reached == *before,
                "round {round}: {from} moved from {before} to {reached}"
            );
        }
    }
    Ok(())
}
