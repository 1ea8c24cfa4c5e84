//! Spoofed sources that fill the room for clients that all Services share.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::{thread, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    engine,
    flood::{Flood, arrivals, count_arrivals},
    objects,
};
use kproxy::engine::Engine;
use netns_lab::{Probe, Topology, Transport, Verdict};
use svc_planner::{
    Config,
    object::{Change, ObjectName, Protocol},
    plan,
};

const PORT: u16 = 80;
const PODS: [&str; 3] = ["pod-1", "pod-2", "pod-3"];
/// Clients that are remembered; fewer than the flood's sources.
const ROOM: u32 = 256;
const SOURCES: u16 = 600;
/// Affinity of the Service that is not flooded.
const TIMEOUT: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(10);

fn own() -> IpAddr {
    IpAddr::from([10, 96, 0, 1])
}

fn flooded() -> IpAddr {
    IpAddr::from([10, 96, 0, 2])
}

fn network() -> Result<Topology> {
    let sources = (0..SOURCES).map(|number| {
        let [high, low] = number.to_be_bytes();
        IpAddr::from([198, 18, high, low])
    });
    let mut builder = Topology::builder()
        .node([IpAddr::from([10, 168, 0, 1])])
        .host("one", [IpAddr::from([10, 203, 0, 1])])
        .host("two", [IpAddr::from([10, 203, 0, 2])])
        .host("flooder", sources);
    for (name, number) in PODS.into_iter().zip(1..) {
        builder = builder.host(name, [IpAddr::from([10, 1, 0, number])]);
    }
    let topology = builder.build()?;
    for pod in PODS {
        topology.serve(pod, Transport::Tcp, PORT)?;
        count_arrivals(topology.host(pod)?.namespace())?;
    }
    Ok(topology)
}

/// A Service whose clients stick, in a namespace of its own.
fn serve(
    engine: &mut Engine,
    namespace: &str,
    vip: IpAddr,
    protocol: Protocol,
    seconds: u32,
) -> Result<()> {
    let owned = ObjectName {
        namespace: namespace.into(),
        name: "web".into(),
    };
    let pods: Vec<_> = (1..=3)
        .map(|number| IpAddr::from([10, 1, 0, number]))
        .collect();
    let (Change::Service(mut service), Change::EndpointSlice(mut slice)) = (
        objects::service("web", vip, &[protocol], PORT),
        objects::slice("web", &pods, &[protocol], PORT),
    ) else {
        bail!("a Service with a slice");
    };
    service.name = owned.clone();
    service.affinity = Some(seconds);
    slice.name = owned;
    engine.apply(Change::Service(service));
    engine.apply(Change::EndpointSlice(slice));
    Ok(())
}

/// The endpoint that a new connection reaches.
fn connect(topology: &Topology, from: &str) -> Result<Box<str>> {
    let probe = Probe {
        transport: Transport::Tcp,
        to: SocketAddr::new(own(), PORT),
    };
    match topology.probe(from, probe, PATIENCE)? {
        Verdict::Answered(answer) => Ok(answer.by),
        verdict => bail!("{verdict:?}"),
    }
}

fn is_tight(engine: &mut Engine) -> Result<Option<bool>> {
    let fills = engine.affinity_fill()?;
    let mut v4 = fills.iter().filter(|it| it.family == plan::Family::Ipv4);
    Ok(v4.next().map(|fill| fill.is_tight()))
}

#[test]
fn a_flood_of_sources_unsticks_nobody_and_loses_no_connection() -> Result<()> {
    let topology = network()?;
    let mut engine = engine::start(topology.node(), |_| Config {
        node_name: "node".into(),
        max_affinity_clients: ROOM,
        ..Config::default()
    })?;
    let seconds = u32::try_from(TIMEOUT.as_secs())?;
    serve(&mut engine, "theirs", own(), Protocol::Tcp, seconds)?;
    serve(&mut engine, "flooded", flooded(), Protocol::Udp, 600)?;
    engine::settle(&mut engine)?;

    let stuck = connect(&topology, "one")?;
    // Told by Linux 6.17 and later.
    let told = is_tight(&mut engine)?;
    ensure!(told.is_none_or(|tight| !tight), "tight before the flood");
    let sources = topology.host("flooder")?.addresses().to_vec();
    let started = Instant::now();
    let flood = Flood::start(
        topology.host("flooder")?.namespace().handle(),
        sources,
        vec![SocketAddr::new(flooded(), PORT)],
        20_000,
        0,
    )?;
    // Longer than the client would be remembered for its first connection: each is its last chance,
    // for a row that is gone once finds no room again.
    let mut last = started;
    let mut others = 0;
    while !flood.is_over() || started.elapsed() < TIMEOUT * 3 {
        let reached = connect(&topology, "one")?;
        // A machine that stood still for that long shows nothing.
        ensure!(last.elapsed() < TIMEOUT, "the test was not given time");
        ensure!(reached == stuck, "moved from {stuck} to {reached}");
        last = Instant::now();
        // Not remembered, if there is no room, but served.
        connect(&topology, "two")?;
        others += 1;
        // What is tested is that time goes by.
        thread::sleep(Duration::from_millis(20));
    }
    ensure!(others > 50, "only {others} connections");
    let sent = flood.finish()?;
    let mut arrived = 0;
    for pod in PODS {
        arrived += arrivals(topology.host(pod)?.namespace())?;
    }
    ensure!(sent.flows == 20_000 && sent.refused == 0, "{sent:?}");
    ensure!(arrived == sent.flows, "{arrived} of {} arrived", sent.flows);
    if told.is_some() {
        let tight = is_tight(&mut engine)?.context("told before")?;
        ensure!(tight, "that room runs short is told");
    }
    Ok(())
}
