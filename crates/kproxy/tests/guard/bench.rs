//! A guarded engine, and what others do to its tables.

use core::net::IpAddr;
use core::time::Duration;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use kproxy::engine::{Engine, GuardOptions, Interference, TABLE, Wait};
use kproxy::lower::nf_family;
use kproxy::netns::Netns;
use nft_batch::{Batch, BatchOptions, Connection, Socket, Transport};
use nl_codec::nft::{Elem, Value};
use svc_planner::Config;
use svc_planner::plan::Family;
use test_support::in_new_netns;

use crate::objects;

/// Passes only when a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// How soon a change must have been noticed.
pub(crate) const NOTICED: Duration = Duration::from_millis(100);
/// How soon it must be put right.
const MENDED: Duration = Duration::from_secs(1);
pub(crate) const SERVICES: u16 = 50;
/// With the names of their tables' families.
pub(crate) const FAMILIES: [(Family, &str); 2] = [(Family::Ipv4, "ip"), (Family::Ipv6, "ip6")];

/// A guarded engine, and when it was woken.
pub(crate) struct Bench<T: Transport = Socket> {
    /// Of all Services, and of the table that is looked at.
    pub(crate) family: Family,
    pub(crate) engine: Engine<T>,
    pub(crate) woken: mpsc::Receiver<Instant>,
    /// The table as it is when nobody has touched it.
    pub(crate) intact: Vec<String>,
}

/// Serves some Services in a new network namespace, guarded; once in each family.
pub(crate) fn guarded(services: u16, test: impl FnOnce(Bench) + Clone + Send + 'static) {
    guarded_with(GuardOptions::default(), services, test);
}

pub(crate) fn guarded_with(
    options: GuardOptions,
    services: u16,
    test: impl FnOnce(Bench) + Clone + Send + 'static,
) {
    guarded_over(|socket| socket, options, services, test);
}

/// As [`guarded_with`], with something between the engine and its socket.
pub(crate) fn guarded_over<T: Transport>(
    between: impl FnOnce(Socket) -> T + Clone + Send + 'static,
    options: GuardOptions,
    services: u16,
    test: impl FnOnce(Bench<T>) + Clone + Send + 'static,
) {
    for (family, name) in FAMILIES {
        let (between, test) = (between.clone(), test.clone());
        in_new_netns(move || {
            let connection = Connection::new(between(Socket::open().unwrap())).unwrap();
            let (woke, woken) = mpsc::channel();
            let wake = move || woke.send(Instant::now()).unwrap_or_default();
            let engine = guarded_engine(connection, family, options, services, wake);
            let mut bench = Bench {
                family,
                engine,
                woken,
                intact: Vec::new(),
            };
            bench.sync();
            bench.intact = listing(name);
            assert_eq!(bench.woken.try_iter().count(), 0, "own changes wake nobody");
            test(bench);
        });
    }
}

/// A guarded engine that is to serve some Services.
pub(crate) fn guarded_engine<T: Transport>(
    connection: Connection<T>,
    family: Family,
    options: GuardOptions,
    services: u16,
    wake: impl Fn() + Send + 'static,
) -> Engine<T> {
    let mut engine = Engine::new(connection, |_| Config::default());
    engine.adopt(None).unwrap();
    engine.guard(&Netns::Current, options, wake).unwrap();
    for number in 0..services {
        add(&mut engine, family, number);
    }
    engine
}

impl<T: Transport> Bench<T> {
    /// Sends everything but what waits to be tidied up.
    pub(crate) fn sync(&mut self) {
        let clock = self.engine.clock();
        let limit = clock.now() + Config::default().settle * 4;
        while let Wait::Until(time) = self.engine.sync(|_, _| ()).unwrap() {
            if time > limit.max(clock.now()) {
                return;
            }
            while clock.now() < time {
                std::thread::yield_now();
            }
        }
    }

    /// Waits until the change that was just made is noticed, and has it put right.
    pub(crate) fn recover(&mut self) {
        let start = Instant::now();
        let noticed = self.woken.recv_timeout(PATIENCE).unwrap();
        self.sync();
        let (noticed, mended) = (noticed.duration_since(start), start.elapsed());
        assert!(noticed < NOTICED, "noticed after {noticed:?}");
        assert!(mended < MENDED, "put right after {mended:?}");
        self.woken.try_iter().for_each(drop);
    }

    /// The table as it is now, see [`listing`].
    pub(crate) fn listing(&self) -> Vec<String> {
        listing(table_family(self.family))
    }

    /// Runs nft's commands for this family, see [`in_family`].
    pub(crate) fn nft(&self, commands: &str) -> String {
        nft(&in_family(self.family, commands))
    }

