//! Random changes of every kind, for some minutes with `KPROXY_LONG=1`, while traffic of every kind and
//! origin goes on to a Service that always has a ready endpoint.

use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::{thread, time::Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::{
    dice::{self, Dice},
    engine, objects,
    requests::forget_ended,
};
use kproxy::engine::Engine;
use netns_lab::{Connection, Probe, Topology, Transport, Verdict};
use smallvec::smallvec;
use svc_planner::{
    Config,
    config::{LocalDetector, NodePortAddresses},
    object::{Change, EndpointSlice, Node, Protocol, Service, TrafficPolicy},
};

const PORT: u16 = 80;
const NODE_PORT: u16 = 30_080;
const NODE: &str = "own";
const PROTOCOLS: [Protocol; 3] = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Sctp];
const PODS: [&str; 3] = ["web-1", "web-2", "web-3"];
/// Services that come and go beside.
const OTHERS: u64 = 50;
const PATIENCE: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(180);

/// Addresses of one family.
#[derive(Clone, Copy)]
struct Net {
    is_v4: bool,
}

impl Net {
    fn address(self, net: u8, host: u16) -> IpAddr {
        let [high, low] = host.to_be_bytes();
        if self.is_v4 {
            IpAddr::from([10, net, high, low])
        } else {
            IpAddr::from([0xfd00, 0x10, 0, 0, 0, 0, net.into(), host])
        }
    }

    fn node(self) -> IpAddr {
        self.address(168, 2)
    }

    fn client(self) -> IpAddr {
        self.address(9, 1)
    }

    /// A pod, which is local by its address.
    fn pod(self) -> IpAddr {
        self.address(2, 1)
    }

    /// Of the Service that is always served.
    fn cluster_ip(self) -> IpAddr {
        self.address(96, 1)
    }

    fn load_balancer(self) -> IpAddr {
        self.address(198, 1)
    }

    fn external(self) -> IpAddr {
        self.address(197, 1)
    }
}

fn topology() -> Result<Topology> {
    let both = [Net { is_v4: true }, Net { is_v4: false }];
    let mut builder = Topology::builder()
        .node(both.map(Net::node))
        .host("client", both.map(Net::client))
        .host("pod", both.map(Net::pod))
        .host("other", both.map(|net| net.address(1, 4)));
    for (number, pod) in (1..).zip(PODS) {
        builder = builder.host(pod, both.map(|net| net.address(1, number)));
    }
    let topology = builder.build()?;
    for host in PODS.into_iter().chain(["other"]) {
        for transport in TRANSPORTS {
            topology.serve(host, transport, PORT)?;
        }
    }
    let hosts: Vec<_> = PODS.into_iter().chain(["client", "pod"]).collect();
    forget_ended(&topology, &hosts)?;
    Ok(topology)
}

fn policy(dice: &mut Dice) -> TrafficPolicy {
    if dice.one_in(2) {
        TrafficPolicy::Local
    } else {
        TrafficPolicy::Cluster
    }
}

fn parts(name: &str, vip: IpAddr, pods: &[IpAddr]) -> Result<(Service, EndpointSlice)> {
    match (
        objects::service(name, vip, &PROTOCOLS, PORT),
        objects::slice(name, pods, &PROTOCOLS, PORT),
    ) {
        (Change::Service(service), Change::EndpointSlice(slice)) => Ok((service, slice)),
        _ => bail!("a Service with a slice"),
    }
}

/// The Service that is always served, otherwise of any shape: one endpoint of this node is ready.
fn web(net: Net, dice: &mut Dice) -> Result<[Change; 2]> {
    let pods = [1, 2, 3].map(|number| net.address(1, number));
    let (mut service, mut slice) = parts("web", net.cluster_ip(), &pods)?;
    service.affinity = dice.one_in(3).then_some(60);
    service.internal_policy = policy(dice);
    service.external_policy = policy(dice);
    service.load_balancer_ips = smallvec![net.load_balancer()];
    service.external_ips = smallvec![net.external()];
    for port in &mut service.ports {
        port.node_port = NODE_PORT;
    }
    if dice.one_in(2) {
        service.source_ranges.push(net.client().into());
        service.source_ranges.push(net.pod().into());
    }
    if dice.one_in(2) {
        let length = if net.is_v4 { 24 } else { 112 };
        let around = ipnet::IpNet::new(net.client(), length)?.trunc();
        service.source_ranges.push(around);
        service.source_ranges.push(net.pod().into());
        service.source_ranges.push(net.address(77, 1).into());
    }
    let sure = usize::try_from(dice.below(3))?;
    for (number, endpoint) in slice.endpoints.iter_mut().enumerate() {
        let here = number == sure || dice.one_in(2);
        endpoint.node = Some(if here { NODE } else { "another" }.into());
        if number != sure {
            endpoint.ready = dice.one_in(2);
            endpoint.terminating = !endpoint.ready && dice.one_in(2);
            endpoint.serving = endpoint.ready || dice.one_in(2);
        }
    }
    let gone = usize::try_from(dice.below(6))?;
    if gone != sure && gone < 3 {
        slice.endpoints.remove(gone);
    }
    Ok([Change::Service(service), Change::EndpointSlice(slice)])
}

