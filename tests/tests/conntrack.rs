//! Flows that a change leaves behind are cut, and no others.

use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{io::IoSlice, sync::Arc, thread, time::Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::{conntrack::Table, engine, objects, ruleset};
use kproxy::{
    conntrack::{Counters, Reconciler, Totals},
    engine::{Engine, Netns},
    lab::{Flow, SINK, Topology, Transport, Verdict},
};
use nft_batch::{Connection, Datagram, Errno, Socket, Wait};
use nl_codec::msg;
use svc_planner::{
    Config,
    object::{Change, Node, Protocol},
    plan,
};

/// Longest wait for what must happen; passes only when the test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for an answer to one datagram.
const ANSWER: Duration = Duration::from_millis(200);
/// How often a sender sends.
const RHYTHM: Duration = Duration::from_millis(5);
/// Of the Service, of its endpoints, and its node port.
const PORT: u16 = 53;
const TARGET: u16 = 5353;
const NODE_PORT: u16 = 30_053;
/// A port on which a Service is reached by TCP.
const WEB: u16 = 80;

/// Whatever it says, a rule that looks at their state makes the kernel track connections.
const TRACKING: &str = "table inet track {
    chain track { type filter hook prerouting priority 0; ct state established accept; }
}
";
/// Neither answers nor refuses.
const DEAF: &str = "table inet deaf {
    chain deaf { type filter hook prerouting priority 0; policy drop; }
}
";

struct Family {
    family: plan::Family,
    node: IpAddr,
    client: IpAddr,
    vip: IpAddr,
    external: IpAddr,
    other_vip: IpAddr,
    a: IpAddr,
    b: IpAddr,
}

fn families() -> Result<[Family; 2]> {
    Ok([
        Family {
            family: plan::Family::Ipv4,
            node: "192.168.0.2".parse()?,
            client: "10.0.9.1".parse()?,
            vip: "172.30.0.41".parse()?,
            external: "203.0.113.7".parse()?,
            other_vip: "172.30.0.42".parse()?,
            a: "10.0.1.1".parse()?,
            b: "10.0.1.2".parse()?,
        },
        Family {
            family: plan::Family::Ipv6,
            node: "2001:db8::1".parse()?,
            client: "fd00:10::9:1".parse()?,
            vip: "fd00:10:96::41".parse()?,
            external: "2001:db8:7::7".parse()?,
            other_vip: "fd00:10:96::42".parse()?,
            a: "fd00:10::1".parse()?,
            b: "fd00:10::2".parse()?,
        },
    ])
}

/// A node with a proxy on it.
struct Bench<'t> {
    topology: &'t Topology,
    family: &'t Family,
    engine: Engine,
    reconciler: Reconciler,
}

