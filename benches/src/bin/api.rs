//! Memory of the whole proxy with the objects of a large cluster, from an API server that makes them
//! up: the peak of the first list and of programming it included.

use core::net::SocketAddr;
use core::time::Duration;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use benches::apiserver;
use benches::cluster::Cluster;
use benches::sync::in_new_netns;
use clap::Parser;

#[derive(Parser)]
#[command(about = "Memory of `kproxy run --source api` (as root), beside its bounds")]
struct Cli {
    /// Print figures but do not fail when a bound is missed
    #[arg(long)]
    no_bounds: bool,
    /// The program [default: the one built with this]
    #[arg(long, value_name = "FILE")]
    kproxy: Option<PathBuf>,
}

/// Services, endpoints of each, and MiB that the process may take: 78 MB, and 300 MiB.
const CLUSTERS: [(u32, u32, f64); 2] = [(45_000, 1, 74.3), (100_000, 10, 300.0)];
/// How long it may take, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let cli = Cli::parse();
    let program = match cli.kproxy {
        Some(program) => program,
        None => std::env::current_exe()?.with_file_name("kproxy"),
    };
    ensure!(
        program.exists(),
        "build kproxy first: {}",
        program.display()
    );
    let mut missed = Vec::new();
    for (services, endpoints, limit) in CLUSTERS {
        let cluster = Cluster {
            services,
            endpoints,
        };
        let memory = in_new_netns(|| run(&program, cluster))?;
        let held = memory.peak <= limit;
        println!(
            "{services} Services × {endpoints}: {:.1} MiB resident at most (bound ≤ {limit}{}), {:.1} after it; \
             all programmed after {:.1} s",
            memory.peak,
            if held { "" } else { ", MISSED" },
            memory.settled,
            memory.took.as_secs_f64(),
        );
        if !held {
            missed.push(format!("{services} × {endpoints}"));
        }
    }
    ensure!(
        missed.is_empty() || cli.no_bounds,
        "missed: {}",
        missed.join(", ")
    );
    Ok(())
}

struct Memory {
    peak: f64,
    settled: f64,
    took: Duration,
}

fn run(program: &PathBuf, cluster: Cluster) -> Result<Memory> {
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status()?;
    ensure!(up.success(), "ip link: {up}");
    let server = apiserver::serve(cluster)?;
    // A port that is free now will be free.
    let health = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let state = std::env::temp_dir().join(format!("kproxy-bench-api-{}", std::process::id()));
    fs::create_dir_all(&state)?;
    let started = Instant::now();
    let child = Command::new(program)
        .args(["run", "--source", "api", "--no-node"])
        .args(["--master", &format!("http://{server}")])
        .args(["--healthz-bind-address", &health.to_string()])
        .arg("--state-dir")
        .arg(&state)
        .spawn()
        .with_context(|| program.display().to_string())?;
    let mut child = Ended(child);
    let result = wait_until_ready(&mut child.0, health).and_then(|()| {
        let took = started.elapsed();
        // What is done later, the snapshot of the state for one, is part of it.
        std::thread::sleep(Duration::from_secs(10));
        let status = fs::read_to_string(format!("/proc/{}/status", child.0.id()))?;
        Ok(Memory {
            peak: field(&status, "VmHWM")?,
            settled: field(&status, "VmRSS")?,
            took,
        })
    });
    drop(child);
    fs::remove_dir_all(&state)?;
    result
}

/// A program that is killed when it is no longer needed.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_until_ready(child: &mut Child, health: SocketAddr) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            bail!("kproxy ended: {status}");
        }
        if is_ready(health).unwrap_or(false) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("not ready after {} s", PATIENCE.as_secs())
}

fn is_ready(health: SocketAddr) -> Result<bool> {
    let mut stream = TcpStream::connect(health)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}

/// A field of /proc/PID/status in KiB, as MiB.
fn field(status: &str, name: &str) -> Result<f64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = line.and_then(|line| line.split_whitespace().next());
    let kib: f64 = number.with_context(|| name.to_owned())?.parse()?;
    Ok(kib / 1024.0)
}
