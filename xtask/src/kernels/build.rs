//! Programs that run without this machine's libraries.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use crate::sh;

/// What the libraries of the host are built for, too: with a target given, build scripts and macros
/// are not affected by the flags.
const TARGET: &str = "x86_64-unknown-linux-gnu";

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

/// Test programs and the programs that they start, linked statically.
#[derive(Debug, Default)]
pub(super) struct Built {
    programs: Vec<(String, String, PathBuf)>,
}

impl Built {
    /// Builds tests, each given as `PACKAGE:TEST` (`PACKAGE` alone is its unit tests), and programs,
    /// given as `PACKAGE/BIN`. The programs of a package are built with its tests.
    pub(super) fn build(wanted: &[&str]) -> Result<Self> {
        let mut built = Self::default();
        for want in wanted {
            let mut command = if let Some((package, bin)) = want.split_once('/') {
                let mut command = sh::cargo(&["build", "--locked"]);
                command.args(["--package", package, "--bin", bin]);
                command
            } else {
                let mut command = sh::cargo(&["test", "--locked", "--no-run"]);
                match want.split_once(':') {
                    Some((package, test)) => {
                        command.args(["--package", package, "--test", test]);
                    }
                    None => {
                        command.args(["--package", want, "--lib"]);
                    }
                }
                command
            };
            let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
            flags.push_str(" -C target-feature=+crt-static -C strip=symbols");
            command
                .args(["--target", TARGET, "--target-dir", "target/static"])
                .args(["--message-format", "json-render-diagnostics"])
                .env("RUSTFLAGS", flags)
                // Emulation is slow enough.
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
                .env("CARGO_PROFILE_DEV_DEBUG", "0")
                .stderr(Stdio::inherit());
            eprintln!("$ {}", sh::shown(&command));
            let output = command.output().context("cannot run cargo")?;
            ensure!(output.status.success(), "{} failed", sh::shown(&command));
            for line in String::from_utf8_lossy(&output.stdout).lines() {
                built.note(line)?;
            }
        }
        Ok(built)
    }

    fn note(&mut self, line: &str) -> Result<()> {
        let message: Message = serde_json::from_str(line).context("cargo printed odd JSON")?;
        let (Some(path), Some(target), Some(id)) =
            (message.executable, message.target, message.package_id)
        else {
            return Ok(());
        };
        let kind = target.kind.first().map_or("", String::as_str);
        // `path+file:///…/crates/nft-batch#0.1.0` or `…#name@0.1.0`.
        let (place, name) = id.rsplit_once('#').unwrap_or(("", &id));
        let package = match name.split_once('@') {
            Some((name, _)) => name,
            None => place.rsplit('/').next().unwrap_or_default(),
        };
        let key = format!("{package} {kind}");
        self.programs.push((key, target.name, path));
        Ok(())
    }

    /// The program of a test, or a program, by what it was asked for by.
    pub(super) fn program(&self, want: &str) -> Result<&Path> {
        let (key, target) = if let Some((package, bin)) = want.split_once('/') {
            (format!("{package} bin"), bin.to_owned())
        } else if let Some((package, test)) = want.split_once(':') {
            (format!("{package} test"), test.to_owned())
        } else {
            (format!("{want} lib"), want.replace('-', "_"))
        };
        let mut programs = self.programs.iter().rev();
        match programs.find(|(k, name, _)| *k == key && *name == target) {
            Some((_, _, path)) => Ok(path),
            None => bail!("cargo built no {want}"),
        }
    }

    /// Everything that was built.
    pub(super) fn paths(&self) -> impl Iterator<Item = PathBuf> {
        self.programs.iter().map(|(_, _, path)| path.clone())
    }
}
