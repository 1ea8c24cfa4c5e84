//! Programs for guests.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::sh;

/// With a target given, build scripts and macros are not affected by flags.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const SELFTEST: &str = "nft-selftest/nft-selftest";

#[derive(Deserialize)]
struct Message {
    executable: Option<PathBuf>,
    target: Option<Target>,
    package_id: Option<String>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// Test programs and the programs that they start.
#[derive(Debug, Default)]
pub(super) struct Built {
    /// Package and kind, name, path.
    programs: Vec<(String, String, PathBuf)>,
}

impl Built {
    /// Builds tests, each given as `PACKAGE:TEST`, and with them the programs of their packages.
    pub(super) fn build(wanted: &[&str]) -> Result<Self> {
        let mut built = Self::default();
        for want in wanted {
            let (package, test) = want
                .split_once(':')
                .with_context(|| format!("{want} is not PACKAGE:TEST"))?;
            let mut command = sh::cargo(&["test", "--locked", "--no-run"]);
            command.args(["--package", package, "--test", test]);
            built.run(&mut command)?;
        }
        Ok(built)
    }

    /// Builds nft-selftest so that it runs without libraries.
    pub(super) fn selftest() -> Result<PathBuf> {
        let mut built = Self::default();
        let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        flags.push_str(" -C target-feature=+crt-static -C strip=symbols");
        let mut command = sh::cargo(&["build", "--locked", "--package", "nft-selftest"]);
        command
            .args(["--target", TARGET, "--target-dir", "target/static"])
            .env("RUSTFLAGS", flags.trim())
            // Emulation is slow enough.
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        built.run(&mut command)?;
        Ok(built.program(SELFTEST)?.to_path_buf())
    }

    fn run(&mut self, command: &mut Command) -> Result<()> {
        command
            .args(["--message-format", "json-render-diagnostics"])
            .stderr(Stdio::inherit());
        eprintln!("$ {}", sh::shown(command));
        let output = command.output().context("cannot run cargo")?;
        ensure!(output.status.success(), "{} failed", sh::shown(command));
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            self.note(line)?;
        }
        Ok(())
    }

    fn note(&mut self, line: &str) -> Result<()> {
        let message: Message = serde_json::from_str(line).context("cargo printed odd JSON")?;
        let (Some(path), Some(target), Some(id)) =
            (message.executable, message.target, message.package_id)
        else {
            return Ok(());
        };
        let kind = target.kind.first().map_or("", String::as_str);
        self.programs
            .push((format!("{} {kind}", package(&id)), target.name, path));
        Ok(())
    }

    /// A test (`PACKAGE:TEST`) or a program (`PACKAGE/PROGRAM`).
    pub(super) fn program(&self, want: &str) -> Result<&Path> {
        let (package, kind, target) = match (want.split_once('/'), want.split_once(':')) {
            (Some((package, bin)), _) => (package, "bin", bin),
            (None, Some((package, test))) => (package, "test", test),
            (None, None) => bail!("{want} names no program"),
        };
        let key = format!("{package} {kind}");
        let found = self
            .programs
            .iter()
            .rev()
            .find(|(of, name, _)| *of == key && *name == target);
        match found {
            Some((_, _, path)) => Ok(path),
            None => bail!("cargo built no {want}"),
        }
    }

    /// Everything that was built.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.programs.iter().map(|(_, _, path)| path.clone())
    }
}

/// The package's name in its id: `path+file:///…/crates/nft-batch#0.1.0` or `…#name@0.1.0`.
fn package(id: &str) -> &str {
    let (place, name) = id.rsplit_once('#').unwrap_or(("", id));
    match name.split_once('@') {
        Some((name, _)) => name,
        None => place.rsplit('/').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_in_ids() {
        assert_eq!(
            package("path+file:///x/crates/nft-batch#0.1.0"),
            "nft-batch"
        );
        assert_eq!(package("path+file:///x/tests#e2e@0.1.0"), "e2e");
    }
}
