//! A recording that is asked to end.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Files, NFT_REPLAY};

/// Records a script, as far as the line that it prints.
fn recording(files: &Files, script: &str) -> (Child, String) {
    let mut child = Command::new(NFT_REPLAY)
        .args(["record", "-o"])
        .arg(files.path("capture.pcapng"))
        .args(["--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = child.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    (child, line)
}

fn terminate(child: &mut Child) -> Option<i32> {
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    child.wait().unwrap().code()
}

/// It makes no system call meanwhile: nothing but the signal wakes whoever waits for it.
#[test]
fn a_request_to_end_reaches_a_program_that_sleeps() {
    let files = Files::new();
    let (mut child, _) = recording(&files, "echo ready; exec sleep 1000");
    assert_eq!(terminate(&mut child), Some(143));
    let script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.1; done";
    let (mut child, _) = recording(&files, script);
    assert_eq!(terminate(&mut child), Some(3));
}

#[test]
fn a_request_to_end_reaches_what_a_program_left_running() {
    let files = Files::new();
    // The line comes from what is left, once the program is gone.
    let script =
        "(while kill -0 $$ 2>/dev/null; do sleep 0.01; done; echo left; exec sleep 1000) & exit 4";
    let (mut child, line) = recording(&files, script);
    assert_eq!(line, "left\n");
    assert_eq!(terminate(&mut child), Some(4));
}
