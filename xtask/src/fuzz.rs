//! `cargo xtask fuzz`: looks for inputs that break something.
//!
//! The targets' bodies are in `tests/fuzz`, where an ordinary test runs the committed inputs through
//! them; here libFuzzer makes new ones, which needs a nightly toolchain and cargo-fuzz.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::sh;

/// The release that was used so far.
const CARGO_FUZZ: &str = "0.13.2";
/// Inputs beyond this length are slow and show little new.
const LONGEST: u32 = 16 << 10;
/// Of a target's inputs that libFuzzer made up no more are committed, in number and in bytes: the first few
/// reach most of what all of them reach.
const KEPT: usize = 32;
const KEPT_BYTES: u64 = 128 << 10;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Targets; all if none is named
    targets: Vec<String>,
    /// Minutes for each target
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Replaces each target's committed inputs by those with a name and up to 32 others that reach the most
    #[arg(long)]
    minimise: bool,
}

/// Runs each target for a while. Fails at the first one that finds something, and says where the input
/// is that shows it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let known = targets()?;
    let targets = if args.targets.is_empty() {
        known
    } else {
        if let Some(unknown) = args.targets.iter().find(|name| !known.contains(name)) {
            bail!("no fuzz target {unknown}; there are {}", known.join(", "));
        }
        args.targets.clone()
    };
    ensure_cargo_fuzz()?;
    let time = Duration::try_from_secs_f64(args.minutes * 60.0).context("--minutes")?;
    for target in &targets {
        fuzz(target, time)?;
        if args.minimise {
            minimise(target)?;
        }
    }
    println!("{} targets, nothing found", targets.len());
    Ok(())
}

fn folder() -> PathBuf {
    sh::root().join("fuzz")
}

/// Names of the programs in `fuzz/fuzz_targets`.
fn targets() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder().join("fuzz_targets"))? {
        let path = entry?.path();
        names.extend(path.file_stem().map(|it| it.to_string_lossy().into_owned()));
    }
    // Those that are built fast come first.
    names.sort_by_cached_key(|name| (needs_proxy(name), name.clone()));
    Ok(names)
}

/// Whether kproxy itself must be built for a target: its manifest says so.
fn needs_proxy(target: &str) -> bool {
    let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap_or_default();
    let programs = manifest.split("[[bin]]").skip(1);
    programs
        .filter(|program| program.contains(&format!("name = \"{target}\"\n")))
        .any(|program| program.contains("required-features"))
}

/// `cargo fuzz run`, as far as the target's inputs.
fn program(target: &str) -> Command {
    // No sanitizer: there is no unsafe code, and without one it is several times faster.
    let mut command = cargo(&["fuzz", "run", "--sanitizer", "none", "--debug-assertions"]);
    if !needs_proxy(target) {
        command.arg("--no-default-features");
    }
    command.arg(target);
    command
}

/// Installs cargo-fuzz unless it is there.
fn ensure_cargo_fuzz() -> Result<()> {
    let mut asked = cargo(&["fuzz", "--version"]);
    let is_there = asked
        .output()
        .context("cannot run rustup")?
        .status
        .success();
    if is_there {
        return Ok(());
    }
    let mut install = cargo(&["install", "cargo-fuzz", "--locked", "--version", CARGO_FUZZ]);
    sh::run(&mut install).context("cargo-fuzz, and for it a nightly toolchain, is needed")
}

/// cargo of the nightly toolchain, free of what the cargo that runs us has set.
fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", "cargo"]).args(args);
    command.current_dir(sh::root());
    for (name, _) in std::env::vars_os() {
        let is_ours = name.to_str().is_some_and(|name| {
            name == "RUSTUP_TOOLCHAIN" || name == "CARGO" || name.starts_with("CARGO_PKG_")
        });
        if is_ours {
            command.env_remove(name);
        }
    }
    command
}

/// What libFuzzer finds worth keeping goes into a folder of its own, not among the committed inputs.
fn found(target: &str) -> Result<PathBuf> {
    let found = folder().join("target/found").join(target);
    std::fs::create_dir_all(&found)?;
    Ok(found)
}

fn fuzz(target: &str, time: Duration) -> Result<()> {
    let mut command = program(target);
    command.arg(found(target)?).arg(committed(target));
    command.arg("--").args([
        format!("-max_total_time={}", time.as_secs().max(1)),
        format!("-max_len={LONGEST}"),
        "-timeout=30".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]);
    let dictionary = folder().join("dictionaries").join(format!("{target}.dict"));
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    sh::run(&mut command)
        .with_context(|| format!("{target}: the input is in fuzz/artifacts/{target}"))
}

fn committed(target: &str) -> PathBuf {
    folder().join("corpus").join(target)
}

/// Keeps what is committed by a name of its own, and of the rest the few inputs that reach the most code.
fn minimise(target: &str) -> Result<()> {
    let merged = folder().join("target/merged").join(target);
    if merged.exists() {
        std::fs::remove_dir_all(&merged)?;
    }
    std::fs::create_dir_all(&merged)?;
    for entry in std::fs::read_dir(committed(target))? {
        let entry = entry?;
        if !is_made_up(&entry.file_name().to_string_lossy()) {
            std::fs::copy(entry.path(), merged.join(entry.file_name()))?;
        }
    }
    let mut command = program(target);
    command
        .arg(&merged)
        .arg(committed(target))
        .arg(found(target)?);
    // How often a piece of code runs would tell a thousand inputs apart.
    command.args(["--", "-set_cover_merge=1", "-use_counters=0"]);
    sh::run(&mut command)?;
    delete_all_but_the_first(&merged)?;
    replace(&merged, &committed(target))
}

/// libFuzzer writes first what reaches the most, then what adds the most to it, and so on.
fn delete_all_but_the_first(merged: &Path) -> Result<()> {
    let mut made_up = Vec::new();
    for entry in std::fs::read_dir(merged)? {
        let entry = entry?;
        if is_made_up(&entry.file_name().to_string_lossy()) {
            let metadata = entry.metadata()?;
            made_up.push((metadata.modified()?, metadata.len(), entry.path()));
        }
    }
    made_up.sort();
    let mut bytes = 0;
    for (kept, (_, len, path)) in made_up.iter().enumerate() {
        bytes += len;
        if kept >= KEPT || bytes > KEPT_BYTES {
            std::fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// libFuzzer calls files by the SHA-1 of what they hold.
fn is_made_up(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Replaces the files of a folder by those of another.
fn replace(from: &Path, to: &Path) -> Result<()> {
    std::fs::remove_dir_all(to)?;
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        std::fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
