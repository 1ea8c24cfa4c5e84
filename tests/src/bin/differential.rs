//! `cargo xtask differential`: the real kube-proxy as oracle.

use anyhow::Result;
use clap::Parser;
use e2e::differential::{Campaign, Kproxy, Replaced, scenario_files};

/// Sends the same probes through the real kube-proxy and through kproxy and compares what becomes
/// of them
#[derive(Debug, Parser)]
#[command(name = "cargo xtask differential")]
struct Cli {
    /// A scenario file, by its name without `.yaml`, or its path; may be given more than once
    #[arg(long)]
    scenario: Vec<String>,
    /// Made-up histories to run
    #[arg(long, value_name = "N", default_value_t = 0)]
    random: u64,
    /// Makes the first of them, the number after it the next, and so on
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// All scenario files; then a row of docs/DIFFERENCES.md that excuses nothing is a failure
    #[arg(long)]
    all: bool,
    /// Print what becomes of each probe of a scenario
    #[arg(long, short)]
    verbose: bool,
    /// Both proxies watch the API server, ours as a program (otherwise ours reads copies of what is
    /// there, in this process)
    #[arg(long)]
    api: bool,
    /// Ours is ended or killed, in turn, before each change, and started again after it
    #[arg(long, requires = "api")]
    restart: bool,
    /// On our node kube-proxy and kproxy take over from each other at each change, kube-proxy first
    #[arg(long, requires = "api", conflicts_with = "restart")]
    take_over: bool,
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let files = if cli.all {
        scenario_files(&[])?
    } else if cli.scenario.is_empty() {
        Vec::new()
    } else {
        scenario_files(&cli.scenario)?
    };
    let kproxy = if cli.api {
        // Built beside this one: see xtask.
        Some(Kproxy {
            program: std::env::current_exe()?.with_file_name("kproxy-under-test"),
            replaced: match (cli.restart, cli.take_over) {
                (true, _) => Replaced::ByItself,
                (_, true) => Replaced::ByKubeProxy,
                _ => Replaced::Never,
            },
        })
    } else {
        None
    };
    let mut campaign = Campaign::start(kproxy)?;
    campaign.verbose = cli.verbose;
    campaign.scenarios(&files);
    campaign.random(cli.random, cli.seed);
    campaign.finish(cli.all)
}
