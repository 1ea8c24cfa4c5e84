//! `kproxy demo` as users run it: as root, without any privilege, and interrupted.

#![allow(
    clippy::unwrap_used,
    reason = "a failed step of a test is a failed test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy");
/// Nobody.
const NOBODY: u32 = 65_534;

/// Links of this namespace.
fn links() -> String {
    let links = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let names = links
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0.trim()));
    names.collect::<Vec<_>>().join(" ")
}

/// The network namespaces in which a process has threads, as `net:[number]`.
fn namespaces_of(pid: u32) -> BTreeSet<PathBuf> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .flatten()
        .filter_map(|task| fs::read_link(task.path().join("ns/net")).ok())
        .collect()
}

fn check(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let frontends = report["frontends"].as_array().unwrap();
    let results = |result: &str| {
        frontends
            .iter()
            .filter(|frontend| frontend["outcome"]["result"] == result)
            .count()
    };
    assert_eq!(
        (results("balanced"), results("refused"), results("failed")),
        (10, 2, 0)
    );
    for frontend in frontends {
        if frontend["outcome"]["result"] == "balanced" {
            let shares = frontend["outcome"]["shares"].as_array().unwrap();
            let flows: u64 = shares
                .iter()
                .map(|share| share["flows"].as_u64().unwrap())
                .sum();
            assert_eq!(flows, 60, "{frontend}");
        }
    }
    for figure in [
        "operations",
        "rows",
        "bytes",
        "plan_us",
        "encode_us",
        "commit_us",
    ] {
        assert!(
            report["programming"][figure].as_f64().unwrap() > 0.0,
            "{figure}"
        );
    }
}

#[test]
fn shows_balanced_traffic_and_leaves_nothing() {
    let before = links();
    let mut command = Command::new(KPROXY);
    check(
        &command
            .args(["demo", "--flows", "60", "-o", "json"])
            .output()
            .unwrap(),
    );
    assert_eq!(links(), before);
}

#[test]
fn works_without_privilege() {
    if !geteuid().is_root() {
        // The other test runs without privilege then.
        return;
    }
    let limit = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    if limit.trim() == "0" {
        return test_support::skip("user namespaces are off");
    }
    // The build's folders may be closed to others.
    let copy = std::env::temp_dir().join(format!("kproxy-demo-{}", std::process::id()));
    fs::copy(KPROXY, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let output = run_as_nobody(&copy);
    fs::remove_file(&copy).unwrap();
    check(&output);
}

fn run_as_nobody(program: &Path) -> Output {
    let mut command = Command::new(program);
    command
        .args(["demo", "--flows", "60", "-o", "json"])
        .uid(NOBODY)
        .gid(NOBODY);
    command.current_dir("/").output().unwrap()
}

#[test]
fn interrupting_it_leaves_nothing() {
    let before = links();
    // A shell's background jobs are deaf to it, and so are their children.
    let mut child = Command::new("env")
        .args(["--default-signal=INT", KPROXY, "demo", "--flows", "100000"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let sending = lines
        .map_while(Result::ok)
        .any(|line| line.starts_with("sending"));
    assert!(sending, "it never came to sending");
    let mut namespaces = namespaces_of(child.id());
    namespaces.remove(&fs::read_link("/proc/thread-self/ns/net").unwrap());
    assert!(namespaces.len() >= 8, "{namespaces:?}");
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    assert_eq!(links(), before);
    // Without threads, only a mount could keep a namespace.
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    for namespace in namespaces {
        assert!(
            !mounts.contains(&*namespace.to_string_lossy()),
            "{namespace:?} is mounted"
        );
    }
}
