//! What tests of several crates share: private network namespaces, honest skipping, the nft releases
//! and their recorded bytes, the programs of a control plane.
#![forbid(unsafe_code)]

pub mod control_plane;
pub mod golden;
pub mod nft;
pub mod promtool;

use std::io::Write;
use std::sync::mpsc;
use std::thread;

use nix::sched::{CloneFlags, unshare};

/// Says that the calling test cannot run here and why. The test runner prints it; with `CI=true` it
/// is a failure.
///
/// # Panics
/// With `CI=true`.
#[allow(clippy::panic, reason = "a skip is a failure in CI")]
pub fn skip(reason: &str) {
    let name = thread::current().name().unwrap_or("test").to_owned();
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{name}: skipped in CI: {reason}"
    );
    eprintln!("skipped: {name}: {reason}");
    if let Some(path) = std::env::var_os("KPROXY_SKIPPED")
        && let Ok(mut file) = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
    {
        // Losing this line loses a message, not a verdict.
        let _ = writeln!(file, "{name}: {reason}");
    }
}

/// Runs `test` on a thread of its own in a new network namespace, which ends with it. Skips when
/// namespaces cannot be made.
///
/// # Panics
/// When `test` does.
pub fn in_new_netns(test: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().unwrap_or("test").to_owned();
    let worker =
        thread::Builder::new()
            .name(name)
            .spawn(move || match unshare(CloneFlags::CLONE_NEWNET) {
                Ok(()) => test(),
                Err(errno) => skip(&format!("cannot make a network namespace: {errno}")),
            });
    match worker.map(thread::JoinHandle::join) {
        Ok(Ok(())) => {}
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(error) => skip(&format!("cannot start a thread: {error}")),
    }
}

/// Whether network namespaces can be made; skips the calling test when not.
///
/// # Panics
/// With `CI=true` when not.
#[must_use]
pub fn has_netns() -> bool {
    let (made, is_made) = mpsc::channel();
    in_new_netns(move || {
        // Nobody listening is no failure.
        let _ = made.send(());
    });
    is_made.recv().is_ok()
}
