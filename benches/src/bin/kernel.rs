//! Kernel benchmarks, each in private network namespaces and beside its pair.

use core::time::Duration;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use benches::changes::Kind;
use benches::cluster::Cluster;
use benches::stats::{median, ratio, shown};
use benches::sync::{KeptNetns, Sync, Timing, in_kept_netns, in_new_netns, replay};
use benches::{memory, ruleset};
use clap::{Parser, Subcommand};
use nft_batch::{Events, SealedBatch};
use nix::sys::resource::{UsageWho, getrusage};

const MIB: f64 = 1_048_576.0;

/// Changes of each kind.
const CHANGES: u32 = 200;

/// Pairs of loads a run: they are short and their ratio is near 1.
const PAIRS: usize = 3;

#[derive(Parser)]
#[command(about = "Kernel benchmarks (as root), every figure beside its pair")]
struct Cli {
    #[command(subcommand)]
    bench: Option<Bench>,
    /// Services of the large cluster
    #[arg(long, global = true, default_value_t = 45_000)]
    services: u32,
    /// Runs of which the median counts
    #[arg(long, global = true, default_value_t = 5)]
    runs: usize,
    /// Print figures but do not fail when a bound is missed
    #[arg(long, global = true)]
    no_bounds: bool,
}

#[derive(Subcommand, Clone, Copy, PartialEq)]
enum Bench {
    /// Cold load: plan + encode + commit, beside the same batches replayed and beside `nft -f`
    Load,
    /// Single changes of every kind: at 1,000 Services and at the large cluster
    Change,
    /// The whole process `kproxy apply` of a JSON List, beside `nft -f`
    Apply,
    /// What a listener to nf_tables events adds to a load
    Listener,
    /// What 100,000 Services × 10 endpoints take in the planner's memory (no kernel)
    Memory,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let wanted = |bench| cli.bench.is_none_or(|chosen| chosen == bench);
    let mut missed = Vec::new();
    // These first, as they read the largest memory use so far: of children, which begin with that of
    // this process, then of the process.
    if wanted(Bench::Apply) {
        apply(&cli, &mut missed)?;
    }
    if wanted(Bench::Memory) {
        memory(&mut missed)?;
    }
    if wanted(Bench::Load) {
        for endpoints in [1, 2] {
            load(&cli, endpoints, &mut missed)?;
        }
    }
    if wanted(Bench::Listener) {
        listener(&cli)?;
    }
    if wanted(Bench::Change) {
        change(&cli, &mut missed)?;
    }
    if !missed.is_empty() && !cli.no_bounds {
        anyhow::bail!("missed: {}", missed.join("; "));
    }
    Ok(())
}

/// Prints a figure and its bound.
fn bound(missed: &mut Vec<String>, what: &str, value: f64, limit: f64, at_most: bool) {
    let held = if at_most {
        value <= limit
    } else {
        value >= limit
    };
    let sign = if at_most { "≤" } else { "≥" };
    println!(
        "  {what}: {value:.2} (bound {sign} {limit}){}",
        if held { "" } else { "  MISSED" }
    );
    if !held {
        missed.push(format!("{what} {value:.2}, bound {sign} {limit}"));
    }
}

