//! What `deploy/` holds: read here, applied and run by `tests/deploy/`.

mod install;
mod queries;

pub use install::{Installed, KUBEADM, Kind, install};
pub use queries::{Queries, exposed, rules};

use std::path::{Path, PathBuf};

/// A file below `deploy/`.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy")
        .join(name)
}