/// A Service beside, which may also come or go.
fn other(net: Net, dice: &mut Dice) -> Result<Vec<Change>> {
    let number = u16::try_from(dice.below(OTHERS))?;
    let name = format!("other-{number}");
    let pods = [net.address(1, 4), net.address(1, 5), net.address(1, 6)];
    let count = usize::try_from(dice.below(4))?;
    let pods = pods.get(..count).unwrap_or_default();
    let (mut service, mut slice) = parts(&name, net.address(97, number), pods)?;
    let seconds = 10 * u32::try_from(dice.below(5) + 1)?;
    service.affinity = dice.one_in(3).then_some(seconds);
    service.internal_policy = policy(dice);
    service.external_policy = policy(dice);
    if dice.one_in(2) {
        for port in &mut service.ports {
            port.node_port = 31_000 + number;
        }
    }
    if dice.one_in(3) {
        service.load_balancer_ips.push(net.address(199, number));
        service.source_ranges.push(net.address(77, number).into());
    }
    for endpoint in &mut slice.endpoints {
        endpoint.node = dice.one_in(2).then(|| NODE.into());
        endpoint.ready = dice.one_in(2);
        endpoint.terminating = !endpoint.ready;
    }
    let named = objects::name(&name);
    Ok(match dice.below(5) {
        0 => vec![Change::ServiceGone(named)],
        1 => vec![Change::EndpointSliceGone(named)],
        2 => vec![Change::EndpointSlice(slice)],
        _ => vec![Change::Service(service), Change::EndpointSlice(slice)],
    })
}

fn request_until(
    topology: &Topology,
    net: Net,
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> Result<()> {
    let frontends = [
        (net.cluster_ip(), PORT),
        (net.load_balancer(), PORT),
        (net.external(), PORT),
        (net.node(), NODE_PORT),
    ];
    let ways = frontends.into_iter().flat_map(|(address, port)| {
        let ways = ["client", "pod", "node"].map(|from| (from, address, port));
        // The node itself is in no source range.
        ways.into_iter()
            .filter(move |(from, ..)| *from != "node" || address != net.load_balancer())
    });
    let ways: Vec<_> = ways
        .flat_map(|way| TRANSPORTS.map(|transport| (way, transport)))
        .collect();
    for ((from, address, port), transport) in ways.into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let to = SocketAddr::new(address, port);
        match topology.probe(from, Probe { transport, to }, PATIENCE)? {
            Verdict::Answered(answer) if PODS.contains(&&*answer.by) => {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            verdict => bail!("{transport} from {from} to {to}: {verdict:?}"),
        }
    }
    Ok(())
}

/// Changes and commits until time is up, or requests fail; connections stay open.
fn change_until(
    net: Net,
    engine: &mut Engine,
    dice: &mut Dice,
    connections: &mut [Connection],
    is_over: impl Fn() -> bool,
) -> Result<usize> {
    let mut rounds = 0;
    while !is_over() {
        for _ in 0..=dice.below(8) {
            for change in other(net, dice)? {
                engine.apply(change);
            }
        }
        for change in web(net, dice)? {
            engine.apply(change);
        }
        engine::settle(engine).with_context(|| format!("round {rounds}"))?;
        for connection in &mut *connections {
            connection
                .echo(b"still there?", PATIENCE)
                .with_context(|| format!("round {rounds}"))?;
        }
        rounds += 1;
    }
    Ok(rounds)
}

fn churn(topology: &Topology, net: Net, dice: &mut Dice, time: Duration) -> Result<()> {
    let pods = ipnet::IpNet::new(net.pod(), if net.is_v4 { 16 } else { 112 })?.trunc();
    let mut engine = engine::start(topology.node(), |_| Config {
        node_name: NODE.into(),
        local: LocalDetector::Cidr(pods),
        node_port_addresses: NodePortAddresses::PRIMARY,
        ..Config::default()
    })?;
    engine.adopt(None)?;
    engine.apply(Change::HostAddresses(vec![net.node()]));
    engine.apply(Change::Node(Node {
        name: NODE.into(),
        addresses: smallvec![net.node()],
        pod_cidrs: smallvec![],
        zone: None,
        eligible: true,
    }));
    for change in web(net, dice)? {
        engine.apply(change);
    }
    engine::settle(&mut engine)?;
    let mut connections = Vec::new();
    for (from, address, port) in [
        ("client", net.cluster_ip(), PORT),
        ("node", net.cluster_ip(), PORT),
        ("client", net.load_balancer(), PORT),
        ("client", net.node(), NODE_PORT),
        ("pod", net.cluster_ip(), PORT),
        ("pod", net.external(), PORT),
        ("pod", net.node(), NODE_PORT),
    ] {
        connections.push(topology.connect(from, SocketAddr::new(address, port), PATIENCE)?);
    }
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let started = Instant::now();
    let rounds = thread::scope(|scope| {
        let requests = scope.spawn(|| request_until(topology, net, &stop, &answered));
        let is_over = || started.elapsed() >= time || requests.is_finished();
        let changed = change_until(net, &mut engine, dice, &mut connections, is_over);
        stop.store(true, Ordering::Relaxed);
        let requested = requests.join().map_err(|_| anyhow!("requests panicked"))?;
        requested.and(changed)
    })?;
    let answered = answered.into_inner();
    println!("{rounds} rounds, {answered} requests");
    ensure!(rounds > 3 && answered > 200, "too little happened");
    let reports = engine.reports();
    ensure!(reports.is_empty(), "{reports:?}");
    Ok(())
}

#[test]
fn no_request_and_no_connection_is_lost_whatever_changes() -> Result<()> {
    let seed = dice::seed()?;
    println!("KPROXY_SEED={seed}");
    let mut dice = Dice::new(seed);
    let is_long = std::env::var_os("KPROXY_LONG").is_some();
    let time = if is_long { LONG } else { SHORT };
    let topology = topology()?;
    for is_v4 in [true, false] {
        churn(&topology, Net { is_v4 }, &mut dice, time)?;
    }
    Ok(())
}
