//! Edits that are seen as they happen.

use svc_planner::plan::Family;

use crate::bench::{SERVICES, add, guarded, listing, nft, set_handles};

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
