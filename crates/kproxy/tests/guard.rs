//! What becomes of our tables when others change them: noticed by events, put right, and no more
//! touched than need be. `nft` and plain connections are the others.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use core::net::IpAddr;
use core::time::Duration;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use kproxy::engine::{Engine, GuardOptions, Interference, Netns, TABLE, Wait};
use nft_batch::{Batch, BatchOptions, Connection};
use nl_codec::msg::Family as NfFamily;
use nl_codec::nft::{Elem, Set, Table, Value};
use smallvec::smallvec;
use svc_planner::Config;
use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use svc_planner::plan::Family;
use test_support::in_new_netns;

/// Passes only when a test fails.
const PATIENCE: Duration = Duration::from_secs(20);
/// How soon a change must have been noticed.
const NOTICED: Duration = Duration::from_millis(100);
/// How soon it must be put right.
const MENDED: Duration = Duration::from_secs(1);
const SERVICES: u16 = 50;

/// A guarded engine, and when it was woken.
struct Bench {
    engine: Engine,
    woken: mpsc::Receiver<Instant>,
    /// The table as it is when nobody has touched it.
    intact: Vec<String>,
}

/// Serves some Services in a new network namespace, guarded.
fn guarded(services: u16, test: impl FnOnce(Bench) + Send + 'static) {
    guarded_with(GuardOptions::default(), services, test);
}

