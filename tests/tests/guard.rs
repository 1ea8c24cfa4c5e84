//! Traffic while the proxy ends and starts again, and while others change its tables.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{
    process::Command,
    sync::{Mutex, PoisonError, mpsc},
};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    engine,
    folder::Folder,
    objects,
    requests::{topology, under_requests},
};
use kproxy::engine::{Engine, GuardOptions, StateDir};
use kproxy::netns::Netns;
use netns_lab::{Probe, Topology, Transport, Verdict};
use svc_planner::{
    Config,
    object::Protocol,
    plan::{Family, Transaction},
};

const PORT: u16 = 80;
const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];
/// With the names of their tables' families.
const FAMILIES: [(Family, &str); 2] = [(Family::Ipv4, "ip"), (Family::Ipv6, "ip6")];
/// Passes only when a test fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// A program that one test starts would for a moment hold the lock that the other gives up.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// Requests answered between two events.
const BETWEEN: usize = 40;

/// ClusterIPs of the Service that is asked, and of another one.
fn vips(family: Family) -> [IpAddr; 2] {
    match family {
        Family::Ipv4 => [41, 42].map(|it| [172, 30, 0, it].into()),
        Family::Ipv6 => [41, 42].map(|it| [0xfd00, 0x10, 0x96, 0, 0, 0, 0, it].into()),
    }
}

fn pod(family: Family, number: u8) -> IpAddr {
    match family {
        Family::Ipv4 => [10, 0, 1, number].into(),
        Family::Ipv6 => [0xfd00, 0x10, 0, 0, 0, 0, 1, number.into()].into(),
    }
}

/// A process of the proxy.
struct Process {
    engine: Engine,
    state: StateDir,
    woken: mpsc::Receiver<()>,
    rows: usize,
}

impl Process {
    /// Starts one, as `kproxy run` does.
    fn start(topology: &Topology, folder: &Folder, family: Family, run: u32) -> Result<Self> {
        let connected = engine::start(topology.node(), move |_| Config {
            instance: run,
            ..Config::default()
        })?;
        let path = folder.path().to_owned();
        let (woke, woken) = mpsc::channel();
        let started = topology.node().run(move || -> Result<_> {
            let mut engine = connected;
            let state = StateDir::open(&path, &Netns::Current)?;
            engine.adopt(Some(&state))?;
            for (name, vip) in ["web", "other"].into_iter().zip(vips(family)) {
                let pods = [1, 2, 3].map(|number| pod(family, number));
                engine.apply(objects::service(name, vip, &PROTOCOLS, PORT));
                engine.apply(objects::slice(name, &pods, &PROTOCOLS, PORT));
            }
            let options = GuardOptions::default();
            engine.guard(&Netns::Current, options, move || {
                woke.send(()).unwrap_or_default();
            })?;
            Ok((engine, state))
        })??;
        let (engine, state) = started;
        let mut process = Self {
            engine,
            state,
            woken,
            rows: 0,
        };
        process.settle()?;
        Ok(process)
    }

    fn settle(&mut self) -> Result<()> {
        let rows = &mut self.rows;
        engine::settle_with(&mut self.engine, |it: &Transaction| *rows += it.rows())
    }

    /// Waits until a change by others is noticed, and has it put right.
    fn recover(&mut self) -> Result<()> {
        self.woken.recv_timeout(PATIENCE)?;
        self.settle()
    }
}

fn nft(topology: &Topology, commands: &str) -> Result<()> {
    let commands = commands.to_owned();
    let output = topology
        .node()
        .run(move || Command::new("nft").arg(commands).output())??;
    ensure!(output.status.success(), "{output:?}");
    Ok(())
}

#[test]
fn restarts_and_kills_lose_no_request() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    FAMILIES
        .into_iter()
        .try_for_each(|(family, _)| restart_and_kill(family).with_context(|| format!("{family:?}")))
}

fn restart_and_kill(family: Family) -> Result<()> {
    let (topology, folder) = (topology(PORT)?, Folder::new()?);
    let mut process = Process::start(&topology, &folder, family, 0)?;
    let to = SocketAddr::new(vips(family)[0], PORT);
    let mut connection = topology.connect("client", to, PATIENCE)?;
    under_requests(&topology, to, |requests| {
        let mut saved = false;
        for run in 1..=20 {
            requests.more(BETWEEN);
            // Asked to end, killed when idle, killed with changes that it had no time to write down,
            // and with what it wrote lost.
            match run % 4 {
                0 | 1 => {
                    process.engine.save(&process.state)?;
                    saved = true;
                }
                2 => {}
                _ => {
                    let pods = [3, 1].map(|number| pod(family, number));
                    let moved = objects::slice("web", &pods, &PROTOCOLS, PORT);
                    process.engine.apply(moved);
                    process.settle()?;
                    saved = false;
                }
            }
            drop(process);
            if run % 5 == 0 {
                for entry in std::fs::read_dir(folder.path())? {
                    let path = entry?.path();
                    if path.extension().is_some_and(|kind| kind == "json") {
                        std::fs::remove_file(path)?;
                    }
                }
                saved = false;
            }
            process = Process::start(&topology, &folder, family, run)?;
            ensure!(
                (process.rows == 0) == saved,
                "run {run} wrote {} rows",
                process.rows
            );
            connection
                .echo(format!("run {run}").as_bytes(), PATIENCE)
                .with_context(|| format!("run {run}"))?;
        }
        requests.more(BETWEEN);
        Ok(())
    })?;
    Ok(())
}

#[test]
fn edits_of_others_are_put_right_under_traffic() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    FAMILIES.into_iter().try_for_each(|(family, name)| {
        edit_under_traffic(family, name).with_context(|| format!("{family:?}"))
    })
}

fn edit_under_traffic(family: Family, name: &str) -> Result<()> {
    let (topology, folder) = (topology(PORT)?, Folder::new()?);
    let mut process = Process::start(&topology, &folder, family, 0)?;
    let [vip, other] = vips(family);
    let to = SocketAddr::new(vip, PORT);
    let table = format!("{name} kube-proxy");
    let mut connection = topology.connect("client", to, PATIENCE)?;
    // Of another Service, and things that are not ours: our requests do not notice.
    under_requests(&topology, to, |requests| {
        for edit in [
            format!("delete element {table} services {{ {other} . tcp . 80 }}"),
            format!("add chain {table} theirs; add rule {table} theirs drop"),
        ] {
            requests.more(BETWEEN);
            nft(&topology, &edit)?;
            process.recover()?;
        }
        requests.more(BETWEEN);
        Ok(())
    })?;
    // Of everything: served again as soon as it is put right, and no open connection is lost.
    drop(process);
    for edit in [
        "flush ruleset".to_owned(),
        format!("delete table {table}"),
        format!("flush chain {table} services"),
        format!("flush map {table} services"),
        format!("insert rule {table} services drop"),
    ] {
        let mut process = Process::start(&topology, &folder, family, 1)?;
        nft(&topology, &edit)?;
        process.recover()?;
        for from in ["client", "node"] {
            for transport in [Transport::Tcp, Transport::Udp] {
                let verdict = topology.probe(from, Probe { transport, to }, PATIENCE)?;
                ensure!(
                    matches!(verdict, Verdict::Answered(_)),
                    "{edit}: {transport} from {from}: {verdict:?}"
                );
            }
        }
        connection
            .echo(edit.as_bytes(), PATIENCE)
            .with_context(|| edit.clone())?;
        let seen = process.engine.interference(family);
        ensure!(seen.edits > 0, "{edit}: {seen:?}");
        process.engine.save(&process.state)?;
    }
    Ok(())
}
