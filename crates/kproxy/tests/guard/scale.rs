//! How long it takes when there is much to put right.

use core::time::Duration;
use std::time::Instant;

use crate::bench::{NOTICED, PATIENCE, guarded, nft};

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
