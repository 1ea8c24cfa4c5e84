//! The saved state that tells what rows stand for is lost, older than the table, another's, or damaged:
//! whatever it is, the next process refuses and misdirects nobody, clients that stick go on to stick,
//! and in the end the kernel holds what it should.

use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};
use std::{fs, path::PathBuf, thread, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    engine,
    folder::Folder,
    objects,
    requests::{PODS, under_requests},
};
use kproxy::engine::{Engine, GuardOptions, StateDir};
use kproxy::netns::Netns;
use netns_lab::{Connection, Probe, Topology, Transport, Verdict};
use svc_planner::{
    Config,
    object::{Change, Protocol},
    plan::Family,
};

const PORT: u16 = 80;
const PROTOCOLS: [Protocol; 2] = [Protocol::Tcp, Protocol::Udp];
const PATIENCE: Duration = Duration::from_secs(20);
/// Requests of each family that are answered between two events.
const BETWEEN: usize = 20;
const CLIENTS: [&str; 3] = ["client", "other-client", "node"];
/// Services with one endpoint each, of which one goes and one comes with each epoch: numbers are used
/// again, for others.
const CHANGING: u8 = 6;

/// What becomes of what a process has written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    /// Killed after a commit, before it was written down.
    Older,
    /// Restored from a copy that is older still.
    Restored,
    /// That of another node, with as many transactions and the same Services.
    OfAnotherNode,
    /// One digit is another one.
    Damaged,
    Truncated,
    /// Written by a release that knows more.
    Newer,
}

const FATES: [Fate; 8] = [
    Fate::Kept,
    Fate::Lost,
    Fate::Older,
    Fate::Restored,
    Fate::OfAnotherNode,
    Fate::Damaged,
    Fate::Truncated,
    Fate::Newer,
];

fn address(v6: bool, net: u8, host: u8) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0xfd00, u16::from(net), 0, 0, 0, 0, 0, u16::from(host)).into()
    } else {
        Ipv4Addr::new(10, net, 0, host).into()
    }
}

fn both(net: u8, host: u8) -> [IpAddr; 2] {
    [address(false, net, host), address(true, net, host)]
}

fn network() -> Result<Topology> {
    let mut builder = Topology::builder()
        .node(both(168, 1))
        .host("client", both(9, 1))
        .host("other-client", both(9, 2));
    for (number, pod) in (1..).zip(PODS) {
        builder = builder.host(pod, both(1, number));
    }
    let topology = builder.build()?;
    for pod in PODS {
        topology.serve(pod, Transport::Tcp, PORT)?;
        topology.serve(pod, Transport::Udp, PORT)?;
    }
    Ok(topology)
}

fn web(v6: bool) -> SocketAddr {
    (address(v6, 96, 1), PORT).into()
}

fn sticky(v6: bool) -> SocketAddr {
    (address(v6, 96, 2), PORT).into()
}

/// Address and pod of one of the changing Services.
fn changing(v6: bool, number: u8) -> (SocketAddr, u8) {
    let to = (address(v6, 97, number), PORT).into();
    (to, number % 3 + 1)
}

/// A Service of one family, with its slice.
fn served(
    name: &str,
    v6: bool,
    to: SocketAddr,
    pods: &[u8],
    affinity: Option<u32>,
) -> Result<[Change; 2]> {
    let name = format!("{name}-{}", if v6 { 6 } else { 4 });
    let pods: Vec<_> = pods.iter().map(|pod| address(v6, 1, *pod)).collect();
    let Change::Service(mut service) = objects::service(&name, to.ip(), &PROTOCOLS, PORT) else {
        bail!("a Service");
    };
    service.affinity = affinity;
    Ok([
        Change::Service(service),
        objects::slice(&name, &pods, &PROTOCOLS, PORT),
    ])
}

/// All there is in an epoch.
fn world(epoch: u8) -> Result<Vec<Change>> {
    let mut changes = Vec::new();
    for v6 in [false, true] {
        changes.extend(served("web", v6, web(v6), &[1, 2, 3], None)?);
        changes.extend(served("sticky", v6, sticky(v6), &[1, 2, 3], Some(600))?);
        for number in epoch..epoch + CHANGING {
            let (to, pod) = changing(v6, number);
            changes.extend(served(&format!("s{number}"), v6, to, &[pod], None)?);
        }
    }
    Ok(changes)
}

