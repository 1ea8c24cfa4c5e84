//! From changes to commits, each step timed: what the proxy does, without its surroundings.

use core::time::Duration;
use std::fs::File;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use kproxy::lower::{Lowered, lower};
use nft_batch::{Batch, BatchOptions, Connection, SealedBatch};
use nix::sched::{CloneFlags, unshare};
use svc_planner::object::Change;
use svc_planner::plan::{Family, Transaction};
use svc_planner::{Config, Next, Planner};

/// The table that kube-proxy and we use.
pub const TABLE: &str = "kube-proxy";

/// Time spent in each step.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timing {
    /// Working out what to change.
    pub plan: Duration,
    /// Turning that into messages.
    pub encode: Duration,
    /// Sending them and reading the acknowledgement.
    pub commit: Duration,
    /// Bytes sent.
    pub bytes: usize,
}

impl Timing {
    fn add(&mut self, other: Self) {
        self.plan += other.plan;
        self.encode += other.encode;
        self.commit += other.commit;
        self.bytes += other.bytes;
    }

    /// All steps together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.plan + self.encode + self.commit
    }
}

/// A planner and a connection in the current network namespace.
#[derive(Debug)]
pub struct Sync {
    planner: Planner,
    connection: Connection,
    batch: Option<Batch>,
    lowered: Lowered,
    /// Moved on by hand instead of waiting for deferred work.
    clock: Duration,
}

impl Sync {
    /// Starts with no table.
    ///
    /// # Errors
    /// When there is no netlink socket.
    pub fn new() -> Result<Self> {
        Ok(Self {
            planner: Planner::new(Family::Ipv4, Config::default()),
            connection: Connection::open().context("netlink socket")?,
            batch: Some(Batch::new(BatchOptions::default())),
            lowered: Lowered::default(),
            clock: Duration::ZERO,
        })
    }

    /// Takes changes in; not timed.
    pub fn apply(&mut self, changes: impl Iterator<Item = Change>) {
        changes.for_each(|change| self.planner.apply(change));
    }

    /// Commits until nothing is left to do now; `keep` gets every batch.
    ///
    /// # Errors
    /// When a transaction is refused.
    pub fn settle(&mut self, mut keep: impl FnMut(SealedBatch) -> Option<Batch>) -> Result<Timing> {
        let mut sum = Timing::default();
        loop {
            match self.step()? {
                Step::Committed(timing, sealed) => {
                    sum.add(timing);
                    self.batch = keep(sealed);
                }
                Step::Wait(until) => self.clock = until,
                Step::Idle(plan) => {
                    sum.plan += plan;
                    return Ok(sum);
                }
            }
        }
    }

    /// Commits until all that is wanted is in force; what is out of use is not waited for. Time that
    /// must pass in between does not count.
    ///
    /// # Errors
    /// When there is nothing to commit, or a transaction is refused.
    pub fn complete(&mut self) -> Result<Timing> {
        let mut sum = Timing::default();
        loop {
            match self.step()? {
                Step::Committed(timing, sealed) => {
                    sum.add(timing);
                    self.batch = Some(sealed.reuse());
                }
                Step::Wait(until) if !self.planner.is_complete() => self.clock = until,
                Step::Wait(_) | Step::Idle(_) if sum.bytes > 0 => return Ok(sum),
                Step::Wait(_) | Step::Idle(_) => bail!("nothing to commit"),
            }
        }
    }

    fn step(&mut self) -> Result<Step> {
        self.clock += Duration::from_millis(1);
        let start = Instant::now();
        let next = self.planner.next(self.clock);
        let planned = Instant::now();
        let transaction: Box<Transaction> = match next {
            Next::Commit(transaction) => transaction,
            Next::WaitUntil(until) => return Ok(Step::Wait(until)),
            _ => return Ok(Step::Idle(planned - start)),
        };
        let mut batch = self
            .batch
            .take()
            .unwrap_or_else(|| Batch::new(BatchOptions::default()));
        lower(&transaction, TABLE, &mut batch, &mut self.lowered)?;
        let mut sealed = batch.seal();
        let encoded = Instant::now();
        let outcome = self.connection.commit(&mut sealed);
        let committed = Instant::now();
        ensure!(outcome.is_committed(), "{outcome}");
        self.planner.committed(self.clock);
        self.planner.recycle(transaction);
        let timing = Timing {
            plan: planned - start + committed.elapsed(),
            encode: encoded - planned,
            commit: committed - encoded,
            bytes: sealed.len(),
        };
        Ok(Step::Committed(timing, sealed))
    }
}

#[allow(clippy::large_enum_variant, reason = "taken apart at once")]
enum Step {
    Committed(Timing, SealedBatch),
    Wait(Duration),
    Idle(Duration),
}

/// Sends batches that were encoded before, into the current namespace.
///
/// # Errors
/// When one is refused.
pub fn replay(batches: &mut [SealedBatch]) -> Result<Duration> {
    let mut connection = Connection::open()?;
    let start = Instant::now();
    for batch in batches {
        let outcome = connection.commit(batch);
        ensure!(outcome.is_committed(), "{outcome}");
    }
    Ok(start.elapsed())
}

/// A network namespace that lives as long as this does. The kernel frees a namespace's rows in the
/// background, at the cost of whatever is measured meanwhile.
#[derive(Debug)]
pub struct KeptNetns(#[expect(dead_code, reason = "held, not read")] File);

/// Runs `work` on a thread of its own in a new network namespace.
///
/// # Errors
/// Those of `work`, or when there can be no namespace (be root).
pub fn in_new_netns<R: Send>(work: impl FnOnce() -> Result<R> + Send) -> Result<R> {
    in_kept_netns(work).map(|(result, _)| result)
}

/// As [`in_new_netns`], and keeps the namespace.
///
/// # Errors
/// As there.
pub fn in_kept_netns<R: Send>(work: impl FnOnce() -> Result<R> + Send) -> Result<(R, KeptNetns)> {
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
            let kept = KeptNetns(File::open("/proc/thread-self/ns/net")?);
            Ok((work()?, kept))
        });
        worker
            .join()
            .map_err(|_| anyhow::anyhow!("the measurement panicked"))?
    })
}