/// Runs a test for each family, each time on a new node on which connections are tracked.
fn on_each(test: impl Fn(Bench<'_>) -> Result<()>) -> Result<()> {
    for family in &families()? {
        let topology = Topology::builder()
            .node([family.node])
            .host("client", [family.client])
            .host("a", [family.a])
            .host("b", [family.b])
            .build()?;
        for pod in ["a", "b"] {
            topology.serve(pod, Transport::Udp, TARGET)?;
            topology.serve(pod, Transport::Tcp, TARGET)?;
        }
        ruleset::load(topology.node(), TRACKING)?;
        let bench = Bench::start(&topology, family)?;
        test(bench).with_context(|| format!("{}", family.family))?;
    }
    Ok(())
}

impl<'t> Bench<'t> {
    fn start(topology: &'t Topology, family: &'t Family) -> Result<Self> {
        let mut engine = engine::start(topology.node(), |_| Config {
            node_name: "node".into(),
            ..Config::default()
        })?;
        engine.adopt(None)?;
        let start = || Reconciler::start(&Netns::Current);
        let reconciler = topology.node().run(start)??;
        engine.tell_flows(reconciler.publisher());
        let mut bench = Self {
            topology,
            family,
            engine,
            reconciler,
        };
        let node = Node {
            name: "node".into(),
            addresses: [family.node].into_iter().collect(),
            pod_cidrs: [].into_iter().collect(),
            zone: None,
        };
        bench.engine.apply(Change::Node(node));
        Ok(bench)
    }

    /// The same node with another process's proxy, which knows nothing of the one before.
    fn restart(self) -> Result<Self> {
        let Self {
            topology, family, ..
        } = self;
        Self::start(topology, family)
    }

    fn change(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<()> {
        let changes = changes.into_iter();
        changes.for_each(|change| self.engine.apply(change));
        engine::settle(&mut self.engine)
    }

    /// The Service `dns` as it is with these external addresses.
    fn dns(&self, external: &[IpAddr]) -> Change {
        let change = objects::service("dns", self.family.vip, &[Protocol::Udp], PORT);
        let Change::Service(mut service) = change else {
            return change;
        };
        service.external_ips = external.iter().copied().collect();
        for port in &mut service.ports {
            port.node_port = NODE_PORT;
        }
        Change::Service(service)
    }

    fn slice(&self, endpoints: &[IpAddr]) -> Change {
        objects::slice("dns", endpoints, &[Protocol::Udp], TARGET)
    }

    /// A flow from the client.
    fn flow(&self, to: IpAddr, port: u16) -> Result<Flow> {
        Ok(self.topology.flow("client", SocketAddr::new(to, port))?)
    }

    fn totals(&self) -> Totals {
        self.reconciler.counters().of(self.family.family)
    }

    fn table(&self) -> Result<Table> {
        Table::open(self.topology.node(), nf(self.family.family))
    }

    /// Waits until everything told so far was looked into, some flow sending all the time.
    fn pass(&mut self, flow: &Flow) -> Result<()> {
        // Another Service's endpoints are a reason to look, and come after all that was told.
        let passes = |totals: Totals| totals.passes + totals.failures;
        let before = passes(self.totals());
        let other = objects::service("other", self.family.other_vip, &[Protocol::Udp], PORT);
        let gone = Change::EndpointSliceGone(objects::name("other"));
        let slice = objects::slice("other", &[self.family.a], &[Protocol::Udp], TARGET);
        self.change([other, slice])?;
        self.change([gone])?;
        // With many entries on a busy machine a pass takes its time.
        let end = Instant::now() + 5 * PATIENCE;
        while passes(self.totals()) < before + 2 {
            ensure!(Instant::now() < end, "no pass: {:?}", self.totals());
            flow.ask(ANSWER)?;
            thread::sleep(RHYTHM);
        }
        Ok(())
    }
}

const fn nf(family: plan::Family) -> msg::Family {
    match family {
        plan::Family::Ipv4 => msg::Family::IPV4,
        plan::Family::Ipv6 => msg::Family::IPV6,
    }
}

fn who(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Answered(answer) => &answer.by,
        Verdict::Rejected { .. } => "rejected",
        Verdict::Silent => "silent",
        _ => "otherwise",
    }
}

/// Sends until the flow ends as expected, which it must soon.
fn until(flow: &Flow, expected: &str) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let verdict = flow.ask(ANSWER)?;
        if who(&verdict) == expected {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{verdict:?} instead of {expected}");
        thread::sleep(RHYTHM);
    }
}

#[track_caller]
fn ends(flow: &Flow, expected: &str) -> Result<()> {
    let verdict = flow.ask(PATIENCE)?;
    ensure!(
        who(&verdict) == expected,
        "{verdict:?} instead of {expected}"
    );
    Ok(())
}

#[test]
fn flows_to_a_replaced_endpoint_move_by_address_and_by_node_port() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip, node, a, b, ..
        } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flows = [bench.flow(vip, PORT)?, bench.flow(node, NODE_PORT)?];
        for flow in &flows {
            ends(flow, "a")?;
        }
        bench.change([bench.slice(&[b])])?;
        for flow in &flows {
            until(flow, "b")?;
        }
        ensure!(bench.totals().deleted == 2, "{:?}", bench.totals());
        // The same address on another port is another endpoint.
        bench.topology.serve("b", Transport::Udp, TARGET + 1)?;
        bench.change([objects::slice("dns", &[b], &[Protocol::Udp], TARGET + 1)])?;
        let end = Instant::now() + PATIENCE;
        while bench.totals().deleted < 4 {
            ensure!(Instant::now() < end, "{:?}", bench.totals());
            flows[0].ask(ANSWER)?;
            thread::sleep(RHYTHM);
        }
        Ok(())
    })
}

#[test]
fn without_endpoints_a_sender_is_refused_and_served_again_later() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip, node, a, b, ..
        } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flows = [bench.flow(vip, PORT)?, bench.flow(node, NODE_PORT)?];
        for (endpoints, expected) in [(&[a][..], "a"), (&[], "rejected"), (&[b], "b")] {
            bench.change([bench.slice(endpoints)])?;
            for flow in &flows {
                until(flow, expected)?;
            }
        }
        Ok(())
    })
}

#[test]
fn a_sender_from_before_the_service_reaches_it() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, node, a, .. } = *bench.family;
        let flows = [bench.flow(vip, PORT)?, bench.flow(node, NODE_PORT)?];
        ends(&flows[0], SINK)?;
        // Nothing listens on the node.
        flows[1].ask(ANSWER)?;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        for flow in &flows {
            until(flow, "a")?;
        }
        Ok(())
    })
}

