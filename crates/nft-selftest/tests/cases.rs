//! Every case on the running kernel.

use nft_selftest::{Stop, all, run};

/// One after the other: some measure.
#[test]
fn every_claim_holds_here() {
    if !test_support::has_netns() {
        return;
    }
    let mut failed = Vec::new();
    let mut passed = 0;
    for case in all() {
        let outcome = run(case);
        for note in &outcome.notes {
            println!("{case}: {note}");
        }
        match outcome.stop {
            None => passed += 1,
            // Kernels differ: a claim that does not apply here is no defect of this machine.
            Some(Stop::Skip(reason)) => println!("{case}: not asked: {reason}"),
            Some(Stop::Fail(reason)) => failed.push(format!("{case}: {reason}")),
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(passed > 80, "only {passed} were asked");
}
