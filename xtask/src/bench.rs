//! `cargo xtask bench`: every figure of the documentation, as a ratio beside its pair.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{packages, sh};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(clap::Subcommand)]
enum Bench {
    /// Encode and decode 1,000 map elements, beside an unchecked cursor and other libraries
    Codec,
    /// The API server's side: memory with a large cluster, bytes and requests beside the real
    /// kube-proxy's (as root)
    Api {
        /// Which [default: both]
        part: Option<ApiPart>,
        /// Passed on, see `cargo xtask bench api traffic -- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Kernel benchmarks: cold load, single changes, the whole process (as root)
    Kernel {
        /// Passed on, see `cargo xtask bench kernel -- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ApiPart {
    /// Resident memory of the whole process
    Memory,
    /// Bytes and requests
    Traffic,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.bench {
        Bench::Api { part, args } => {
            if *part != Some(ApiPart::Traffic) {
                api_memory(args)?;
            }
            if *part != Some(ApiPart::Memory) {
                api_traffic(args)?;
            }
            Ok(())
        }
        Bench::Codec => codec(),
        Bench::Kernel { args } => {
            sh::run(&mut sh::cargo(&[
                "build",
                "--locked",
                "--release",
                "-p",
                "kproxy",
            ]))?;
            let mut command = sh::cargo(&["run", "--locked", "--release", "-p", "benches"]);
            sh::run(command.args(["--bin", "kernel", "--"]).args(args))
        }
    }
}

fn api_memory(args: &[String]) -> Result<()> {
    sh::run(&mut sh::cargo(&[
        "build",
        "--locked",
        "--release",
        "-p",
        "kproxy",
    ]))?;
    let mut command = sh::cargo(&["run", "--locked", "--release", "-p", "benches"]);
    sh::run(command.args(["--bin", "api", "--"]).args(args))
}

fn api_traffic(args: &[String]) -> Result<()> {
    crate::control_plane::build()?;
    let mut command = sh::cargo(&["run", "--locked", "--release", "-p", "e2e"]);
    sh::run(command.args(["--bin", "api-traffic", "--"]).args(args))
}

fn codec() -> Result<()> {
    let mut lines = String::new();
    for (name, peer) in [("Go", go()), ("C", libnftnl()), ("Rust", rust())] {
        match peer.and_then(|mut command| output(&mut command)) {
            Ok(line) => lines.push_str(&line),
            Err(error) => println!("skipped: the {name} peer: {error:#}"),
        }
    }
    let mut command = sh::cargo(&[
        "run",
        "--locked",
        "--release",
        "-p",
        "benches",
        "--bin",
        "codec",
    ]);
    let mut child = command.stdin(Stdio::piped()).spawn()?;
    child
        .stdin
        .take()
        .context("no stdin")?
        .write_all(lines.as_bytes())?;
    ensure!(child.wait()?.success(), "the codec benchmark failed");
    Ok(())
}

/// google/nftables.
fn go() -> Result<Command> {
    ensure!(packages::on_path("go"), "no Go toolchain");
    let mut command = Command::new("go");
    command
        .args(["run", "."])
        .current_dir(peers().join("go-nftables"));
    Ok(command)
}

/// libnftnl through its C API, linked statically so that allocations can be counted.
fn libnftnl() -> Result<Command> {
    let program = sh::root().join("target/peer-libnftnl");
    let mut cc = Command::new("cc");
    cc.current_dir(peers().join("libnftnl"))
        .args(["-O2", "-Wall", "main.c", "-o"])
        .arg(&program);
    cc.args(["-Wl,-Bstatic", "-lnftnl", "-Wl,-Bdynamic", "-lmnl"]);
    cc.arg("-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc");
    output(&mut cc).context("needs a C compiler, libnftnl-dev and libmnl-dev")?;
    Ok(Command::new(program))
}

/// netlink-packet-netfilter.
fn rust() -> Result<Command> {
    let mut command = sh::cargo(&["run", "--quiet", "--locked", "--release"]);
    command.current_dir(peers().join("rust"));
    command.env("CARGO_TARGET_DIR", sh::root().join("target/peer-rust"));
    Ok(command)
}

fn peers() -> PathBuf {
    sh::root().join("benches/peers")
}

fn output(command: &mut Command) -> Result<String> {
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.with_context(|| sh::shown(command))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        sh::shown(command),
        output.status
    );
    Ok(String::from_utf8(output.stdout)?)
}
