//! Too little memory, in a cgroup of its own: transactions that the kernel has no memory for, and a
//! program that is killed for what it wants, again and again, with a little more each time.

use core::{
    fmt::Write as _,
    net::IpAddr,
    ops::Range,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    collections::BTreeSet,
    fs,
    io::IoSlice,
    process::Command,
    sync::{Arc, mpsc},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::{bystander, folder::Folder, memory_cgroup::MemoryCgroup, objects, program::Program};
use kproxy::{
    engine::{Engine, Saver, StateDir, Wait},
    explain::LiveState,
    netns::Netns,
    proxy::{Periods, Proxy},
};
use netns_lab::Namespace;
use nft_batch::{Connection, Datagram, Errno, Socket, Transport};
use svc_planner::{
    Config,
    fake::{Host, Packet, oracle::Oracle},
    object::{Change, Protocol},
    plan::Family,
};

use crate::{
    cluster::{FAMILIES, config},
    socket::isolated,
};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const KIB: u64 = 1 << 10;
/// Refusals for want of memory that there must be.
const REFUSALS: usize = 5;
/// Longest wait for them, or for somebody to be killed.
const PATIENCE: Duration = Duration::from_secs(90);
/// How long it may take, with memory again, until all is as wanted. A Service that the kernel had no memory
/// for is set aside for two minutes at most.
const BOUND: Duration = Duration::from_secs(180);

fn address(family: Family, net: u8, number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    match family {
        Family::Ipv4 => IpAddr::from([10, net, high, low]),
        Family::Ipv6 => IpAddr::from([0xfd00, 0x10, 0, 0, 0, 0, net.into(), number]),
    }
}

/// A Service of one family with two endpoints.
fn service(family: Family, number: u16) -> [Change; 2] {
    let name = format!("s{number}-{family:?}").to_lowercase();
    let pods = [1, 2].map(|net| address(family, net, number));
    let cluster_ip = address(family, 96, number);
    let protocols = [Protocol::Tcp];
    [
        objects::service(&name, cluster_ip, &protocols, 80),
        objects::slice(&name, &pods, &protocols, 8080),
    ]
}

/// Such Services of both families.
fn changes(numbers: Range<u16>) -> impl Iterator<Item = Change> {
    let each = numbers.flat_map(|number| FAMILIES.map(|family| service(family, number)));
    each.flatten()
}

/// What Kubernetes wants of packets is what the kernel does with them. Every tenth Service is asked for,
/// and one that is not there.
fn check_packets(family: Family, services: u16) -> Result<()> {
    let mut connection = Connection::open()?;
    let host = Host::new([]);
    let client = address(family, 9, 1);
    for number in (0..services).step_by(10).chain([services]) {
        // Services do not concern each other.
        let mut oracle = Oracle::new(family, config(family));
        if number < services {
            service(family, number)
                .into_iter()
                .for_each(|change| oracle.apply(change));
        }
        let to = address(family, 96, number);
        let packet = Packet::arriving("eth0", client, to, Protocol::Tcp, 80);
        let live =
            LiveState::read(&mut connection, &packet, &host).with_context(|| packet.to_string())?;
        let outcomes = live.kernel.outcomes(&packet, &host).into_iter();
        let seen: BTreeSet<_> = outcomes.map(|(outcome, _)| outcome.verdict).collect();
        let wanted = oracle.verdicts(&packet, &host);
        ensure!(seen == wanted, "{packet}: {seen:?}, not {wanted:?}");
    }
    Ok(())
}

/// A socket whose sends are done with the cgroup's memory: all that the kernel does for a transaction.
struct Limited {
    socket: Socket,
    cgroup: Arc<MemoryCgroup>,
}

impl Transport for Limited {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let socket = &mut self.socket;
        let sent = self.cgroup.within(|| socket.send(parts));
        // Anything but ENOMEM: the thread could not go there and back.
        sent.unwrap_or(Err(Errno::EINVAL))
    }

    fn recv(&mut self, buf: &mut [u8], wait: nft_batch::Wait) -> Result<Datagram, Errno> {
        self.socket.recv(buf, wait)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.socket.reserve(len)
    }
}

/// Who commits, and what is to be in the kernel.
struct Bench {
    proxy: Proxy<Limited>,
    services: u16,
    folder: Folder,
}

impl Bench {
    fn new(cgroup: &Arc<MemoryCgroup>) -> Result<Self> {
        let folder = Folder::new()?;
        let limited = Limited {
            socket: Socket::open()?,
            cgroup: Arc::clone(cgroup),
        };
        let mut engine = Engine::new(Connection::new(limited)?, config);
        let state = StateDir::open(folder.path(), &Netns::Current)?;
        engine.adopt(Some(&state))?;
        let periods = Periods {
            min_sync: Duration::ZERO,
            sync: Duration::from_millis(50),
        };
        Ok(Self {
            proxy: Proxy::new(engine, Saver::new(Some(state)), periods),
            services: 0,
            folder,
        })
    }