#[test]
fn an_address_that_comes_and_goes_takes_its_flows_along() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip, external, a, ..
        } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let kept = bench.flow(vip, PORT)?;
        ends(&kept, "a")?;
        let flow = bench.flow(external, PORT)?;
        ends(&flow, SINK)?;
        bench.change([bench.dns(&[external])])?;
        until(&flow, "a")?;
        bench.change([bench.dns(&[])])?;
        until(&flow, SINK)?;
        ends(&kept, "a")?;
        // The Service as a whole.
        bench.change([Change::ServiceGone(objects::name("dns"))])?;
        until(&kept, SINK)?;
        Ok(())
    })
}

#[test]
fn foreign_flows_to_the_same_numbers_stay() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            client,
            node,
            external,
            a,
            b,
            ..
        } = *bench.family;
        // Another port of the same address; the node port's number at other hosts; a process of the
        // node itself, from before the Service.
        bench.topology.serve("b", Transport::Udp, NODE_PORT)?;
        bench.change([bench.dns(&[external]), bench.slice(&[a, b])])?;
        let foreign = [
            (bench.flow(external, PORT + 1)?, SINK),
            (bench.flow(external, NODE_PORT)?, SINK),
            (bench.flow(b, NODE_PORT)?, "b"),
            (bench.flow(b, TARGET)?, "b"),
        ];
        for (flow, by) in &foreign {
            ends(flow, by)?;
        }
        let mut table = bench.table()?;
        // Never translated, to the frontend's own number, in great number.
        let from = |port| SocketAddr::new(client, port);
        let numbers = (1..2000_u16).filter(|port| *port != PORT);
        let flows = numbers.map(|port| (from(port), SocketAddr::new(external, port)));
        table.fill(Protocol::Udp, flows)?;
        let tcp = [(from(7), SocketAddr::new(node, NODE_PORT))];
        table.fill(Protocol::Tcp, tcp)?;
        let before = table.entries()?;

        let flow = bench.flow(external, PORT)?;
        let Verdict::Answered(answer) = flow.ask(PATIENCE)? else {
            bail!("no answer");
        };
        let (left, other) = if &*answer.by == "a" {
            (b, "b")
        } else {
            (a, "a")
        };
        bench.change([bench.slice(&[left])])?;
        until(&flow, other)?;
        bench.pass(&flow)?;
        ensure!(bench.totals().deleted == 1, "{:?}", bench.totals());
        let after = table.entries()?;
        for entry in &before {
            ensure!(after.contains(entry), "{entry:?} is gone");
        }
        for (flow, by) in &foreign {
            ends(flow, by)?;
        }
        Ok(())
    })
}

#[test]
fn endpoints_that_change_their_slice_or_their_state_keep_their_flows() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, b, .. } = *bench.family;
        let other = |endpoints: &[IpAddr]| {
            let mut change = bench.slice(endpoints);
            if let Change::EndpointSlice(slice) = &mut change {
                slice.name.name = "dns-2".into();
            }
            change
        };
        let both = [other(&[a, b]), other(&[a])];
        let mut terminating = bench.slice(&[a, b]);
        if let Change::EndpointSlice(slice) = &mut terminating {
            for endpoint in &mut slice.endpoints {
                (endpoint.ready, endpoint.terminating) = (false, true);
            }
        }
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flow = bench.flow(vip, PORT)?;
        ends(&flow, "a")?;
        bench.pass(&flow)?;
        let [in_both, only_second] = both;
        // In both slices, then only in the second, then neither for an instant.
        bench.change([in_both])?;
        bench.change([Change::EndpointSliceGone(objects::name("dns"))])?;
        bench.change([only_second, bench.slice(&[b])])?;
        bench
            .engine
            .apply(Change::EndpointSliceGone(objects::name("dns")));
        let mut second_gone = objects::name("dns");
        second_gone.name = "dns-2".into();
        bench.engine.apply(Change::EndpointSliceGone(second_gone));
        bench.change([bench.slice(&[a, b])])?;
        bench.change([terminating])?;
        bench.pass(&flow)?;
        ends(&flow, "a")?;
        ensure!(bench.totals().deleted == 0, "{:?}", bench.totals());
        Ok(())
    })
}

