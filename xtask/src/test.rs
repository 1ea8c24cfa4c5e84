//! `cargo xtask test`: the whole suite, with what was skipped and why.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{control_plane, nft_versions, packages, promtool, sh};

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Only tests whose name contains this
    filter: Option<String>,
    /// Long forms of the race, property and scale tests as well
    #[arg(long)]
    long: bool,
}

/// Runs everything once; fails if a test fails, or if one is skipped while `CI=true`.
pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(packages::TESTS)?;
    nft_versions::run()?;
    control_plane::ensure()?;
    promtool::ensure()?;
    let skips = sh::root().join("target/skipped-tests.txt");
    std::fs::create_dir_all(sh::root().join("target"))?;
    std::fs::write(&skips, "")?;

    let mut tally = Tally::default();
    for suite in [
        &["--workspace", "--all-targets", "--all-features"][..],
        &["--workspace", "--doc"],
    ] {
        let mut command = sh::cargo(&["test", "--locked", "--no-fail-fast"]);
        command
            .args(suite)
            .env("KPROXY_SKIPPED", &skips)
            .stdout(Stdio::piped());
        if args.long {
            command.env("KPROXY_LONG", "1");
        }
        command.arg("--").args(&args.filter);
        tally.run(&mut command)?;
    }
    for package in MODELLED {
        tally.run(models(package).arg("--").args(&args.filter))?;
    }

    let skipped = std::fs::read_to_string(&skips)?;
    for line in skipped.lines() {
        println!("skipped: {line}");
    }
    let (passed, failed, skipped) = (tally.passed, tally.failed, skipped.lines().count());
    println!("{passed} passed, {failed} failed, {skipped} skipped");
    if failed > 0 || tally.broken {
        bail!("the test suite failed");
    }
    if passed == 0 {
        bail!("no test ran");
    }
    if skipped > 0 && std::env::var("CI").as_deref() == Ok("true") {
        bail!("skipped tests are failures when CI=true");
    }
    Ok(())
}

/// Packages with models of what threads share.
const MODELLED: [&str; 2] = ["nft-batch", "svc-planner"];

/// Models of what threads share, in all interleavings. Their own target folder: the flag would have
/// everything else built anew.
fn models(package: &str) -> Command {
    let mut flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    flags.push_str(" --cfg kproxy_loom");
    let mut command = sh::cargo(&["test", "--locked", "--target-dir", "target/loom"]);
    command
        .args(["--package", package, "--test", "loom"])
        .env("RUSTFLAGS", flags)
        .stdout(Stdio::piped());
    command
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    broken: bool,
}

impl Tally {
    /// Runs a `cargo test` and adds up the closing lines of its test programs.
    fn run(&mut self, command: &mut Command) -> Result<()> {
        eprintln!("$ {}", sh::shown(command));
        let mut child = command.spawn().context("cannot run cargo test")?;
        let stdout = child.stdout.take().context("no output of cargo test")?;
        let mut out = std::io::stdout().lock();
        for line in BufReader::new(stdout).lines() {
            let line = line?;
            if let Some(counts) = line.strip_prefix("test result: ") {
                self.passed += count(counts, "passed");
                self.failed += count(counts, "failed");
            }
            writeln!(out, "{line}")?;
        }
        self.broken |= !child.wait()?.success();
        Ok(())
    }
}

/// The number before `word` in "ok. 6 passed; 0 failed; …".
fn count(line: &str, word: &str) -> usize {
    let words: Vec<_> = line
        .split([' ', ';'])
        .filter(|word| !word.is_empty())
        .collect();
    let at = words.iter().position(|candidate| *candidate == word);
    at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closing_lines_are_read() {
        let line = "ok. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out";
        assert_eq!((count(line, "passed"), count(line, "failed")), (12, 3));
    }
}
