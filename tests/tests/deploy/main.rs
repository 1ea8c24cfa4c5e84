//! `deploy/`: accepted by the real API server, and alerts that fire.

mod alerts;
mod manifests;

use e2e::control_plane::ControlPlane;
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
