//! Prometheus' `promtool`.

use std::path::PathBuf;

use crate::nft::cache_dir;

/// Where `cargo xtask test` puts it.
#[must_use]
pub fn cached() -> Option<PathBuf> {
    Some(cache_dir()?.join("promtool"))
}

/// This machine's own, or the one that was fetched.
#[must_use]
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).map(|folder| folder.join("promtool"));
    own.chain(cached()).find(|path| path.is_file())
}
