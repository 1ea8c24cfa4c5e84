//! `deploy/`: accepted by the real API server, sufficient, least, and at work.

mod alerts;
mod commands;
mod lifecycle;
mod manifests;
mod roles;
mod stage;

use std::path::PathBuf;

use e2e::{control_plane::ControlPlane, pod::Programs};
use test_support::{control_plane::program, skip};

/// Whether the real programs are there.
fn have_programs() -> bool {
    let missing = match ControlPlane::available() {
        Err(missing) => Some(missing.to_string()),
        Ok(()) if program("kubectl").is_none() => Some("no kubectl".to_owned()),
        Ok(()) => None,
    };
    if let Some(missing) = &missing {
        skip(missing);
    }
    missing.is_none()
}

fn programs() -> Programs {
    Programs {
        kproxy: PathBuf::from(env!("CARGO_BIN_EXE_kproxy-under-test")),
        // `cargo xtask image --test`.
        image: std::env::var_os("KPROXY_IMAGE").map(PathBuf::from),
        sandbox: PathBuf::from(env!("CARGO_BIN_EXE_pod-sandbox")),
    }
}