fn load(cli: &Cli, endpoints: u32, missed: &mut Vec<String>) -> Result<()> {
    let cluster = Cluster {
        services: cli.services,
        endpoints,
    };
    println!("cold load, {} Services × {endpoints}", cluster.services);
    let file = Scratch::new("ruleset.nft", |out| ruleset::write(cluster, out))?;
    let (mut ours, mut floor, mut nft) = (Vec::new(), Vec::new(), Vec::new());
    let mut ratios = Vec::new();
    let mut last = Timing::default();
    // Kept to the end of the pairs: each would be freed while the next one is measured.
    let mut namespaces = Vec::new();
    for _ in 0..PAIRS * cli.runs {
        let (timing, netns) = in_kept_netns(|| {
            let mut sync = Sync::new()?;
            sync.apply(cluster.changes());
            // Buffers are reused, as the engine does.
            sync.settle(|sealed| Some(sealed.reuse()))
        })?;
        namespaces.push(netns);
        last = timing;
        let (mut batches, netns) = batches(cluster)?;
        namespaces.push(netns);
        let (replayed, netns) = in_kept_netns(|| replay(&mut batches))?;
        namespaces.push(netns);
        ratios.push(ratio(last.total(), replayed));
        ours.push(last.total());
        floor.push(replayed);
    }
    drop(namespaces);
    for _ in 0..cli.runs {
        nft.push(in_new_netns(|| run_nft(&file.0))?);
    }
    let (ours, floor, nft) = (median(ours), median(floor), median(nft));
    println!(
        "  kproxy {} (last run: plan {}, encode {}, commit {}; {:.1} MB)",
        shown(ours),
        shown(last.plan),
        shown(last.encode),
        shown(last.commit),
        last.bytes as f64 / 1e6
    );
    println!(
        "  same batches replayed {}, nft -f {}",
        shown(floor),
        shown(nft)
    );
    bound(
        missed,
        "plan + encode + commit ÷ replay, median of pairs",
        median(ratios),
        1.3,
        true,
    );
    bound(missed, "nft -f ÷ kproxy", ratio(nft, ours), 8.0, false);
    Ok(())
}

/// The batches of a cold load. The same history makes the same ones; here they are kept.
fn batches(cluster: Cluster) -> Result<(Vec<SealedBatch>, KeptNetns)> {
    in_kept_netns(|| {
        let mut batches = Vec::new();
        let mut sync = Sync::new()?;
        sync.apply(cluster.changes());
        sync.settle(|sealed| {
            batches.push(sealed);
            None
        })?;
        Ok(batches)
    })
}

