//! A guarded engine, and what others do to its tables.

use core::time::Duration;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use kproxy::engine::{Engine, GuardOptions, Interference, TABLE, Wait};
use kproxy::netns::Netns;
use nft_batch::{Batch, BatchOptions, Connection, Socket, Transport};
use nl_codec::msg::Family as NfFamily;
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

/// A guarded engine, and when it was woken.
pub(crate) struct Bench<T: Transport = Socket> {
    pub(crate) engine: Engine<T>,
    pub(crate) woken: mpsc::Receiver<Instant>,
    /// The table as it is when nobody has touched it.
    pub(crate) intact: Vec<String>,
}

/// Serves some Services in a new network namespace, guarded.
pub(crate) fn guarded(services: u16, test: impl FnOnce(Bench) + Send + 'static) {
    guarded_with(GuardOptions::default(), services, test);
}

pub(crate) fn guarded_with(
    options: GuardOptions,
    services: u16,
    test: impl FnOnce(Bench) + Send + 'static,
) {
    guarded_over(|socket| socket, options, services, test);
}

/// As [`guarded_with`], with something between the engine and its socket.
pub(crate) fn guarded_over<T: Transport>(
    between: impl FnOnce(Socket) -> T + Send + 'static,
    options: GuardOptions,
    services: u16,
    test: impl FnOnce(Bench<T>) + Send + 'static,
) {
    in_new_netns(move || {
        let connection = Connection::new(between(Socket::open().unwrap())).unwrap();
        let mut engine = Engine::new(connection, |_| Config::default());
        engine.adopt(None).unwrap();
        let (woke, woken) = mpsc::channel();
        let wake = move || woke.send(Instant::now()).unwrap_or_default();
        engine.guard(&Netns::Current, options, wake).unwrap();
        for number in 0..services {
            add(&mut engine, number);
        }
        let mut bench = Bench {
            engine,
            woken,
            intact: Vec::new(),
        };
        bench.sync();
        bench.intact = listing("ip");
        assert_eq!(bench.woken.try_iter().count(), 0, "own changes wake nobody");
        test(bench);
    });
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

    /// Nothing differs from what it was.
    pub(crate) fn check(&self, edit: &str) {
        let now = listing("ip");
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
        let connection = self.engine.connection();
        let read = connection.dump_sets(NfFamily::IPV4, TABLE, |set| {
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
        let connection = self.engine.connection();
        let count = connection.set_info(NfFamily::IPV4, TABLE, "state", |set| set.count);
        count.unwrap().is_some()
    }

    pub(crate) fn seen(&self) -> Interference {
        self.engine.interference(Family::Ipv4)
    }
}

/// Takes a Service with an endpoint in.
pub(crate) fn add<T: Transport>(engine: &mut Engine<T>, number: u16) {
    for change in objects::served(number) {
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

pub(crate) fn nft(commands: &str) -> String {
    let output = Command::new("nft").arg(commands).output().unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Handles of all sets: they change when a set is made anew.
pub(crate) fn set_handles(bench: &mut Bench) -> Vec<Option<u64>> {
    let mut handles = Vec::new();
    let connection = bench.engine.connection();
    connection
        .dump_sets(NfFamily::IPV4, TABLE, |set| handles.push(set.handle))
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

pub(crate) fn delete_cluster_ip<T: Transport>(connection: &mut Connection<T>, number: u16) {
    commit(connection, |batch| {
        let set = batch
            .set(NfFamily::IPV4, TABLE, "cluster-addresses")
            .unwrap();
        let key = objects::cluster_ip_octets(number);
        let elem = Elem::new(Value::new(&key));
        batch.delete_elements(set, [elem]).unwrap();
    });
}