    /// Adds Services and syncs; the last failure, if it failed.
    fn grow(&mut self, services: u16) -> Option<String> {
        for change in changes(self.services..self.services + services) {
            self.proxy.apply(change);
        }
        self.services += services;
        self.proxy.sync();
        let families = self.proxy.board().read().families;
        let failed = families.into_iter().filter(|it| it.failures > 0);
        failed.filter_map(|it| Some(it.last_error?.1)).next()
    }

    /// How long it takes until nothing is left to do.
    fn settle(&mut self) -> Result<Duration> {
        let started = Instant::now();
        loop {
            let wait = self.proxy.sync();
            let now = self.proxy.engine().clock().now();
            let families = self.proxy.board().read().families;
            let is_fine = families
                .iter()
                .all(|it| it.failures == 0 && it.queued_since.is_none());
            let reports = self.proxy.engine().reports();
            // What is tidied up is due by then, also if that was refused once.
            let tidied = now + 11 * Config::default().hold;
            let soon = matches!(wait, Wait::Until(time) if time < tidied);
            if is_fine && !soon && reports.is_empty() && self.proxy.engine().is_complete() {
                return Ok(started.elapsed());
            }
            ensure!(started.elapsed() < BOUND, "{families:?}, {reports:?}");
            if let Wait::Until(time) = wait {
                // Deadlines are points in time: there is no event.
                thread::sleep(time.saturating_sub(now).min(Duration::from_millis(50)));
            }
        }
    }

    /// Packets, and what a process finds that knows nothing but what was written down.
    fn check(self) -> Result<()> {
        for family in FAMILIES {
            check_packets(family, self.services)?;
        }
        self.proxy.finish()?;
        let state = StateDir::look(self.folder.path(), &Netns::Current)?;
        let mut engine = Engine::new(Connection::open()?, config);
        engine.adopt(Some(&state))?;
        for change in changes(0..self.services) {
            engine.apply(change);
        }
        let found = engine.dry_run()?;
        ensure!(found.is_empty(), "still to be done: {found:?}");
        Ok(())
    }
}

/// Commits while there is less and less memory, and tells of failures; `is_over` says that there is enough
/// again. How long it takes then.
fn run_short(
    cgroup: &Arc<MemoryCgroup>,
    is_over: &AtomicBool,
    told: &mpsc::Sender<String>,
) -> Result<Duration> {
    bystander::load()?;
    let others = bystander::listing()?;
    let mut bench = Bench::new(cgroup)?;
    let failed = bench.grow(50);
    ensure!(failed.is_none(), "with enough memory: {failed:?}");
    cgroup.limit(cgroup.usage()? + 256 * KIB)?;
    while !is_over.load(Ordering::Relaxed) {
        // So many that they do not fit, and not so many that it takes long afterwards.
        let more = if bench.services < 2_000 { 50 } else { 0 };
        if let Some(error) = bench.grow(more) {
            told.send(error)?;
        }
        // Its pace: there is no event.
        thread::sleep(Duration::from_millis(20));
    }
    let settled = bench.settle()?;
    bench.check()?;
    ensure!(bystander::listing()? == others, "others' tables: {others}");
    Ok(settled)
}

/// None if there are no memory cgroups.
fn cgroup(name: &str) -> Option<MemoryCgroup> {
    match MemoryCgroup::new(name) {
        Ok(cgroup) => Some(cgroup),
        Err(error) => {
            test_support::skip(&format!("{error:#}"));
            None
        }
    }
}

#[test]
fn without_memory_for_rows_it_goes_on_when_there_is_some_again() -> Result<()> {
    let Some(cgroup) = cgroup("rows") else {
        return Ok(());
    };
    if !cgroup.refuse_instead_of_killing()? {
        // The other test is for both versions.
        println!("not asked: cgroups of version 2 kill whoever wants too much");
        return Ok(());
    }
    let cgroup = Arc::new(cgroup);
    let is_over = Arc::new(AtomicBool::new(false));
    let (sender, told) = mpsc::channel();
    let running = {
        let (cgroup, is_over) = (Arc::clone(&cgroup), Arc::clone(&is_over));
        thread::spawn(move || isolated(move || run_short(&cgroup, &is_over, &sender)))
    };
    let deadline = Instant::now() + PATIENCE;
    let (mut refusals, mut last) = (0, String::new());
    while refusals < REFUSALS {
        match told.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(error) => {
                refusals += usize::from(error.contains("ENOMEM"));
                last = error;
            }
            Err(_) => break,
        }
    }
    is_over.store(true, Ordering::Relaxed);
    cgroup.unlimited()?;
    let settled = running.join().map_err(|_| anyhow!("it panicked"))??;
    cgroup.remove()?;
    println!("settled in {settled:.1?} after {refusals} refusals, the last one: {last}");
    ensure!(refusals >= REFUSALS, "{refusals} refusals: {last}");
    Ok(())
}

