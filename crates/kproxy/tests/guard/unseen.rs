//! Edits that no event tells of, or whose event is lost.

use core::time::Duration;
use std::sync::mpsc;
use std::time::Instant;

use kproxy::engine::{GuardOptions, TABLE};
use kproxy::lower::nf_family;
use nft_batch::Connection;
use nl_codec::nft::{Elem, Set, Table, Value};
use svc_planner::object::Change;
use svc_planner::plan::Family;
use test_support::in_new_netns;

use crate::bench::{
    Bench, FAMILIES, PATIENCE, SERVICES, add, commit, delete_cluster_ip, guarded, guarded_engine,
    guarded_with, in_family, listing, nft, octets,
};
use crate::objects;

/// While much is loaded nobody listens; what others do then shows in the generation.
#[test]
fn edits_during_a_load_are_found_afterwards() {
    for edit in [
        "delete element $table cluster-addresses { $7 }",
        "insert rule $table services drop",
        "flush chain $table services",
    ] {
        guarded(SERVICES, move |mut bench| {
            let family = bench.family;
            for number in SERVICES..1000 {
                add(&mut bench.engine, family, number);
            }
            let mut edited = false;
            let wait = bench.engine.sync(|applied, _| {
                if applied.rows > 900 && !core::mem::replace(&mut edited, true) {
                    nft(&in_family(family, edit));
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
                let gone = Change::ServiceGone(objects::name(number));
                bench.engine.apply(gone);
                bench
                    .engine
                    .apply(Change::EndpointSliceGone(objects::name(number)));
            }
            bench.sync();
            bench.nft("list table $table");
        });
    }
}

/// A load by ourselves alone raises no suspicion.
#[test]
fn an_undisturbed_load_is_not_compared() {
    guarded(SERVICES, |mut bench| {
        let before = bench.seen();
        for number in SERVICES..1000 {
            add(&mut bench.engine, bench.family, number);
        }
        bench.sync();
        let seen = bench.seen();
        assert_eq!((seen.losses, seen.compared), (0, before.compared));
        // And afterwards the listener listens again.
        bench.nft("delete element $table cluster-addresses { $7 }");
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
        delete_cluster_ip(bench.engine.connection(), bench.family, 7);
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
        let key = octets(objects::cluster_ip_of(bench.family, 60_001));
        commit(bench.engine.connection(), |batch| {
            let set = batch.set(nf_family(bench.family), TABLE, "cluster-addresses");
            let set = set.unwrap();
            let elem = Elem::new(Value::new(&key));
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
    for (family, name) in FAMILIES {
        in_new_netns(move || lose_events(family, name));
    }
}

fn lose_events(family: Family, name: &str) {
    let (go, gate) = mpsc::channel::<()>();
    let (woke, woken) = mpsc::channel();
    let wake = move || {
        woke.send(Instant::now()).unwrap_or_default();
        // Ends when the other end is gone, at the latest.
        gate.recv().unwrap_or_default();
    };
    let (connection, options) = (Connection::open().unwrap(), GuardOptions::default());
    let engine = guarded_engine(connection, family, options, SERVICES, wake);
    let mut bench = Bench {
        family,
        engine,
        woken,
        intact: Vec::new(),
    };
    // Gone before the engine is, which waits for its listener.
    let go = go;
    bench.sync();
    bench.intact = listing(name);

    let mut other = Connection::open().unwrap();
    delete_cluster_ip(&mut other, family, 1);
    bench.woken.recv_timeout(PATIENCE).unwrap();
    commit(&mut other, |batch| {
        let table = Table::named("theirs");
        batch.add_table(nf_family(family), &table).unwrap();
        let mut set = Set::named("theirs", "many");
        set.key_len = Some(4);
        batch.add_set(nf_family(family), &set).unwrap();
    });
    for round in 0..8_u32 {
        commit(&mut other, |batch| {
            let set = batch.set(nf_family(family), "theirs", "many").unwrap();
            let keys: Vec<_> = (0..20_000_u32)
                .map(|key| (round * 20_000 + key).to_ne_bytes())
                .collect();
            let elems = keys.iter().map(|key| Elem::new(Value::new(key)));
            batch.add_elements(set, elems).unwrap();
        });
    }
    delete_cluster_ip(&mut other, family, 2);
    bench.nft("insert rule $table services drop");
    drop(go);
    bench.woken.recv_timeout(PATIENCE).unwrap();
    bench.sync();
    let seen = bench.seen();
    assert!(seen.losses > 0, "{seen:?}");
    assert_eq!((seen.rebuilds, seen.rows), (0, 2), "{seen:?}");
    assert!(seen.mends > 0, "{seen:?}");
    bench.check("lost events");
}