/// What changes from the epoch before.
fn step(epoch: u8) -> Result<Vec<Change>> {
    let mut changes = world(epoch)?;
    for family in [4, 6] {
        let gone = format!("s{}-{family}", epoch - 1);
        changes.push(Change::ServiceGone(objects::name(&gone)));
        changes.push(Change::EndpointSliceGone(objects::name(&gone)));
    }
    Ok(changes)
}

/// A process of the proxy.
struct Process {
    engine: Engine,
    state: StateDir,
    rows: usize,
}

impl Process {
    fn start(topology: &Topology, folder: &Folder, run: u32, epoch: u8) -> Result<Self> {
        let mut engine = engine::start(topology.node(), move |_| Config {
            instance: run,
            node_name: "node".into(),
            ..Config::default()
        })?;
        let path = folder.path().to_owned();
        let (engine, state) = topology.node().run(move || -> Result<_> {
            let state = StateDir::open(&path, &Netns::Current)?;
            engine.adopt(Some(&state))?;
            for change in world(epoch)? {
                engine.apply(change);
            }
            let options = GuardOptions {
                pass: Duration::from_millis(200),
                ..GuardOptions::default()
            };
            engine.guard(&Netns::Current, options, || ())?;
            Ok((engine, state))
        })??;
        let mut process = Self {
            engine,
            state,
            rows: 0,
        };
        process.settle()?;
        Ok(process)
    }

    fn settle(&mut self) -> Result<()> {
        let rows = &mut self.rows;
        engine::settle_with(&mut self.engine, |it| *rows += it.rows())
    }

    /// On to an epoch; numbers that fall free may be used again with the next one.
    fn go_to(&mut self, epoch: u8) -> Result<()> {
        step(epoch)?
            .into_iter()
            .for_each(|change| self.engine.apply(change));
        let end = Instant::now() + Config::default().hold * 3;
        while Instant::now() < end {
            self.settle()?;
            // What is waited for is that time goes by.
            thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// All rows are compared, and nothing is found to be wrong.
    fn is_right(&mut self) -> Result<()> {
        for family in [Family::Ipv4, Family::Ipv6] {
            let before = self.engine.interference(family);
            let end = Instant::now() + PATIENCE;
            loop {
                let seen = self.engine.interference(family);
                ensure!(seen.mends + seen.rows + seen.rebuilds == 0, "{seen:?}");
                if seen.passes > before.passes + 1 && seen.counts > before.counts + 1 {
                    break;
                }
                ensure!(Instant::now() < end, "{seen:?}");
                self.settle()?;
                thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }
}

/// The saved states in a folder, those of the two families in order.
fn files(folder: &Folder) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder.path())? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "json") {
            files.push(path);
        }
    }
    // Names end with the family.
    files.sort();
    Ok(files)
}

fn read(folder: &Folder) -> Result<Vec<Vec<u8>>> {
    let files = files(folder)?;
    ensure!(files.len() == 2, "{files:?}");
    Ok(files.iter().map(fs::read).collect::<Result<_, _>>()?)
}

/// Another digit in the middle of a file.
fn damage(bytes: &mut [u8]) -> Result<()> {
    let middle = bytes.len() / 2;
    let digit = bytes.iter_mut().skip(middle).find(|it| it.is_ascii_digit());
    let digit = digit.context("no digit")?;
    *digit = if *digit == b'1' { b'2' } else { b'1' };
    Ok(())
}

/// Of a later version, intact: what it says of itself is true.
fn advance(bytes: &[u8]) -> Result<Vec<u8>> {
    let text = core::str::from_utf8(bytes)?.trim_end();
    let (json, _) = text.rsplit_once('\n').context("no last line")?;
    let (before, after) = json.split_once("\"version\":").context("no version")?;
    let digits = after.len()
        - after
            .trim_start_matches(|it: char| it.is_ascii_digit())
            .len();
    let (number, after) = after.split_at(digits);
    let json = format!("{before}\"version\":{}{after}", number.parse::<u32>()? + 1);
    // FNV-1a, 64 bits.
    let sum = json.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Ok(format!("{json}\n{sum:016x}\n").into_bytes())
}

fn write(folder: &Folder, contents: &[Vec<u8>]) -> Result<()> {
    for (file, bytes) in files(folder)?.iter().zip(contents) {
        fs::write(file, bytes)?;
    }
    Ok(())
}

