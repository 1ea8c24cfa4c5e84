//! Edits that are seen as they happen.

use core::time::Duration;
use std::time::Instant;

use kproxy::engine::Wait;
use svc_planner::plan::Family;

use crate::bench::{
    Bench, PATIENCE, SERVICES, add, guarded, in_family, listing, other, set_handles, table_family,
};

/// Deletes a set of ours, which only starting over beside the table mends.
const SET_GONE: &str = "flush chain $table masquerading; delete set $table hairpin-connections";

#[test]
fn rules_and_chains_are_put_back_without_a_row_moving() {
    for edit in [
        "flush chain $table services",
        "flush chain $table internal-1",
        "flush table $table",
        "insert rule $table services drop",
        "insert rule $table internal-1 counter",
        "flush chain $table nat-prerouting; delete chain $table nat-prerouting",
        "add chain $table filter-input { policy drop; }",
        "add chain $table theirs { type filter hook input priority 7; policy drop; }",
        "add table $table { flags dormant; }",
    ] {
        guarded(SERVICES, move |mut bench| {
            let handles = set_handles(&mut bench);
            bench.nft(edit);
            assert!(bench.listing() != bench.intact, "{edit}");
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
        ("delete element $table cluster-addresses { $7 }", 1),
        ("add element $table cluster-addresses { $60007, $60008 }", 2),
        ("flush set $table cluster-addresses", 50),
        ("flush map $table services", 50),
        ("flush map $table endpoints; flush map $table services", 100),
        ("flush map $table dispatch", 1),
        ("flush set $table state", 1),
        ("add element $table reject-services { $7 . tcp . 80 }", 1),
        // None of ours can have that protocol.
        ("add element $table reject-services { $7 . icmp . 80 }", 1),
    ] {
        guarded(SERVICES, move |mut bench| {
            let handles = set_handles(&mut bench);
            bench.nft(edit);
            bench.recover();
            bench.check(edit);
            assert_eq!(set_handles(&mut bench), handles, "{edit}");
            let seen = bench.seen();
            let counts = (seen.mends, seen.rebuilds, seen.rows);
            assert_eq!(counts, (0, 0, rows), "{edit}");
            // And what comes next works.
            add(&mut bench.engine, bench.family, SERVICES);
            bench.sync();
            assert_eq!(bench.seen(), seen);
        });
    }
}

#[test]
fn a_table_that_is_gone_is_made_anew() {
    for (edit, families) in [
        ("flush ruleset", 2),
        ("delete table $table", 1),
        ("delete table $table; delete table $other", 2),
    ] {
        guarded(SERVICES, move |mut bench| {
            let other = table_family(other(bench.family));
            let others = listing(other);
            bench.nft(edit);
            bench.recover();
            bench.check(edit);
            assert!(listing(other) == others, "{edit}");
            let rebuilds = [Family::Ipv4, Family::Ipv6]
                .map(|family| bench.engine.interference(family).rebuilds);
            assert_eq!(rebuilds.iter().sum::<u64>(), families, "{edit}");
        });
    }
}

#[test]
fn a_set_that_is_gone_is_made_anew_beside_the_rest() {
    guarded(SERVICES, |mut bench| {
        bench.nft(SET_GONE);
        bench.recover();
        assert_eq!(bench.seen().rebuilds, 1);
        // It serves under other names.
        let services = bench.nft("list map $table services-1");
        let row = in_family(bench.family, "$7 . tcp . 80");
        assert!(services.contains(&row), "{services}");
        assert!(
            bench
                .nft("list chain $table services")
                .contains("@services-1")
        );
    });
}

/// What we are about to delete anyway may be deleted by somebody else before.
#[test]
fn what_is_left_of_a_former_table_goes_also_if_some_of_it_is_gone() {
    guarded(SERVICES, |mut bench| {
        bench.nft(SET_GONE);
        bench.recover();
        let former = |bench: &Bench, word: &str, names: &[&str]| {
            let listed = bench.listing();
            let is_there = |name: &&&str| {
                listed
                    .iter()
                    .any(|it| it.starts_with(&format!("{word} {name} {{")))
            };
            names.iter().filter(is_there).count()
        };
        let sets = ["nodeport-ips", "reject-nodeports", "drop-classes"];
        assert_eq!(former(&bench, "set", &sets), 3, "{:#?}", bench.listing());
        assert_eq!(former(&bench, "chain", &["internal-1"]), 1);
        bench.nft(
            "delete set $table drop-classes; delete map $table dispatch; \
             flush chain $table internal-1; delete chain $table internal-1",
        );
        let end = Instant::now() + PATIENCE;
        while former(&bench, "set", &sets) > 0 || former(&bench, "chain", &["internal-1"]) > 0 {
            assert!(Instant::now() < end, "{:#?}", bench.listing());
            let wait = bench.engine.sync(|_, _| ()).unwrap();
            if let Wait::Until(time) = wait {
                let rest = time.saturating_sub(bench.engine.clock().now());
                std::thread::sleep(rest.min(Duration::from_millis(20)));
            }
        }
    });
}

/// What others do elsewhere costs us nothing and changes nothing.
#[test]
fn other_tables_are_not_our_business() {
    guarded(1, |mut bench| {
        bench.nft(
            "add table ip theirs; add chain ip theirs kube-proxy; \
             add table ip6 theirs; add chain ip6 theirs kube-proxy; \
             add table inet kube-proxy; add chain inet kube-proxy services; \
             delete table inet kube-proxy",
        );
        // Something that is ours, so that there is an event to wait for.
        bench.nft("flush chain $table services");
        bench.recover();
        let seen = bench.seen();
        assert_eq!((seen.edits, seen.mends, seen.losses), (1, 1, 0));
        let other = bench.engine.interference(other(bench.family));
        assert_eq!((other.edits, other.mends, other.losses), (0, 0, 0));
    });
}