#[test]
fn a_restart_cuts_only_what_is_stale() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, b, .. } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let stale = bench.flow(vip, PORT)?;
        ends(&stale, "a")?;
        bench.change([bench.slice(&[a, b])])?;
        // Until one is found that goes to the other endpoint.
        let kept = loop {
            let flow = bench.flow(vip, PORT)?;
            if who(&flow.ask(PATIENCE)?) == "b" {
                break flow;
            }
        };
        let mut bench = bench.restart()?;
        let mut table = bench.table()?;
        let to = SocketAddr::new(vip, PORT);
        let served_by = |address| SocketAddr::new(address, TARGET);
        let entries = table.entries()?.into_iter().filter(|entry| entry.to == to);
        let (to_b, to_a): (Vec<_>, Vec<_>) =
            entries.partition(|entry| entry.served_by == served_by(b));
        ensure!(!to_a.is_empty() && !to_b.is_empty());
        bench.change([bench.dns(&[]), bench.slice(&[b])])?;
        until(&stale, "b")?;
        bench.pass(&kept)?;
        ensure!(
            bench.totals().deleted == u64::try_from(to_a.len())?,
            "{:?} of {to_a:?}",
            bench.totals()
        );
        let after = table.entries()?;
        ensure!(to_b.iter().all(|entry| after.contains(entry)), "{after:?}");
        ends(&kept, "b")
    })
}

/// A TCP port of the Service `web` at an address.
fn web(address: IpAddr) -> Change {
    objects::service("web", address, &[Protocol::Tcp], WEB)
}

#[test]
fn a_syn_from_before_the_service_is_sent_to_it() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, .. } = *bench.family;
        // Beyond the node nobody answers, and nobody refuses.
        ruleset::load(bench.topology.host(SINK)?.namespace(), DEAF)?;
        let to = SocketAddr::new(vip, WEB);
        let topology = bench.topology;
        thread::scope(|scope| {
            let connecting = scope.spawn(|| topology.connect("client", to, PATIENCE));
            let mut table = bench.table()?;
            let end = Instant::now() + PATIENCE;
            while !table.entries()?.iter().any(|entry| entry.to == to) {
                ensure!(Instant::now() < end, "no SYN was seen");
            }
            let slice = objects::slice("web", &[a], &[Protocol::Tcp], TARGET);
            bench.change([web(vip), slice])?;
            let connected = connecting.join().map_err(|_| anyhow!("it panicked"))?;
            let connection = connected.with_context(|| format!("{:?}", bench.totals()))?;
            let by = connection.answer().map(|answer| &*answer.by);
            ensure!(by == Some("a"), "{by:?}");
            ensure!(bench.totals().deleted == 1, "{:?}", bench.totals());
            Ok(())
        })
    })
}

#[test]
fn established_tcp_connections_are_never_cut() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip,
            external,
            a,
            b,
            ..
        } = *bench.family;
        let slice = |endpoints: &[IpAddr]| {
            objects::slice("web", endpoints, &[Protocol::Tcp, Protocol::Udp], TARGET)
        };
        let both = |address| objects::service("web", address, &[Protocol::Tcp, Protocol::Udp], WEB);
        bench.change([both(vip), slice(&[a])])?;
        bench.topology.serve(SINK, Transport::Tcp, WEB)?;
        let connect = |address| {
            let to = SocketAddr::new(address, WEB);
            bench.topology.connect("client", to, PATIENCE)
        };
        // One to an endpoint that goes, one to an address that becomes a frontend.
        let (mut translated, mut untranslated) = (connect(vip)?, connect(external)?);
        let flow = bench.flow(vip, WEB)?;
        ends(&flow, "a")?;
        let Change::Service(mut service) = both(vip) else {
            bail!("a Service");
        };
        service.external_ips = [external].into_iter().collect();
        bench.change([Change::Service(service), slice(&[b])])?;
        until(&flow, "b")?;
        bench.pass(&flow)?;
        for connection in [&mut translated, &mut untranslated] {
            connection.echo(b"still there", PATIENCE)?;
        }
        ensure!(bench.totals().deleted == 1, "{:?}", bench.totals());
        Ok(())
    })
}

/// A socket on which one batch gets lost.
struct Lossy {
    socket: Socket,
    lose: Arc<AtomicBool>,
}

impl nft_batch::Transport for Lossy {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let len = parts.iter().map(|part| part.len()).sum();
        let rows = parts.len() > 2;
        if rows && self.lose.swap(false, Ordering::Relaxed) {
            return Err(Errno::ENOBUFS);
        }
        self.socket.send(parts).map(|sent| sent.min(len))
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        self.socket.recv(buf, wait)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.socket.reserve(len)
    }
}

