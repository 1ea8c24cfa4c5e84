//! `kproxy apply`.

use core::fmt::Write as _;
use core::time::Duration;
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

use clap::Args;
use serde::Serialize;

use super::recording::RecordingOptions;
use super::{CliError, Exit, ProxyOptions, Results, Target, host_addresses, load};
use crate::conntrack::Reconciler;
use crate::engine::{Applied, Engine, Wait};

/// Program the kernel once from manifests
///
/// What is not in the manifests any more, or cannot be read in them, is removed; if a file or folder
/// cannot be read at all, or a file is empty, nothing is changed. Rows that packets may still be on their way
/// through are only marked for removal; a later `apply` or `run` removes them, or this one with
/// --wait-deferred (about a second).
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kubectl get services,endpointslices,nodes -A -o json | kproxy apply -f -
  kproxy apply -f manifests/ --cluster-cidr 10.244.0.0/16
  kproxy apply -f cluster.yaml --netns blue -o json

Exit codes:
  0   done
  1   failed
  3   done, but part of the input was left out; standard error says what
  64  wrong arguments")]
pub(super) struct Apply {
    /// Manifests: files or folders of YAML or JSON, `-` for standard input
    #[arg(long, short, required = true, value_name = "FILE|DIR")]
    filename: Vec<PathBuf>,

    /// Wait until everything is removed that is to be removed
    #[arg(long)]
    wait_deferred: bool,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    results: Results,

    #[command(flatten)]
    proxy: ProxyOptions,

    #[command(flatten)]
    recording: RecordingOptions,
}

/// What was done.
#[derive(Debug, Default, Serialize)]
struct Summary {
    /// Objects read.
    objects: u64,
    /// Objects of other kinds.
    ignored: u64,
    /// Problems with the input.
    problems: usize,
    /// Service ports that are not, or not fully, served.
    refused: usize,
    /// Seconds spent reading.
    read_seconds: f64,
    /// Transactions.
    transactions: Vec<Applied>,
}

impl Apply {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let netns = self.target.netns();
        let mut engine = Engine::open(&netns, |family| self.proxy.config(family))?;
        if let Some(recording) = self.recording.recording() {
            engine.record(&recording)?;
        }
        let state = self.proxy.state(&netns)?;
        engine.adopt(state.as_ref())?;
        let reconciler = Reconciler::start(&netns)?;
        engine.tell_flows(reconciler.publisher());
        let reading = Instant::now();
        let host = host_addresses(&netns)?;
        let loaded = load(&self.filename, &self.proxy, host, |change| {
            engine.apply(change);
        })?;
        let loaded = loaded.with_node(&self.proxy)?;
        let mut complete = loaded.complete;
        let mut summary = Summary {
            objects: loaded.stats.objects,
            ignored: loaded.stats.ignored,
            problems: loaded.problems,
            read_seconds: reading.elapsed().as_secs_f64(),
            ..Summary::default()
        };
        self.program(&mut engine, &mut summary)?;
        reconciler.finish();
        if let Some(state) = &state {
            engine.save(state)?;
        }
        for (family, report) in engine.reports() {
            complete = false;
            summary.refused += 1;
            eprintln!(
                "{family}: Service port {}: error: {}",
                report.port, report.reason
            );
        }
        // The process ends here, and that returns the memory faster than piece by piece.
        core::mem::forget(engine);
        self.results.printer().print(&summary, text)?;
        Ok(if complete {
            Exit::Done
        } else {
            Exit::Incomplete
        })
    }

    fn program(&self, engine: &mut Engine, summary: &mut Summary) -> Result<(), CliError> {
        loop {
            let wait = engine.sync(|applied, _| {
                tracing::info!("{applied}");
                summary.transactions.push(*applied);
            })?;
            let Wait::Until(time) = wait else {
                return Ok(());
            };
            // What is left to do is to tidy up.
            if engine.is_complete() && !self.wait_deferred {
                return Ok(());
            }
            thread::sleep(time.saturating_sub(engine.clock().now()));
        }
    }
}

fn text(out: &mut String, summary: &Summary) {
    let total = |part: fn(&Applied) -> Duration| {
        let sum: Duration = summary.transactions.iter().map(part).sum();
        sum.as_secs_f64() * 1e3
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "{} objects read in {:.1} ms; {} transactions, {} operations, {} rows, {} bytes: \
         plan {:.1} ms, encode {:.1} ms, commit {:.1} ms",
        summary.objects,
        summary.read_seconds * 1e3,
        summary.transactions.len(),
        summary
            .transactions
            .iter()
            .map(|it| u64::from(it.operations))
            .sum::<u64>(),
        summary.transactions.iter().map(|it| it.rows).sum::<usize>(),
        summary
            .transactions
            .iter()
            .map(|it| it.bytes)
            .sum::<usize>(),
        total(|it| it.plan),
        total(|it| it.encode),
        total(|it| it.commit),
    );
}
