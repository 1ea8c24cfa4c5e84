//! `cargo xtask control-plane build`: a real etcd, kube-apiserver and kube-proxy, the yardstick of
//! some tests. Ordinary builds of pinned, checksummed Go modules (`tests/control-plane/`), with
//! whatever proxy, cache and checksum database the machine's Go is set up with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use test_support::control_plane::{MODULES, Module, program};

use crate::{packages, sh};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Build what neither the cache nor KUBEBUILDER_ASSETS has, and say where everything is
    Build,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match args.action {
        Action::Build => build(),
    }
}

/// As `control-plane build`; without Go the programs are skipped by name, which with `CI=true` is a
/// failure.
pub(crate) fn ensure() -> Result<()> {
    let missing: Vec<_> = names().filter(|name| program(name).is_none()).collect();
    if missing.is_empty() || packages::on_path("go") {
        return build();
    }
    println!("skipped, for want of Go: {}", missing.join(", "));
    if std::env::var("CI").as_deref() == Ok("true") {
        bail!("no Go to build {} with", missing.join(", "));
    }
    Ok(())
}

pub(crate) fn build() -> Result<()> {
    for module in MODULES {
        for (name, package) in module.programs {
            let path = match program(name) {
                Some(path) => path,
                None => build_program(&module, name, package)?,
            };
            println!("{name} {}", path.display());
        }
    }
    Ok(())
}

fn names() -> impl Iterator<Item = &'static str> {
    let programs = MODULES.iter().flat_map(|module| module.programs);
    programs.map(|(name, _)| *name)
}

fn build_program(module: &Module, name: &str, package: &str) -> Result<PathBuf> {
    let started = Instant::now();
    let folder = module.cache()?;
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    // Built aside and renamed, so that an interrupted run leaves no half program.
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    sh::run(&mut go_build(&module.folder(), &new, package))?;
    fs::rename(&new, &path).with_context(|| path.display().to_string())?;
    eprintln!("built {name} in {} s", started.elapsed().as_secs());
    Ok(path)
}

fn go_build(module: &Path, output: &Path, package: &str) -> Command {
    let mut command = Command::new("go");
    command
        .current_dir(module)
        // The sums must be complete, and nothing else decides what is built.
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .env("GOWORK", "off")
        .args(["build", "-trimpath", "-ldflags=-s -w", "-o"])
        .arg(output)
        .arg(package);
    command
}
