//! The program's output and exit codes, on the running kernel.

#![allow(clippy::unwrap_used, reason = "test code outside #[test] functions")]

use core::time::Duration;
use std::process::{Command, Output};
use std::time::Instant;

use serde_json::Value;

fn selftest(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_nft-selftest"))
        .args(args)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn results_are_ktap() {
    if !test_support::has_netns() {
        return;
    }
    let output = selftest(&["generation."]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = text(&output);
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("KTAP version 1"));
    let count = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert_eq!(lines.next(), Some(format!("1..{count}").as_str()));
    assert!(
        text.contains("\nok 1 generation.each_commit_advances_it_by_one\n"),
        "{text}"
    );
    assert!(text.ends_with(" skip:0 error:0\n"), "{text}");
}

#[test]
fn results_are_json() {
    if !test_support::has_netns() {
        return;
    }
    let output = selftest(&["-o", "json", "abort.a_failed_batch_leaves_nothing"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["passed"], 1);
    let result = &report["results"][0];
    assert_eq!(result["name"], "abort.a_failed_batch_leaves_nothing");
    assert_eq!(result["result"], "pass");
}

#[test]
fn the_list_names_what_filters_choose() {
    let output = selftest(&["--list", "owner."]);
    let text = text(&output);
    assert!(text.lines().count() >= 4 && text.lines().all(|line| line.starts_with("owner.")));
    assert_eq!(selftest(&["no such case"]).status.code(), Some(2));
    let listed: Vec<String> =
        serde_json::from_slice(&selftest(&["--list", "-o", "json", "owner."]).stdout).unwrap();
    assert_eq!(listed, text.lines().collect::<Vec<_>>());
}

/// The kernel that the tests run on is one that Services are served with.
#[test]
fn the_doctor_takes_two_seconds_at_most() {
    if !test_support::has_netns() {
        return;
    }
    let mut shortest = Duration::MAX;
    let mut last = None;
    // On a loaded machine it may take longer once.
    for _ in 0..5 {
        let started = Instant::now();
        let output = selftest(&["--doctor", "-o", "json"]);
        shortest = shortest.min(started.elapsed());
        last = Some(output);
        if shortest < Duration::from_secs(2) {
            break;
        }
    }
    let output = last.unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let diagnosis: Value = serde_json::from_slice(&output.stdout).unwrap();
    let verdict = diagnosis["verdict"].as_str().unwrap();
    assert!(["fit", "degraded"].contains(&verdict), "{diagnosis}");
    assert!(shortest < Duration::from_secs(2), "{shortest:?}");
    let shown = text(&selftest(&["--doctor"]));
    assert!(
        shown.starts_with("Linux ") && shown.contains(verdict),
        "{shown}"
    );
}