/// Services of the program that is killed.
const FEW: u16 = 50;
const MANY: u16 = 1_500;
/// More memory than it has with few Services: too little to begin with, enough in the end.
const EXTRA: [Option<u64>; 6] = [
    Some(1_024 * KIB),
    Some(2_048 * KIB),
    Some(4_096 * KIB),
    Some(8_192 * KIB),
    Some(16_384 * KIB),
    None,
];

fn manifests(services: u16) -> Result<String> {
    let mut text = String::new();
    for number in 0..services {
        let [service, first, second] = [96, 1, 2].map(|net| address(Family::Ipv4, net, number));
        write!(
            text,
            "apiVersion: v1
kind: Service
metadata: {{name: s{number}, namespace: test}}
spec: {{clusterIP: {service}, ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: s{number}, namespace: test, labels: {{kubernetes.io/service-name: s{number}}}}}
addressType: IPv4
ports: [{{port: 8080}}]
endpoints: [{{addresses: [{first}]}}, {{addresses: [{second}]}}]
---
"
        )?;
    }
    Ok(text)
}

/// The program, and what it works with.
struct Run {
    node: Namespace,
    manifests: Folder,
    state: Folder,
}

impl Run {
    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(KPROXY);
        command.args(words).args(["--no-node", "--state-dir"]);
        command.arg(self.state.path().join("state"));
        command
    }

    fn start(&self, cgroup: &MemoryCgroup) -> Result<Program> {
        let source = format!("dir:{}", self.manifests.path().display());
        let run = self.command(&["run", "--source", &source]);
        Program::start(
            &self.node,
            cgroup.holding(&run),
            &self.state.path().join("log"),
        )
    }

    /// Whether the kernel holds exactly what the manifests say.
    fn is_settled(&self) -> Result<bool> {
        let folder = self.manifests.path().display().to_string();
        let mut plan = self.command(&["plan", "-f", &folder]);
        let output = self.node.run(move || plan.output())??;
        match output.status.code() {
            Some(0) => Ok(true),
            // In between, the table changes faster than it can be read.
            Some(1 | 2) => Ok(false),
            _ => bail!("{output:?}"),
        }
    }

    /// Waits until all is in force or the program has ended; true if it has ended.
    fn ends_before_it_is_done(&self, program: &mut Program, bound: Duration) -> Result<bool> {
        let started = Instant::now();
        loop {
            // That it is done can only be looked for, which takes time of its own.
            if program.ended_within(Duration::from_millis(500))?.is_some() {
                return Ok(true);
            }
            if self.is_settled()? {
                return Ok(false);
            }
            if started.elapsed() > bound {
                // It lives from hand to mouth.
                program.kill()?;
                return Ok(true);
            }
        }
    }
}

#[test]
fn killed_for_want_of_memory_it_goes_on_when_there_is_more() -> Result<()> {
    let Some(cgroup) = cgroup("program") else {
        return Ok(());
    };
    let run = Run {
        node: Namespace::new("little-memory")?,
        manifests: Folder::new()?,
        state: Folder::new()?,
    };
    run.node.run(bystander::load)??;
    let others = run.node.run(bystander::listing)??;
    // What the program is read from is ours: a limit could otherwise be kept by reading it over and over.
    fs::read(KPROXY)?;
    run.manifests.write("services.yaml", &manifests(FEW)?)?;
    let mut program = run.start(&cgroup)?;
    ensure!(
        !run.ends_before_it_is_done(&mut program, BOUND)?,
        "{}",
        program.tail()?
    );
    let base = cgroup.usage()?;
    cgroup.limit(base + 512 * KIB)?;
    run.manifests.write("services.yaml", &manifests(MANY)?)?;
    let mut ended = run.ends_before_it_is_done(&mut program, PATIENCE)?;
    for extra in EXTRA {
        if !ended {
            break;
        }
        match extra {
            Some(extra) => cgroup.limit(base + extra)?,
            None => cgroup.unlimited()?,
        }
        fs::read(KPROXY)?;
        program = run.start(&cgroup)?;
        let bound = if extra.is_some() { PATIENCE } else { BOUND };
        ended = run.ends_before_it_is_done(&mut program, bound)?;
        println!(
            "{extra:?} bytes more than {base}: {} killed so far",
            cgroup.kills()?
        );
    }
    ensure!(!ended, "not even with all memory: {}", program.tail()?);
    ensure!(cgroup.kills()? > 0, "nobody was killed");
    program.stop()?;
    cgroup.remove()?;
    run.node.run(|| check_packets(Family::Ipv4, MANY))??;
    let listing = run.node.run(bystander::listing)??;
    ensure!(listing == others, "tables of others: {listing}");
    Ok(())
}