    /// Nothing differs from what it was.
    pub(crate) fn check(&self, edit: &str) {
        let now = self.listing();
        let missing: Vec<_> = self.intact.iter().filter(|it| !now.contains(it)).collect();
        let surplus: Vec<_> = now.iter().filter(|it| !self.intact.contains(it)).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "{edit}: {missing:#?} {surplus:#?}"
        );
    }

    /// How many rows a set has, if the kernel tells.
    pub(crate) fn rows(&mut self, name: &str) -> Option<u32> {
        let mut rows = None;
        let family = nf_family(self.family);
        let connection = self.engine.connection();
        let read = connection.dump_sets(family, TABLE, |set| {
            let this = set.name.and_then(|it| it.to_str()).unwrap_or_default();
            let number = this
                .strip_prefix(name)
                .map(|rest| rest.trim_start_matches('-'));
            if number.is_some_and(|it| it.parse::<u32>().is_ok() || it.is_empty()) {
                rows = set.count;
            }
        });
        read.unwrap();
        rows
    }

    /// Whether the kernel tells how many rows a set has (Linux 6.17).
    pub(crate) fn counts_rows(&mut self) -> bool {
        let family = nf_family(self.family);
        let connection = self.engine.connection();
        let count = connection.set_info(family, TABLE, "state", |set| set.count);
        count.unwrap().is_some()
    }

    pub(crate) fn seen(&self) -> Interference {
        self.engine.interference(self.family)
    }
}

/// Takes a Service with an endpoint in.
pub(crate) fn add<T: Transport>(engine: &mut Engine<T>, family: Family, number: u16) {
    for change in objects::served_of(family, number) {
        engine.apply(change);
    }
}

/// The table as nft lists it: blocks, and rows within a set, in alphabetical order; without the row
/// that marks the state.
pub(crate) fn listing(family: &str) -> Vec<String> {
    let output = nft(&format!("list table {family} {TABLE}"));
    let mut blocks: Vec<Vec<String>> = vec![Vec::new()];
    for line in output.lines().map(str::trim) {
        if line.starts_with("set ") || line.starts_with("map ") || line.starts_with("chain ") {
            blocks.push(Vec::new());
        }
        // The last block ends with the table.
        if line == "}" || line.is_empty() {
            continue;
        }
        // Elements one by one.
        let parts = line.split(',').map(|part| {
            let part = part.trim().trim_start_matches("elements = {");
            part.trim_end_matches('}').trim().to_owned()
        });
        let block = blocks.last_mut().unwrap();
        if block.first().is_some_and(|name| name.starts_with("chain ")) {
            block.push(line.to_owned());
        } else {
            block.extend(parts.filter(|part| !part.is_empty()));
        }
    }
    let mut lines: Vec<String> = blocks
        .into_iter()
        .filter(|block| !block.iter().any(|line| line.starts_with("set state")))
        .map(|mut block| {
            if !block.first().is_some_and(|name| name.starts_with("chain ")) {
                block.sort();
            }
            block.join("; ")
        })
        .collect();
    lines.sort();
    lines
}

pub(crate) const fn other(family: Family) -> Family {
    match family {
        Family::Ipv4 => Family::Ipv6,
        Family::Ipv6 => Family::Ipv4,
    }
}

/// Name of a family of tables.
pub(crate) const fn table_family(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "ip",
        Family::Ipv6 => "ip6",
    }
}

/// Commands for one family: in them `$table` stands for its table, `$other` for that of the other one,
/// and `$7` for the ClusterIP of Service 7.
pub(crate) fn in_family(family: Family, commands: &str) -> String {
    let table = |family| format!("{} {TABLE}", table_family(family));
    let commands = commands.replace("$table", &table(family));
    let commands = commands.replace("$other", &table(other(family)));
    let mut parts = commands.split('$');
    let mut filled = parts.next().unwrap().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|it: char| it.is_ascii_digit());
        let number: u16 = part.strip_suffix(rest).unwrap().parse().unwrap();
        filled += &objects::cluster_ip_of(family, number).to_string();
        filled += rest;
    }
    filled
}

pub(crate) fn nft(commands: &str) -> String {
    let output = Command::new("nft").arg(commands).output().unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Handles of all sets: they change when a set is made anew.
pub(crate) fn set_handles(bench: &mut Bench) -> Vec<Option<u64>> {
    let mut handles = Vec::new();
    let family = nf_family(bench.family);
    let connection = bench.engine.connection();
    connection
        .dump_sets(family, TABLE, |set| handles.push(set.handle))
        .unwrap();
    handles
}

/// Commits something as another process would, or as we do if it is our connection.
pub(crate) fn commit<T: Transport>(connection: &mut Connection<T>, build: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new(BatchOptions::default());
    build(&mut batch);
    let outcome = connection.commit(&mut batch.seal());
    assert!(outcome.is_committed(), "{outcome}");
}

pub(crate) fn delete_cluster_ip<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
    number: u16,
) {
    commit(connection, |batch| {
        let set = batch
            .set(nf_family(family), TABLE, "cluster-addresses")
            .unwrap();
        let key = octets(objects::cluster_ip_of(family, number));
        let elem = Elem::new(Value::new(&key));
        batch.delete_elements(set, [elem]).unwrap();
    });
}

/// An address as it is in keys.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().into(),
        IpAddr::V6(address) => address.octets().into(),
    }
}
