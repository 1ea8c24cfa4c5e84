//! `cargo xtask control-plane build`: a real etcd, kube-apiserver, kube-proxy and kubectl, the
//! yardstick of some tests, and the definitions of the Prometheus Operator's kinds. Ordinary builds of pinned, checksummed Go modules (`tests/control-plane/`), with
//! whatever proxy, cache and checksum database the machine's Go is set up with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use test_support::control_plane::{MODULES, Module, file, program};

use crate::apt::output;
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
        for (source, files) in module.files {
            copy_files(&module, source, files)?;
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

/// Copies files of a module that is downloaded, and whose sum is checked, for them.
fn copy_files(module: &Module, source: &str, files: &[&str]) -> Result<()> {
    if files.iter().all(|path| file(path).is_some()) {
        return Ok(());
    }
    let mut download = Command::new("go");
    download
        .current_dir(module.folder())
        .env("GOFLAGS", "-mod=readonly")
        .env("GOWORK", "off")
        .args(["mod", "download", "-json", source]);
    let downloaded: serde_json::Value = serde_json::from_str(&output(&mut download)?)?;
    let unpacked = downloaded["Dir"].as_str().context("no folder")?;
    let cache = module.cache()?;
    fs::create_dir_all(&cache).with_context(|| cache.display().to_string())?;
    for path in files {
        let from = Path::new(unpacked).join(path);
        let name = from.file_name().context("no file name")?;
        let text = fs::read(&from).with_context(|| from.display().to_string())?;
        fs::write(cache.join(name), text)?;
    }
    Ok(())
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
