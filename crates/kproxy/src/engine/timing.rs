//! The engine's clock, and what each transaction took.

use core::fmt;
use core::time::Duration;
use std::time::Instant;

use nft_batch::SealedBatch;
use serde::Serialize;
use svc_planner::plan::{Family, Transaction};

/// A clock that starts at zero and never goes back.
#[derive(Debug, Clone, Copy)]
pub struct Clock(Instant);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the engine was made.
    #[must_use]
    pub fn now(self) -> Duration {
        self.0.elapsed()
    }
}

/// A committed transaction in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// Family.
    pub family: Family,
    /// Operations: objects, rules, and element changes by set and direction.
    pub operations: u32,
    /// Rows deleted and added.
    pub rows: usize,
    /// Messages of the batch.
    pub messages: u32,
    /// Bytes of the batch.
    pub bytes: usize,
    /// Time spent planning.
    pub plan: Duration,
    /// Time spent lowering and encoding.
    pub encode: Duration,
    /// Time from sending to the kernel's answer.
    pub commit: Duration,
}

impl Applied {
    pub(super) fn of(transaction: &Transaction, batch: &SealedBatch) -> Self {
        Self {
            family: transaction.family,
            operations: batch.operations(),
            rows: transaction.rows(),
            messages: batch.messages(),
            bytes: batch.len(),
            plan: Duration::ZERO,
            encode: Duration::ZERO,
            commit: Duration::ZERO,
        }
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        write!(
            f,
            "{}: {} operations, {} rows, {} bytes: plan {:.3} ms, encode {:.3} ms, commit {:.3} ms",
            self.family,
            self.operations,
            self.rows,
            self.bytes,
            milliseconds(self.plan),
            milliseconds(self.encode),
            milliseconds(self.commit),
        )
    }
}
