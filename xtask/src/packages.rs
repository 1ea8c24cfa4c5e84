//! Debian packages whose programs the tasks start.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::sh;

/// What the tests use: program → package that brings it.
pub(crate) const TESTS: &[(&str, &str)] = &[
    ("chromium", "chromium"),
    ("curl", "curl"),
    ("iptables-nft", "iptables"),
    ("ipset", "ipset"),
    ("nft", "nftables"),
    ("openssl", "openssl"),
    ("setpriv", "util-linux"),
    ("strace", "strace"),
    ("tshark", "tshark"),
];

/// Installs what is missing, when that is possible; otherwise names it.
pub(crate) fn ensure(needed: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<_> = needed
        .iter()
        .filter(|(program, _)| !on_path(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !on_path("apt-get") || !is_root() {
        bail!("install these Debian packages first: {}", missing.join(" "));
    }
    sh::run(Command::new("apt-get").args(["update", "-qq"]))?;
    sh::run(
        Command::new("apt-get")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .args(["install", "-y", "-qq", "--no-install-recommends"])
            .args(&missing),
    )
}

/// Whether a program is found; system folders count even when PATH lacks them.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(Into::into))
        .any(|folder| Path::new(&folder).join(program).is_file())
}

/// Whether packages can be installed.
fn is_root() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| {
        status.lines().any(|line| {
            line.strip_prefix("Uid:")
                .and_then(|ids| ids.split_whitespace().nth(1))
                == Some("0")
        })
    })
}