fn guarded_with(options: GuardOptions, services: u16, test: impl FnOnce(Bench) + Send + 'static) {
    in_new_netns(move || {
        let connection = Connection::open().unwrap();
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

impl Bench {
    /// Sends everything but what waits to be tidied up.
    fn sync(&mut self) {
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
    fn recover(&mut self) {
        let start = Instant::now();
        let noticed = self.woken.recv_timeout(PATIENCE).unwrap();
        self.sync();
        let (noticed, mended) = (noticed.duration_since(start), start.elapsed());
        assert!(noticed < NOTICED, "noticed after {noticed:?}");
        assert!(mended < MENDED, "put right after {mended:?}");
        self.woken.try_iter().for_each(drop);
    }

    /// Nothing differs from what it was.
    fn check(&self, edit: &str) {
        let now = listing("ip");
        let missing: Vec<_> = self.intact.iter().filter(|it| !now.contains(it)).collect();
        let surplus: Vec<_> = now.iter().filter(|it| !self.intact.contains(it)).collect();
        assert!(
            missing.is_empty() && surplus.is_empty(),
            "{edit}: {missing:#?} {surplus:#?}"
        );
    }

    /// How many rows a set has, if the kernel tells.
    fn rows(&mut self, name: &str) -> Option<u32> {
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
    fn counts_rows(&mut self) -> bool {
        let connection = self.engine.connection();
        let count = connection.set_info(NfFamily::IPV4, TABLE, "state", |set| set.count);
        count.unwrap().is_some()
    }

    fn seen(&self) -> Interference {
        self.engine.interference(Family::Ipv4)
    }
}

fn name(number: u16) -> ObjectName {
    ObjectName {
        namespace: "shop".into(),
        name: format!("s{number}").into(),
    }
}

fn cluster_ip(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::from([10, 96, high, low])
}

fn add(engine: &mut Engine, number: u16) {
    engine.apply(Change::Service(Service {
        name: name(number),
        created: None,
        cluster_ips: smallvec![cluster_ip(number)],
        external_ips: smallvec![],
        load_balancer_ips: smallvec![],
        source_ranges: smallvec![],
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: None,
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: smallvec![ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: 0,
        }],
    }));
    let [high, low] = number.to_be_bytes();
    engine.apply(Change::EndpointSlice(EndpointSlice {
        name: name(number),
        service: name(number).name,
        ports: smallvec![SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 8080,
        }],
        endpoints: vec![Endpoint {
            address: IpAddr::from([10, 1, high, low]),
            ready: true,
            serving: true,
            terminating: false,
            node: None,
            zone_hints: smallvec![],
            node_hints: smallvec![],
            weight: 1,
        }],
    }));
}

/// The table as nft lists it: blocks, and rows within a set, in alphabetical order; without the row
/// that marks the state.
fn listing(family: &str) -> Vec<String> {
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

fn nft(commands: &str) -> String {
    let output = Command::new("nft").arg(commands).output().unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Handles of all sets: they change when a set is made anew.
fn set_handles(bench: &mut Bench) -> Vec<Option<u64>> {
    let mut handles = Vec::new();
    let connection = bench.engine.connection();
    connection
        .dump_sets(NfFamily::IPV4, TABLE, |set| handles.push(set.handle))
        .unwrap();
    handles
}

#[test]
fn rules_and_chains_are_put_back_without_a_row_moving() {
    for edit in [
        "flush chain ip kube-proxy services",
        "flush chain ip kube-proxy internal-1",
        "flush table ip kube-proxy",
        "insert rule ip kube-proxy services drop",
        "insert rule ip kube-proxy internal-1 counter",
        "flush chain ip kube-proxy nat-prerouting; delete chain ip kube-proxy nat-prerouting",
        "add chain ip kube-proxy filter-input { policy drop; }",
        "add chain ip kube-proxy theirs { type filter hook input priority 7; policy drop; }",
        "add table ip kube-proxy { flags dormant; }",
    ] {
        guarded(SERVICES, move |mut bench| {
            let handles = set_handles(&mut bench);
            nft(edit);
            assert!(listing("ip") != bench.intact, "{edit}");
            bench.recover();
            bench.check(edit);
            assert_eq!(set_handles(&mut bench), handles, "{edit}");
            let seen = bench.seen();
            assert_eq!((seen.mends, seen.rebuilds, seen.rows), (1, 0, 0), "{edit}");
            assert!(seen.last_editor.is_some_and(|by| &*by.name == "nft"));
        });
    }
}

#[test]
fn edited_rows_are_put_right_and_no_others_touched() {
    for (edit, rows) in [
        (
            "delete element ip kube-proxy cluster-addresses { 10.96.0.7 }",
            1,
        ),
        (
            "add element ip kube-proxy cluster-addresses { 10.97.0.7, 10.97.0.8 }",
            2,
        ),
        ("flush set ip kube-proxy cluster-addresses", 50),
        ("flush map ip kube-proxy services", 50),
        (
            "flush map ip kube-proxy endpoints; flush map ip kube-proxy services",
            100,
        ),
        ("flush map ip kube-proxy dispatch", 1),
        ("flush set ip kube-proxy state", 1),
        (
            "add element ip kube-proxy reject-services { 10.96.0.7 . tcp . 80 }",
            1,
        ),
        // None of ours can have that protocol.
        (
            "add element ip kube-proxy reject-services { 10.96.0.7 . icmp . 80 }",
            1,
        ),
    ] {
        guarded(SERVICES, move |mut bench| {
            let handles = set_handles(&mut bench);
            nft(edit);
            bench.recover();
            bench.check(edit);
            assert_eq!(set_handles(&mut bench), handles, "{edit}");
            let seen = bench.seen();
            let counts = (seen.mends, seen.rebuilds, seen.rows);
            assert_eq!(counts, (0, 0, rows), "{edit}");
            // And what comes next works.
            add(&mut bench.engine, SERVICES);
            bench.sync();
            assert_eq!(bench.seen(), seen);
        });
    }
}

#[test]
fn a_table_that_is_gone_is_made_anew() {
    for (edit, families) in [
        ("flush ruleset", 2),
        ("delete table ip kube-proxy", 1),
        ("delete table ip kube-proxy; delete table ip6 kube-proxy", 2),
    ] {
        guarded(SERVICES, move |mut bench| {
            let others = listing("ip6");
            nft(edit);
            bench.recover();
            bench.check(edit);
            assert!(listing("ip6") == others, "{edit}");
            let rebuilds = [Family::Ipv4, Family::Ipv6]
                .map(|family| bench.engine.interference(family).rebuilds);
            assert_eq!(rebuilds.iter().sum::<u64>(), families, "{edit}");
        });
    }
}

#[test]
fn a_set_that_is_gone_is_made_anew_beside_the_rest() {
    guarded(SERVICES, |mut bench| {
        nft("flush chain ip kube-proxy masquerading; \
             delete set ip kube-proxy hairpin-connections");
        bench.recover();
        assert_eq!(bench.seen().rebuilds, 1);
        // It serves under other names.
        let services = nft("list map ip kube-proxy services-1");
        assert!(services.contains("10.96.0.7 . tcp . 80"), "{services}");
        assert!(nft("list chain ip kube-proxy services").contains("@services-1"));
    });
}

/// At scale, the time of a cold load included: 45,000 Services with `KPROXY_LONG=1`.
#[test]
fn a_big_table_is_back_in_no_time() {
    let long = std::env::var_os("KPROXY_LONG").is_some();
    let services = if long { 45_000 } else { 3_000 };
    // A build without optimisation plans slowly.
    let limit = if cfg!(debug_assertions) { 20 } else { 1 };
    for edit in [
        "flush ruleset",
        "flush chain ip kube-proxy services",
        "flush map ip kube-proxy endpoints",
    ] {
        guarded(services, move |mut bench| {
            let start = Instant::now();
            nft(edit);
            let edited = start.elapsed();
            let noticed = bench.woken.recv_timeout(PATIENCE).unwrap();
            let noticed = noticed.duration_since(start).saturating_sub(edited);
            bench.sync();
            let mended = start.elapsed() - edited;
            println!(
                "{services} Services: {edit}: noticed {noticed:?}, put right {mended:?} after"
            );
            // Its thread reads an event for each row, slowly without optimisation.
            let soon = NOTICED * if cfg!(debug_assertions) { 10 } else { 1 };
            assert!(noticed < soon, "{edit}: noticed after {noticed:?}");
            let limit = Duration::from_secs(limit);
            assert!(mended < limit, "{edit}: put right after {mended:?}");
            let rows = bench.rows("endpoints");
            assert!(
                rows.is_none_or(|rows| rows == u32::from(services)),
                "{rows:?}"
            );
        });
    }
}

/// What others do elsewhere costs us nothing and changes nothing.
#[test]
fn other_tables_are_not_our_business() {
    guarded(1, |mut bench| {
        nft("add table ip theirs; add chain ip theirs kube-proxy; \
             add table inet kube-proxy; add chain inet kube-proxy services; \
             delete table inet kube-proxy");
        // Something that is ours, so that there is an event to wait for.
        nft("flush chain ip kube-proxy services");
        bench.recover();
        let seen = bench.seen();
        assert_eq!((seen.edits, seen.mends, seen.losses), (1, 1, 0));
        let other = bench.engine.interference(Family::Ipv6);
        assert_eq!((other.edits, other.mends, other.losses), (0, 0, 0));
    });
}

/// Commits something as another process would, or as we do if it is our connection.
fn commit(connection: &mut Connection, build: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new(BatchOptions::default());
    build(&mut batch);
    let outcome = connection.commit(&mut batch.seal());
    assert!(outcome.is_committed(), "{outcome}");
}

fn address(number: u16) -> [u8; 4] {
    let [high, low] = number.to_be_bytes();
    [10, 96, high, low]
}

fn delete_cluster_ip(connection: &mut Connection, number: u16) {
    commit(connection, |batch| {
        let set = batch
            .set(NfFamily::IPV4, TABLE, "cluster-addresses")
            .unwrap();
        let key = address(number);
        let elem = Elem::new(Value::new(&key));
        batch.delete_elements(set, [elem]).unwrap();
    });
}

/// While much is loaded nobody listens; what others do then shows in the generation.
#[test]
fn edits_during_a_load_are_found_afterwards() {
    for edit in [
        "delete element ip kube-proxy cluster-addresses { 10.96.0.7 }",
        "insert rule ip kube-proxy services drop",
        "flush chain ip kube-proxy services",
    ] {
        guarded(SERVICES, move |mut bench| {
            for number in SERVICES..1000 {
                add(&mut bench.engine, number);
            }
            let mut edited = false;
            let wait = bench.engine.sync(|applied, _| {
                if applied.rows > 900 && !core::mem::replace(&mut edited, true) {
                    nft(edit);
                }
            });
            wait.unwrap();
            assert!(edited);
            bench.sync();
            let seen = bench.seen();
            // Neither seen, nor missed.
            assert_eq!((seen.edits, seen.losses), (0, 1), "{edit}");
            assert!(
                seen.passes > 0 && seen.mends + seen.rows > 0,
                "{edit}: {seen:?}"
            );
            assert_eq!(seen.rebuilds, 0, "{edit}");
            for number in SERVICES..1000 {
                let gone = Change::ServiceGone(name(number));
                bench.engine.apply(gone);
                bench.engine.apply(Change::EndpointSliceGone(name(number)));
            }
            bench.sync();
            nft("list table ip kube-proxy");
        });
    }
}

/// A load by ourselves alone raises no suspicion.
#[test]
fn an_undisturbed_load_is_not_compared() {
    guarded(SERVICES, |mut bench| {
        let before = bench.seen();
        for number in SERVICES..1000 {
            add(&mut bench.engine, number);
        }
        bench.sync();
        let seen = bench.seen();
        assert_eq!((seen.losses, seen.compared), (0, before.compared));
        // And afterwards the listener listens again.
        nft("delete element ip kube-proxy cluster-addresses { 10.96.0.7 }");
        bench.recover();
        assert_eq!(bench.seen().rows, 1);
    });
}

/// Edits that make no event, as those of our own connection: the walk over all rows finds them.
#[test]
fn a_walk_finds_what_nobody_saw() {
    let options = GuardOptions {
        pass: Duration::from_millis(200),
        ..GuardOptions::default()
    };
    guarded_with(options, SERVICES, |mut bench| {
        delete_cluster_ip(bench.engine.connection(), 7);
        let passes = bench.seen().passes;
        let start = Instant::now();
        while bench.seen().rows == 0 && start.elapsed() < PATIENCE {
            bench.sync();
        }
        bench.check("one row");
        while bench.seen().passes < passes + 2 && start.elapsed() < PATIENCE {
            bench.sync();
        }
        let seen = bench.seen();
        assert_eq!((seen.rows, seen.rebuilds, seen.edits), (1, 0, 0));

        // A surplus row cannot be told from others: it is counted.
        commit(bench.engine.connection(), |batch| {
            let set = batch
                .set(NfFamily::IPV4, TABLE, "cluster-addresses")
                .unwrap();
            let elem = Elem::new(Value::new(&[10, 97, 0, 1]));
            batch.add_elements(set, [elem]).unwrap();
        });
        let start = Instant::now();
        let counts = bench.counts_rows();
        while counts && bench.seen().rebuilds == 0 && start.elapsed() < PATIENCE {
            bench.sync();
        }
        assert_eq!(bench.seen().rebuilds, u64::from(counts));
    });
}

/// The listener is kept from listening until its buffer is full and events are lost.
#[test]
fn lost_events_hide_no_edit() {
    in_new_netns(|| {
        let connection = Connection::open().unwrap();
        let mut engine = Engine::new(connection, |_| Config::default());
        engine.adopt(None).unwrap();
        let (go, gate) = mpsc::channel::<()>();
        let (woke, woken) = mpsc::channel();
        let wake = move || {
            woke.send(Instant::now()).unwrap_or_default();
            // Ends when the other end is gone, at the latest.
            gate.recv().unwrap_or_default();
        };
        let options = GuardOptions::default();
        engine.guard(&Netns::Current, options, wake).unwrap();
        for number in 0..SERVICES {
            add(&mut engine, number);
        }
        let mut bench = Bench {
            engine,
            woken,
            intact: Vec::new(),
        };
        // Gone before the engine is, which waits for its listener.
        let go = go;
        bench.sync();
        bench.intact = listing("ip");

        let mut other = Connection::open().unwrap();
        delete_cluster_ip(&mut other, 1);
        bench.woken.recv_timeout(PATIENCE).unwrap();
        commit(&mut other, |batch| {
            let table = Table::named("theirs");
            batch.add_table(NfFamily::IPV4, &table).unwrap();
            let mut set = Set::named("theirs", "many");
            set.key_len = Some(4);
            batch.add_set(NfFamily::IPV4, &set).unwrap();
        });
        for round in 0..8_u32 {
            commit(&mut other, |batch| {
                let set = batch.set(NfFamily::IPV4, "theirs", "many").unwrap();
                let keys: Vec<_> = (0..20_000_u32)
                    .map(|key| (round * 20_000 + key).to_ne_bytes())
                    .collect();
                let elems = keys.iter().map(|key| Elem::new(Value::new(key)));
                batch.add_elements(set, elems).unwrap();
            });
        }
        delete_cluster_ip(&mut other, 2);
        nft("insert rule ip kube-proxy services drop");
        drop(go);
        bench.woken.recv_timeout(PATIENCE).unwrap();
        bench.sync();
        let seen = bench.seen();
        assert!(seen.losses > 0, "{seen:?}");
        assert_eq!((seen.rebuilds, seen.rows), (0, 2), "{seen:?}");
        assert!(seen.mends > 0, "{seen:?}");
        bench.check("lost events");
    });
}

/// Somebody who undoes each repair is let go, for longer and longer, and is forgiven once he stops.
#[test]
fn a_second_writer_is_not_fought_for_ever() {
    let options = GuardOptions {
        window: Duration::from_millis(1500),
        first_pause: Duration::from_millis(300),
        ..GuardOptions::default()
    };
    guarded_with(options, SERVICES, |mut bench| {
        for round in 1..=3 {
            nft("insert rule ip kube-proxy services drop");
            bench.recover();
            assert_eq!(bench.seen().mends, round);
            assert_eq!(bench.seen().contended_since.is_some(), round == 3);
        }
        bench.check("the third repair is made");
        assert_eq!(bench.seen().fights, 1);
        let mut pauses = Vec::new();
        for round in 4..=6 {
            let start = bench.engine.clock().now();
            nft("insert rule ip kube-proxy services drop");
            bench.woken.recv_timeout(PATIENCE).unwrap();
            let Wait::Until(until) = bench.engine.sync(|_, _| ()).unwrap() else {
                panic!("no pause");
            };
            assert_eq!(bench.seen().mends, round - 1, "nothing is done for now");
            pauses.push(until - start);
            while bench.seen().mends < round {
                bench.sync();
            }
            assert!(bench.engine.clock().now() >= until);
            bench.check("after a pause");
        }
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(bench.seen().fights, 1);
        // He stops.
        loop {
            let wait = bench.engine.sync(|_, _| ()).unwrap();
            let Wait::Until(time) = wait else {
                panic!("contended for ever");
            };
            if bench.seen().contended_since.is_none() {
                break;
            }
            let left = time.saturating_sub(bench.engine.clock().now());
            // There is nothing to wait for but time.
            let _ = bench.woken.recv_timeout(left);
        }
        nft("insert rule ip kube-proxy services drop");
        bench.recover();
        assert_eq!(bench.seen().contended_since, None);
    });
}