fn reached(topology: &Topology, from: &str, to: SocketAddr) -> Result<Box<str>> {
    let transport = Transport::Tcp;
    match topology.probe(from, Probe { transport, to }, PATIENCE)? {
        Verdict::Answered(answer) => Ok(answer.by),
        other => bail!("{to} from {from}: {other:?}"),
    }
}

/// Who each client sticks to.
fn stuck(topology: &Topology) -> Result<Vec<Box<str>>> {
    let ways = CLIENTS
        .iter()
        .flat_map(|from| [(from, false), (from, true)]);
    ways.map(|(from, v6)| reached(topology, from, sticky(v6)))
        .collect()
}

#[test]
fn whatever_becomes_of_the_saved_state_nobody_notices() -> Result<()> {
    for fate in FATES {
        let start = Instant::now();
        let rows = after(fate).with_context(|| format!("{fate:?}"))?;
        println!(
            "{fate:?}: {rows} rows written, {:?} in all",
            start.elapsed()
        );
    }
    Ok(())
}

/// Rows that the next process wrote.
fn after(fate: Fate) -> Result<usize> {
    let (topology, folder) = (network()?, Folder::new()?);
    let mut process = Process::start(&topology, &folder, 1, 1)?;
    let all = process.rows;
    process.engine.save(&process.state)?;
    let oldest = read(&folder)?;
    let connect = |v6| topology.connect("client", web(v6), PATIENCE);
    let mut connections: [Connection; 2] = [connect(false)?, connect(true)?];
    let stuck_before = stuck(&topology)?;
    for epoch in 2..=4 {
        process.go_to(epoch)?;
    }
    process.engine.save(&process.state)?;
    let mut epoch = 4;
    let mut rows = 0;
    under_requests(&topology, web(false), |v4| {
        under_requests(&topology, web(true), |v6| {
            v4.more(BETWEEN);
            v6.more(BETWEEN);
            let mut contents = read(&folder)?;
            match fate {
                Fate::Kept => {}
                Fate::Lost => {
                    for file in files(&folder)? {
                        fs::remove_file(file)?;
                    }
                    contents.clear();
                }
                Fate::Older => {
                    epoch += 1;
                    process.go_to(epoch)?;
                }
                Fate::Restored => contents = oldest,
                Fate::OfAnotherNode => contents = another()?,
                Fate::Damaged => {
                    for bytes in &mut contents {
                        damage(bytes)?;
                    }
                }
                Fate::Truncated => {
                    contents
                        .iter_mut()
                        .for_each(|bytes| bytes.truncate(bytes.len() / 2));
                }
                Fate::Newer => {
                    for bytes in &mut contents {
                        *bytes = advance(bytes)?;
                    }
                }
            }
            write(&folder, &contents)?;
            drop(process);
            // What changed while none was at work.
            epoch += 1;
            let begin = Instant::now();
            let mut process = Process::start(&topology, &folder, 2, epoch)?;
            let took = begin.elapsed();
            rows = process.rows;
            // A Service went and one came, in each family; else all is written anew, once.
            let few = 60;
            ensure!(fate != Fate::Kept || rows < few, "{rows} rows");
            ensure!(rows <= all + few, "{rows} rows, {all} at first");
            ensure!(took < PATIENCE, "{took:?}");

            ensure!(stuck(&topology)? == stuck_before, "clients moved");
            for v6 in [false, true] {
                for number in epoch..epoch + CHANGING {
                    let (to, pod) = changing(v6, number);
                    let by = reached(&topology, "client", to)?;
                    ensure!(*by == format!("pod-{pod}"), "{to} is answered by {by}");
                }
            }
            process.is_right()?;
            ensure!(stuck(&topology)? == stuck_before, "clients moved later");
            v4.more(BETWEEN);
            v6.more(BETWEEN);
            Ok(())
        })?;
        Ok(())
    })?;
    for connection in &mut connections {
        connection.echo(b"still there", PATIENCE)?;
    }
    Ok(rows)
}

/// What a process on another node has written down.
fn another() -> Result<Vec<Vec<u8>>> {
    let (topology, folder) = (network()?, Folder::new()?);
    let mut process = Process::start(&topology, &folder, 3, 1)?;
    for epoch in 2..=4 {
        process.go_to(epoch)?;
    }
    process.engine.save(&process.state)?;
    read(&folder)
}