/// The same batches, replayed while nobody listens and while somebody does. No bound: it is why the
/// proxy closes its listener while much is loaded.
fn listener(cli: &Cli) -> Result<()> {
    let cluster = Cluster {
        services: cli.services,
        endpoints: 1,
    };
    println!("listener, {} Services × 1", cluster.services);
    let (mut alone, mut heard, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    let mut namespaces = Vec::new();
    for _ in 0..PAIRS * cli.runs {
        let (mut batches, netns) = batches(cluster)?;
        namespaces.push(netns);
        let (without, netns) = in_kept_netns(|| replay(&mut batches))?;
        namespaces.push(netns);
        let (with, netns) = in_kept_netns(|| {
            // Not read from: what does not fit is dropped, after the kernel has built it.
            let _events = Events::open()?;
            replay(&mut batches)
        })?;
        namespaces.push(netns);
        ratios.push(ratio(with, without));
        alone.push(without);
        heard.push(with);
    }
    println!(
        "  alone {}, while somebody listens {}: {:.2} ×, median of pairs",
        shown(median(alone)),
        shown(median(heard)),
        median(ratios)
    );
    Ok(())
}

fn change(cli: &Cli, missed: &mut Vec<String>) -> Result<()> {
    let sizes = [1_000, cli.services];
    println!("single changes at {sizes:?} Services × 2 (medians of {CHANGES}, there and back)");
    for kind in Kind::ALL {
        let [small, large] = sizes.map(|services| changes(services, kind));
        let (small, large) = (small?, large?);
        for (at, what) in kind.names().into_iter().enumerate() {
            let (small, large) = (small[at], large[at]);
            println!("  {what}: {}, {}", shown(small), shown(large));
            bound(
                missed,
                &format!("{what}: larger ÷ smaller median"),
                ratio(small.max(large), small.min(large)),
                1.5,
                true,
            );
            bound(
                missed,
                &format!("{what}, ms"),
                large.as_secs_f64() * 1e3,
                if kind.waits() { 1.0 } else { 0.2 },
                true,
            );
        }
    }
    Ok(())
}

/// Changes of a kind, one by one, there and back: the medians.
fn changes(services: u32, kind: Kind) -> Result<[Duration; 2]> {
    let cluster = Cluster {
        services,
        endpoints: 2,
    };
    in_new_netns(|| {
        let mut sync = Sync::new()?;
        sync.apply(cluster.changes());
        sync.settle(|sealed| Some(sealed.reuse()))?;
        let mut taken = [Vec::new(), Vec::new()];
        for i in 0..CHANGES {
            let service = match kind {
                Kind::Service => services + i,
                _ => i.wrapping_mul(7919) % services,
            };
            let before = kind.before(cluster, service);
            if !before.is_empty() {
                sync.apply(before.into_iter());
                sync.settle(|sealed| Some(sealed.reuse()))?;
            }
            let ways = [kind.there(cluster, service), kind.back(cluster, service)];
            for (taken, way) in taken.iter_mut().zip(ways) {
                sync.apply(way.into_iter());
                taken.push(sync.complete()?.total());
            }
        }
        Ok(taken.map(median))
    })
}

fn apply(cli: &Cli, missed: &mut Vec<String>) -> Result<()> {
    let cluster = Cluster {
        services: cli.services,
        endpoints: 2,
    };
    println!("whole process, {} Services × 2", cluster.services);
    let list = Scratch::new("list.json", |out| cluster.write_json(out))?;
    let rules = Scratch::new("ruleset.nft", |out| ruleset::write(cluster, out))?;
    let program = std::env::current_exe()?.with_file_name("kproxy");
    ensure!(
        program.exists(),
        "build kproxy first: {}",
        program.display()
    );
    let state = Scratch::folder("state")?;
    let mut ours = Vec::new();
    for _ in 0..cli.runs {
        ours.push(in_new_netns(|| {
            let mut command = Command::new(&program);
            command
                .args(["apply", "--no-node", "-f"])
                .arg(&list.0)
                .arg("--state-dir")
                .arg(&state.0);
            timed(&mut command)
        })?);
        std::fs::remove_dir_all(&state.0)?;
        std::fs::create_dir(&state.0)?;
    }
    let memory = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    let mut nft = Vec::new();
    for _ in 0..cli.runs {
        nft.push(in_new_netns(|| run_nft(&rules.0))?);
    }
    let (ours, nft) = (median(ours), median(nft));
    println!("  kproxy apply {}, nft -f {}", shown(ours), shown(nft));
    bound(
        missed,
        "nft -f ÷ kproxy apply",
        ratio(nft, ours),
        3.0,
        false,
    );
    bound(
        missed,
        "kproxy apply, MiB resident",
        memory as f64 / 1024.0,
        200.0,
        true,
    );
    Ok(())
}

fn memory(missed: &mut Vec<String>) -> Result<()> {
    const SERVICES: u32 = 100_000;
    let cluster = |endpoints| Cluster {
        services: SERVICES,
        endpoints,
    };
    println!("planner's memory, {SERVICES} Services × 10");
    let ten = memory::of_planner(cluster(10));
    let resident = getrusage(UsageWho::RUSAGE_SELF)?.max_rss();
    let one = memory::of_planner(cluster(1));
    let per_endpoint = (ten.settled as f64 - one.settled as f64) / f64::from(9 * SERVICES);
    let per_service = one.settled as f64 / f64::from(SERVICES) - per_endpoint;
    println!(
        "  {per_service:.0} bytes a Service, {per_endpoint:.0} an endpoint; {:.1} MiB in all, {:.1} at most \
         ({} rows in {} transactions)",
        ten.settled as f64 / MIB,
        ten.peak as f64 / MIB,
        ten.rows,
        ten.transactions,
    );
    bound(
        missed,
        "planner, MiB resident at most",
        resident as f64 / 1024.0,
        300.0,
        true,
    );
    Ok(())
}

fn run_nft(file: &Path) -> Result<Duration> {
    timed(Command::new("nft").arg("-f").arg(file))
}

fn timed(command: &mut Command) -> Result<Duration> {
    let start = Instant::now();
    let status = command.stdout(std::process::Stdio::null()).status();
    let status = status.with_context(|| format!("{command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(start.elapsed())
}

/// A file or folder that goes when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(
        name: &str,
        write: impl Fn(&mut BufWriter<File>) -> std::io::Result<()>,
    ) -> Result<Self> {
        let scratch = Self(Self::path(name));
        let mut out = BufWriter::new(File::create(&scratch.0)?);
        write(&mut out)?;
        out.flush()?;
        Ok(scratch)
    }

    fn folder(name: &str) -> Result<Self> {
        let scratch = Self(Self::path(name));
        std::fs::create_dir(&scratch.0)?;
        Ok(scratch)
    }

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("kproxy-bench-{}-{name}", std::process::id()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is a temporary file.
        let _ = std::fs::remove_file(&self.0);
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