#[test]
fn what_a_failed_commit_leaves_behind_is_cut_with_the_next_one() -> Result<()> {
    on_each(|bench| {
        let Family { vip, a, b, .. } = *bench.family;
        let node = bench.topology.node();
        let lose = Arc::new(AtomicBool::new(false));
        let socket = node.run(Socket::open)??;
        let connection = Connection::new(Lossy {
            socket,
            lose: Arc::clone(&lose),
        })?;
        let mut engine = Engine::new(connection, |_| Config::default());
        engine.adopt(None)?;
        let reconciler = node.run(|| Reconciler::start(&Netns::Current))??;
        engine.tell_flows(reconciler.publisher());
        for change in [bench.dns(&[]), bench.slice(&[a])] {
            engine.apply(change);
        }
        engine::settle(&mut engine)?;
        let flow = bench.flow(vip, PORT)?;
        ends(&flow, "a")?;

        lose.store(true, Ordering::Relaxed);
        engine.apply(bench.slice(&[b]));
        ensure!(engine::settle(&mut engine).is_err(), "no commit failed");
        ensure!(!lose.load(Ordering::Relaxed));
        ends(&flow, "a")?;
        // Nothing else changes.
        engine::settle(&mut engine)?;
        until(&flow, "b")
    })
}

/// Entries beside the one that is stale; fewer where the kernel has room for fewer.
const MANY: usize = 500_000;
/// What they may cost.
const MEMORY: u64 = 64 << 20;

#[test]
fn memory_does_not_grow_with_foreign_flows() -> Result<()> {
    let limit = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max")?;
    let many = MANY.min(limit.trim().parse::<usize>()? / 10 * 9);
    on_each(|mut bench| {
        let Family {
            client,
            external,
            a,
            b,
            ..
        } = *bench.family;
        bench.change([bench.dns(&[external]), bench.slice(&[a])])?;
        let flow = bench.flow(external, PORT)?;
        ends(&flow, "a")?;
        let mut table = bench.table()?;
        // Of one address to all ports of another, and of further ports.
        let ports = 1..=u16::MAX;
        let flows = ports
            .clone()
            .flat_map(|from| ports.clone().map(move |to| (from, to)));
        let flows = flows.filter(|(_, to)| ![PORT, WEB].contains(to));
        let socket = |(from, to)| (SocketAddr::new(client, from), SocketAddr::new(external, to));
        let mut flows = flows.take(many).map(socket).peekable();
        while flows.peek().is_some() {
            table.fill(Protocol::Udp, flows.by_ref().take(many / 16))?;
            // Idle for half a minute, its entry would be gone.
            ends(&flow, "a")?;
        }
        // All of them are looked at: two ports are concerned.
        let web = objects::service("web", external, &[Protocol::Udp], WEB);
        let memory = Peak::begin()?;
        bench.change([web, bench.slice(&[b])])?;
        until(&flow, "b")?;
        bench.pass(&flow)?;
        let (grown, totals) = (memory.growth()?, bench.totals());
        println!(
            "{}: {many} foreign entries: {} seen in {} passes, {:?} in all, {} KiB more at most",
            bench.family.family,
            totals.seen,
            totals.passes,
            totals.busy,
            grown >> 10
        );
        ensure!(totals.seen >= u64::try_from(many)?, "{totals:?}");
        ensure!((totals.deleted, totals.failures) == (1, 0), "{totals:?}");
        ensure!(grown < MEMORY, "{grown} bytes");
        Ok(())
    })
}

/// The most memory of this process since a moment, beyond what it took then.
struct Peak(u64);

impl Peak {
    fn begin() -> Result<Self> {
        // Resets VmHWM, see proc(5).
        std::fs::write("/proc/self/clear_refs", "5")?;
        Ok(Self(Self::read("VmRSS:")?))
    }

    fn growth(&self) -> Result<u64> {
        Ok(Self::read("VmHWM:")?.saturating_sub(self.0))
    }

    fn read(name: &str) -> Result<u64> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kibibytes.context("no such line")?.trim().parse::<u64>()? << 10)
    }
}

#[test]
fn a_pass_is_counted_for_its_family_only() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, .. } = *bench.family;
        let counters: Arc<Counters> = bench.reconciler.counters();
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flow = bench.flow(vip, PORT)?;
        bench.pass(&flow)?;
        let other = match bench.family.family {
            plan::Family::Ipv4 => plan::Family::Ipv6,
            plan::Family::Ipv6 => plan::Family::Ipv4,
        };
        ensure!(counters.of(bench.family.family).passes > 0);
        ensure!(counters.of(other).seen == 0, "{:?}", counters.of(other));
        // Ends when it has looked into what it was told.
        bench.reconciler.finish();
        Ok(())
    })
}
