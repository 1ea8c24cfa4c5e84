//! How long it takes when there is much to put right.

use core::time::Duration;
use std::time::Instant;

use kproxy::engine::{Engine, TABLE};
use kproxy::lower::nf_family;
use nft_batch::{Connection, ElementWalk, Walked};
use nl_codec::nft::{Elem, Value};
use svc_planner::Config;

use crate::bench::{NOTICED, PATIENCE, add, guarded};

/// At scale, the time of a cold load included: 45,000 Services with `KPROXY_LONG=1`.
#[test]
fn a_big_table_is_back_in_no_time() {
    let long = std::env::var_os("KPROXY_LONG").is_some();
    // More than are remembered row by row.
    let services = if long { 45_000 } else { 5_000 };
    // A build without optimisation plans slowly.
    let limit = if cfg!(debug_assertions) { 20 } else { 1 };
    for edit in [
        "flush ruleset",
        "flush chain $table services",
        "flush map $table endpoints",
    ] {
        guarded(services, move |mut bench| {
            let start = Instant::now();
            bench.nft(edit);
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

/// Why a table that no snapshot describes is built anew, and is not read row by row to find out what it
/// holds; and what it takes to look for surplus rows where the kernel does not count them. 45,000
/// Services with `KPROXY_LONG=1`.
#[test]
fn a_rebuild_costs_less_than_reading_every_row() {
    let long = std::env::var_os("KPROXY_LONG").is_some();
    let services = if long { 45_000 } else { 3_000 };
    guarded(services, move |bench| {
        let family = nf_family(bench.family);
        let per_row = |time: Duration, rows: usize| time / u32::try_from(rows).unwrap().max(1);
        let mut connection = Connection::open().unwrap();
        let mut walk = ElementWalk::new(Connection::open().unwrap());
        let (mut dumped, mut slowest, mut read, mut seen) =
            (Duration::ZERO, Duration::ZERO, Duration::ZERO, 0);
        for set in ["services", "endpoints", "cluster-addresses"] {
            let mut keys = Vec::new();
            walk.begin(family, TABLE, set).unwrap();
            let mut walked = Walked::On;
            while walked == Walked::On {
                let start = Instant::now();
                let step = walk.step(|elem| keys.push(elem.key_bytes().unwrap().to_vec()));
                walked = step.unwrap();
                let step = start.elapsed();
                (dumped, slowest) = (dumped + step, slowest.max(step));
            }
            assert_eq!(walked, Walked::Done { consistent: true });
            let start = Instant::now();
            for key in &keys {
                let elem = Elem::new(Value::new(key));
                let found = connection.element(family, TABLE, set, &elem, |_| ());
                assert_eq!(found.unwrap(), Some(()));
            }
            read += start.elapsed();
            seen += keys.len();
        }
        let keyed = per_row(read, seen);
        println!("{services} Services: {seen} rows by key in {read:?}, {keyed:?} each");
        let dump = per_row(dumped, seen);
        println!("{seen} rows by dump in {dumped:?}, {dump:?} each; {slowest:?} at most in one go");

        let family = bench.family;
        drop(bench);
        let mut engine = Engine::new(Connection::open().unwrap(), |_| Config::default());
        engine.adopt(None).unwrap();
        for number in 0..services {
            add(&mut engine, family, number);
        }
        let (start, mut written) = (Instant::now(), 0);
        while !engine.is_complete() {
            engine.sync(|_, it| written += it.rows()).unwrap();
        }
        let rebuilt = start.elapsed();
        let each = per_row(rebuilt, written);
        println!("built anew beside it: {written} rows in {rebuilt:?}, {each:?} each");
        // Each row once, and a few of the deletions.
        assert!(written < seen + 1_000, "{written} rows");
        assert!(
            cfg!(debug_assertions) || each < keyed,
            "to write a row takes {each:?}, to read it {keyed:?}"
        );
    });
}
