//! `cargo xtask nft-versions`: the nft releases our rulesets must list in, as unpacked packages.
//!
//! Each release is the `nftables` package of one Debian suite with everything it depends on, its
//! libc included, and runs through that libc's own loader: nothing is installed, and this machine's
//! apt configuration is only read. Layout below the cache (`$KPROXY_CACHE`, else
//! `~/.cache/kproxy`): `nft/VERSION/nft` is the command, `nft/VERSION/root` the unpacked packages.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::apt::{AptRoot, cache_dir, create_dir, output, remove_dir, walk};

/// Release and the suites that have it. A suite in development moves on: a later release stands in
/// for the one named.
const RELEASES: [(&str, &[&str]); 4] = [
    ("0.9.8", &["bullseye"]),
    ("1.0.6", &["bookworm"]),
    ("1.1.3", &["trixie"]),
    ("1.1.7", &["forky", "sid", "trixie-backports"]),
];

/// Fetches what is missing and prints one line per release. A release that cannot be had is named
/// and skipped; with `CI=true` that is a failure.
pub(crate) fn run() -> Result<()> {
    let cache = cache_dir()?.join("nft");
    let mut skipped = Vec::new();
    for (version, suites) in RELEASES {
        match provide(&cache, version, suites) {
            Ok(nft) => println!("nft {version} {}", nft.display()),
            Err(error) => {
                println!("nft {version} skipped: {error:#}");
                skipped.push(version);
            }
        }
    }
    if !skipped.is_empty() && std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        bail!("nft releases missing: {}", skipped.join(", "));
    }
    Ok(())
}

/// The release's command, from the cache or freshly unpacked.
fn provide(cache: &Path, version: &str, suites: &[&str]) -> Result<PathBuf> {
    let dir = cache.join(version);
    let nft = dir.join("nft");
    if check_version(&nft, version).is_ok() {
        return Ok(nft);
    }
    let mut failed = Vec::new();
    for suite in suites {
        match unpack(cache, version, suite) {
            Ok(()) => return Ok(nft),
            Err(error) => failed.push(format!("{suite}: {error:#}")),
        }
    }
    bail!("{}", failed.join("; "))
}

/// Unpacks the suite's release, if it is the wanted one or a later one.
fn unpack(cache: &Path, version: &str, suite: &str) -> Result<()> {
    let dir = cache.join(version);
    // Built aside and renamed, so that an interrupted run leaves no half release.
    let building = cache.join(format!("{version}.new"));
    remove_dir(&building)?;
    let root = building.join("root");
    create_dir(&root)?;
    let apt = AptRoot::new(&building.join("apt"), &[suite])?;
    for package in apt.download("nftables")? {
        let args = [Path::new("-x"), &package, &root].map(Path::as_os_str);
        output(Command::new("dpkg-deb").args(args))?;
    }
    remove_dir(&apt.dir)?;
    // The script names final paths; the release is checked once it is in place.
    write_wrapper(&building.join("nft"), &root, &dir.join("root"))?;
    remove_dir(&dir)?;
    fs::rename(&building, &dir).with_context(|| dir.display().to_string())?;
    if let Err(error) = check_version(&dir.join("nft"), version) {
        remove_dir(&dir)?;
        return Err(error);
    }
    Ok(())
}

fn check_version(nft: &Path, version: &str) -> Result<()> {
    let out = output(Command::new(nft).arg("--version"))?;
    // "nftables v1.0.6 (Lester Gooch #5)"
    let found = out.split_whitespace().nth(1).unwrap_or_default();
    let found = found.trim_start_matches('v');
    if numbers(found) < numbers(version) {
        bail!("has {found}");
    }
    Ok(())
}

/// A version as numbers, to compare.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect()
}

/// A script that runs the unpacked nft with its own loader and libraries.
fn write_wrapper(script: &Path, root: &Path, installed: &Path) -> Result<()> {
    let files = walk(root)?;
    let loader = files
        .iter()
        .find(|path| name_of(path).starts_with("ld-linux"))
        .context("no loader (ld-linux*.so*) among the packages")?;
    let libraries: BTreeSet<PathBuf> = files
        .iter()
        .filter(|path| name_of(path).contains(".so"))
        .filter_map(|path| path.parent())
        .map(|dir| relocate(dir, root, installed))
        .collect();
    let libraries: Vec<String> = libraries.iter().map(|d| d.display().to_string()).collect();
    let nft = files
        .iter()
        .find(|path| path.ends_with("sbin/nft"))
        .context("no sbin/nft among the packages")?;
    let text = format!(
        "#!/bin/sh\nexec '{}' --library-path '{}' '{}' \"$@\"\n",
        relocate(loader, root, installed).display(),
        libraries.join(":"),
        relocate(nft, root, installed).display(),
    );
    fs::write(script, text).with_context(|| script.display().to_string())?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(script, mode).with_context(|| script.display().to_string())
}

fn relocate(path: &Path, from: &Path, to: &Path) -> PathBuf {
    path.strip_prefix(from)
        .map_or_else(|_| path.to_path_buf(), |rest| to.join(rest))
}

fn name_of(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("1.1.10") > numbers("1.1.7"));
        assert!(numbers("1.0.6") < numbers("1.1.3"));
        assert!(numbers("") < numbers("0.9.8"));
    }
}
