//! `cargo xtask test`: the whole suite, with what was skipped and why.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

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

    let suite = |what: &[&str]| {
        let mut command = sh::cargo(&["test", "--locked", "--no-fail-fast", "--workspace"]);
        command.args(what).env("KPROXY_SKIPPED", &skips);
        if args.long {
            command.env("KPROXY_LONG", "1");
        }
        command.arg("--").args(&args.filter);
        command.stdout(Stdio::piped());
        command
    };
    let mut build = sh::cargo(&["test", "--locked", "--no-run", "--workspace"]);
    sh::run(build.args(["--all-targets", "--all-features"]))?;
    let mut tally = Tally::default();
    let (busy, patient) = lanes()?;
    let mut beside = suite(&words(&["--all-features"], &patient));
    let mut others = suite(&words(
        &[
            "--all-features",
            "--lib",
            "--bins",
            "--examples",
            "--benches",
        ],
        &busy,
    ));
    let printed = thread::scope(|scope| {
        let beside = scope.spawn(move || {
            eprintln!("$ {}", sh::shown(&beside));
            beside.stderr(Stdio::piped()).output()
        });
        tally.run(&mut others)?;
        let printed = beside.join().map_err(|_| anyhow!("a thread panicked"))?;
        printed.context("cannot run cargo test")
    })?;
    tally.add(&printed)?;
    tally.run(&mut suite(&["--doc"]))?;
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

/// Tests that wait most of the time, for a control plane or for time to pass. They run one after the other,
/// beside all others.
const PATIENT: [&str; 5] = [
    "credentials",
    "deploy",
    "differential",
    "pages",
    "snapshots",
];

/// The names of all test programs in `tests/` folders: those that are busy, and the patient.
fn lanes() -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let packages = sh::metadata()?;
    let members = packages.workspace_members;
    let packages = packages.packages.into_iter();
    let targets = packages
        .filter(|package| members.contains(&package.id))
        .flat_map(|package| package.targets);
    let names = targets
        .filter(|target| target.kind.iter().any(|kind| kind == "test"))
        .map(|target| target.name);
    let (patient, busy): (BTreeSet<_>, _) = names.partition(|name| PATIENT.contains(&&**name));
    if patient.len() < PATIENT.len() {
        bail!("there are no such tests any more as {PATIENT:?} names");
    }
    Ok((busy, patient))
}

/// Arguments that choose these tests.
fn words<'a>(first: &[&'a str], tests: &'a BTreeSet<String>) -> Vec<&'a str> {
    let tests = tests.iter().flat_map(|name| ["--test", name]);
    first.iter().copied().chain(tests).collect()
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
            self.note(&line);
            writeln!(out, "{line}")?;
        }
        self.broken |= !child.wait()?.success();
        Ok(())
    }

    /// The same of one that has run.
    fn add(&mut self, ended: &Output) -> Result<()> {
        let printed = String::from_utf8_lossy(&ended.stdout);
        printed.lines().for_each(|line| self.note(line));
        let mut out = std::io::stdout().lock();
        out.write_all(&ended.stderr)?;
        out.write_all(&ended.stdout)?;
        self.broken |= !ended.status.success();
        Ok(())
    }

    fn note(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        }
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
