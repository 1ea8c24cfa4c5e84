//! `cargo xtask image`: the image as `deploy/Dockerfile` describes it, without a container builder: the build
//! stage's commands are run on this machine, and what they leave becomes the only layer.

mod archive;
mod dockerfile;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use self::dockerfile::{Dockerfile, Stage, Step};
use crate::apt::output;
use crate::sh;

/// Where the build stage leaves the image's files.
const STAGED: &str = "/image";

/// Makes the image without docker
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask image                          the image's files, in target/image/root
  cargo xtask image --test                   and runs the pods of deploy/ with them (as root)
  cargo xtask image --tag registry.example/kproxy:0.1.0 --output kproxy.tar
  docker load -i kproxy.tar")]
pub(crate) struct Args {
    /// What the image is called
    #[arg(long, default_value = concat!("kproxy:", env!("CARGO_PKG_VERSION")))]
    tag: String,
    /// Write an archive as `docker save` does
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Not optimised: other than the Dockerfile has it, but soon there
    #[arg(long)]
    debug: bool,
    /// Run the end-to-end tests of deploy/ with the image's files
    #[arg(long)]
    test: bool,
}

/// Makes it.
pub(crate) fn run(args: &Args) -> Result<()> {
    let text = fs::read_to_string(sh::root().join("deploy/Dockerfile"))?;
    let dockerfile = Dockerfile::parse(&text).context("deploy/Dockerfile")?;
    let [build, image] = dockerfile.stages.as_slice() else {
        bail!("deploy/Dockerfile has {} stages", dockerfile.stages.len());
    };
    ensure!(image.base == "scratch", "the image is not empty at first");
    let folder = sh::root().join("target/image");
    let staged = folder.join("staged");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&staged)?;
    build_stage(build, &staged, args.debug)?;
    let root = folder.join("root");
    fs::create_dir_all(&root)?;
    let entry_point = assemble(image, build.name.as_deref(), &staged, &root)?;
    check(&root, &entry_point)?;
    println!("{}", root.display());
    if let Some(file) = &args.output {
        archive::write(&root, &entry_point, &args.tag, file)?;
        println!("{}", file.display());
    }
    if args.test {
        let mut command = sh::cargo(&["test", "--locked", "-p", "e2e", "--test", "deploy"]);
        command.arg("lifecycle").env("KPROXY_IMAGE", &root);
        sh::run(&mut command)?;
    }
    Ok(())
}

/// Runs the build stage's commands here, at the repository's root; its base image is this machine.
fn build_stage(stage: &Stage, staged: &Path, debug: bool) -> Result<()> {
    for step in &stage.steps {
        match step {
            // The repository is there already.
            Step::WorkDir(_) | Step::Copy { stage: None, .. } => {}
            Step::Run(script) => {
                let mut script = script.replace(STAGED, &staged.display().to_string());
                if debug {
                    script = script
                        .replace("--release ", "")
                        .replace("/release/", "/debug/");
                }
                let mut command = Command::new("sh");
                command
                    .args(["-e", "-c", &script])
                    .current_dir(sh::root())
                    // Else the files would be elsewhere.
                    .env_remove("CARGO_TARGET_DIR");
                sh::run(&mut command)?;
            }
            other => bail!("the build stage has {other:?}"),
        }
    }
    Ok(())
}

/// The image's own stage; returns its entry point.
fn assemble(stage: &Stage, build: Option<&str>, staged: &Path, root: &Path) -> Result<Vec<String>> {
    let mut entry_point = None;
    for step in &stage.steps {
        match step {
            Step::Copy { stage, from, to } => {
                ensure!(stage.as_deref() == build && from == STAGED, "COPY {from}");
                let to = root.join(to.trim_start_matches('/'));
                // With its links as they are.
                let mut command = Command::new("cp");
                command.arg("-a").arg(staged.join(".")).arg(to);
                sh::run(&mut command)?;
            }
            Step::EntryPoint(words) => entry_point = Some(words.clone()),
            other => bail!("the image has {other:?}"),
        }
    }
    entry_point.context("the image starts nothing")
}

/// Each program of it runs where there is nothing else.
fn check(root: &Path, entry_point: &[String]) -> Result<()> {
    let program = entry_point.first().context("the image starts nothing")?;
    for program in [program, "/usr/local/bin/kube-proxy"] {
        let mut command = Command::new("chroot");
        command.arg(root).args([program, "--version"]);
        let printed = output(&mut command)?;
        ensure!(printed.contains("kproxy"), "{program} says {printed:?}");
    }
    Ok(())
}
