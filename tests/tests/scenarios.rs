//! Every scenario file, in both families, on the running kernel; with `KPROXY_SCENARIO=NAME` only the
//! one of that name.

use std::{env, fs, path::Path, thread};

use anyhow::{Result, ensure};
use e2e::scenario::{Family, run, run_confined};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");

/// They wait for silence most of the time.
const ALL: usize = usize::MAX;
/// A program for each does not.
const PROGRAMS: usize = 4;

/// Runs all files, so many at once.
fn run_all(family: Family, at_once: usize, run: fn(&Path, Family) -> Result<usize>) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<_> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    if let Ok(name) = env::var("KPROXY_SCENARIO") {
        files.retain(|file| file.file_stem().is_some_and(|stem| *stem == *name));
    }
    files.sort();
    ensure!(!files.is_empty(), "no scenario files");
    let mut outcomes = Vec::new();
    for files in files.chunks(at_once) {
        outcomes.extend(thread::scope(|scope| {
            let running: Vec<_> = files
                .iter()
                .map(|file| scope.spawn(move || run(file, family)))
                .collect();
            let joined = running.into_iter().map(|thread| thread.join());
            joined.collect::<Vec<_>>()
        }));
    }
    let mut failures = Vec::new();
    for (file, outcome) in files.iter().zip(outcomes) {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        match outcome {
            Ok(Ok(judged)) => println!("{name} ({family}): {judged} verdicts"),
            Ok(Err(error)) => failures.push(format!("{error:#}")),
            Err(_) => failures.push(format!("{name} ({family}) panicked")),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn confined(file: &Path, family: Family) -> Result<usize> {
    run_confined(file, family, Path::new(KPROXY))
}

#[test]
fn scenarios_ipv4() -> Result<()> {
    run_all(Family::Ipv4, ALL, run)
}

#[test]
fn scenarios_ipv6() -> Result<()> {
    run_all(Family::Ipv6, ALL, run)
}

/// The program does the same without privileges, and is killed for any system call that its filter does not
/// know of.
#[test]
fn confined_ipv4() -> Result<()> {
    run_all(Family::Ipv4, PROGRAMS, confined)
}

#[test]
fn confined_ipv6() -> Result<()> {
    run_all(Family::Ipv6, PROGRAMS, confined)
}
