//! `cargo xtask static`: `kproxy` as one file that needs nothing else, as in the image.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::apt::output;
use crate::sh;

/// As in `deploy/Dockerfile`.
const FLAGS: &str = "-C target-feature=+crt-static -C strip=symbols";

#[derive(clap::Args, Default)]
pub(crate) struct Args {
    /// Optimised, as in the image
    #[arg(long)]
    release: bool,
}

/// Builds it, and runs it where there is no other file.
pub(crate) fn run(args: &Args) -> Result<()> {
    let dockerfile = fs::read_to_string(sh::root().join("deploy/Dockerfile"))?;
    ensure!(
        dockerfile.contains(FLAGS),
        "deploy/Dockerfile builds otherwise"
    );
    let target = host()?;
    // Naming the target keeps the flag away from build scripts and macros, which cannot be static.
    let options = ["-p", "kproxy", "--bin", "kproxy", "--target", &target];
    let mut command = sh::cargo(&["build", "--locked", "--target-dir", "target/static"]);
    command.args(options).env("RUSTFLAGS", FLAGS);
    let profile = if args.release { "release" } else { "debug" };
    if args.release {
        command.arg("--release");
    }
    sh::run(&mut command)?;
    let folder = sh::root().join("target/static").join(target).join(profile);
    let binary = folder.join("kproxy");
    let file = fs::read(&binary).with_context(|| binary.display().to_string())?;
    ensure!(
        !has_interpreter(&file)?,
        "{} is not static",
        binary.display()
    );
    run_alone(&binary)?;
    println!("{}", binary.display());
    Ok(())
}

fn host() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// Whether an ELF file (64 bits, the host's byte order) asks for a loader.
fn has_interpreter(file: &[u8]) -> Result<bool> {
    /// elf.h: `PT_INTERP`.
    const INTERPRETER: u32 = 3;
    let field = |at: usize| -> Result<[u8; 8]> {
        let bytes = file.get(at..at + 8).context("the ELF file is too short")?;
        Ok(bytes.try_into()?)
    };
    ensure!(file.starts_with(b"\x7fELF\x02"), "not a 64-bit ELF file");
    let start = usize::try_from(u64::from_ne_bytes(field(32)?))?;
    let sizes = field(54)?;
    let size = usize::from(u16::from_ne_bytes([sizes[0], sizes[1]]));
    let count = usize::from(u16::from_ne_bytes([sizes[2], sizes[3]]));
    for number in 0..count {
        let kind = field(start + number * size)?;
        if u32::from_ne_bytes([kind[0], kind[1], kind[2], kind[3]]) == INTERPRETER {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Runs it with itself as the only file there is.
fn run_alone(binary: &Path) -> Result<()> {
    let root: PathBuf = binary.with_extension("root");
    fs::create_dir_all(&root)?;
    fs::copy(binary, root.join("kproxy"))?;
    let mut command = Command::new("chroot");
    command.arg(&root).args(["/kproxy", "--version"]);
    let printed = output(&mut command);
    fs::remove_dir_all(&root)?;
    if !printed?.contains("kproxy") {
        bail!("it does not say its name");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_with_a_loader_is_told_from_one_without() {
        // This test itself is linked as programs are.
        let own = fs::read(std::env::current_exe().unwrap()).unwrap();
        assert!(has_interpreter(&own).unwrap());
        assert!(has_interpreter(b"#!/bin/sh\n").is_err());
    }
}
