//! What a replay came to.

use core::fmt::Write as _;
use core::time::Duration;

use serde::Serialize;

use super::Verdict;
use crate::play::{KindTime, Kinds, Report};
use crate::session::{Outcome, Session};
use crate::stat::Times;

/// Transactions listed if not all are asked for.
const LISTED: usize = 10;

/// All rounds of a replay.
#[derive(Debug, Default, Serialize)]
pub(super) struct Summary {
    /// Rounds.
    times: usize,
    /// Transactions of a round.
    transactions: Vec<TransactionSummary>,
    /// Of all rounds, transactions to which the kernel said something else.
    differing: usize,
    /// Of a round, transactions whose answers the capture does not hold.
    not_recorded: usize,
    /// Handles sent as recorded for want of better knowledge.
    unknown_handles: u64,
    /// Kernel time of transactions, in seconds.
    kernel: Times,
    /// By kind of message, estimated, of one round.
    kinds: Vec<KindTime>,
    #[serde(skip)]
    measured: Kinds,
    #[serde(skip)]
    all: Vec<Duration>,
}

/// One transaction.
#[derive(Debug, Default, Serialize)]
struct TransactionSummary {
    number: usize,
    messages: usize,
    bytes: usize,
    /// Seconds then, if known.
    recorded_seconds: Option<f64>,
    /// Seconds here.
    kernel: Times,
    outcome: String,
    /// What the kernel said otherwise, the first time.
    differences: Vec<String>,
    #[serde(skip)]
    times: Vec<Duration>,
}

/// `--bisect`.
#[derive(Debug, Serialize)]
pub(super) struct BisectSummary {
    pub(super) transaction: usize,
    pub(super) errno: String,
    pub(super) prefix_messages: usize,
    pub(super) messages: usize,
    pub(super) trials: usize,
}

/// `--diff`.
#[derive(Debug, Serialize)]
pub(super) struct DiffSummary {
    pub(super) equal: bool,
    pub(super) diff: Vec<String>,
}

impl Summary {
    pub(super) fn new(session: &Session<'_>) -> Self {
        let transactions = session.transactions().map(|(transaction, exchange)| {
            let took = exchange.packet.took;
            TransactionSummary {
                number: transaction.number,
                messages: exchange.messages.len(),
                bytes: exchange.len(),
                recorded_seconds: took.map(|took| took.as_secs_f64()),
                ..TransactionSummary::default()
            }
        });
        Self {
            transactions: transactions.collect(),
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, report: &Report, session: &Session<'_>) {
        self.times += 1;
        self.unknown_handles = report.unknown_handles;
        self.not_recorded = 0;
        let exchanges = session.transactions().map(|(_, exchange)| exchange);
        for (played, exchange) in report.transactions.iter().zip(exchanges) {
            self.all.push(played.took);
            // A refusal costs what no message does.
            if played.outcome == Outcome::Committed {
                self.measured.add(exchange, played.took.as_secs_f64());
            }
            let entry = self
                .transactions
                .iter_mut()
                .find(|entry| entry.number == played.number);
            let Some(entry) = entry else { continue };
            entry.times.push(played.took);
            entry.kernel = Times::of(&entry.times);
            entry.outcome = played.outcome.to_string();
            match &played.verdict {
                Verdict::Differs(differences) => {
                    self.differing += 1;
                    if entry.differences.is_empty() {
                        entry.differences = differences.iter().map(ToString::to_string).collect();
                    }
                }
                Verdict::NotRecorded => self.not_recorded += 1,
                Verdict::Agrees | Verdict::NotSent => {}
            }
        }
        self.kernel = Times::of(&self.all);
        self.kinds = self.measured.estimate();
        #[allow(clippy::cast_precision_loss, reason = "a number of rounds")]
        let rounds = self.times as f64;
        for kind in &mut self.kinds {
            kind.seconds /= rounds;
            kind.count /= u64::try_from(self.times).unwrap_or(1);
        }
    }

    pub(super) fn agrees(&self) -> bool {
        self.differing == 0
    }

    /// For people. Writing to a string cannot fail.
    pub(super) fn text(&self, all: bool) -> String {
        let mut out = String::new();
        let rounds = match self.times {
            1 => String::new(),
            times => format!(" {times} times"),
        };
        let _ = writeln!(
            out,
            "{} transactions replayed{rounds}; kernel time {}",
            self.transactions.len(),
            self.kernel
        );
        let mut listed: Vec<_> = self.transactions.iter().collect();
        if !all && listed.len() > LISTED {
            listed.sort_by(|a, b| b.kernel.median.total_cmp(&a.kernel.median));
            listed.retain(|entry| !entry.differences.is_empty());
            let mut slowest: Vec<_> = self.transactions.iter().collect();
            slowest.sort_by(|a, b| b.kernel.median.total_cmp(&a.kernel.median));
            listed.extend(
                slowest
                    .into_iter()
                    .filter(|entry| entry.differences.is_empty())
                    .take(LISTED),
            );
            listed.sort_by_key(|entry| entry.number);
            let _ = writeln!(out, "the slowest ones (--all lists all):");
        }
        for entry in listed {
            let recorded = entry.recorded_seconds.map_or_else(String::new, |seconds| {
                format!(" (recorded {:.3} ms)", seconds * 1e3)
            });
            let _ = writeln!(
                out,
                "  #{:<5} {:>6} messages {:>9} bytes  {:>9.3} ms{recorded}  {}",
                entry.number,
                entry.messages,
                entry.bytes,
                entry.kernel.median * 1e3,
                entry.outcome
            );
            for difference in &entry.differences {
                let _ = writeln!(out, "         {difference}");
            }
        }
        if !self.kinds.is_empty() {
            let _ = writeln!(out, "by kind of message (estimated):");
            for kind in &self.kinds {
                let _ = writeln!(
                    out,
                    "  {:<18} {:>8} {:>10.3} ms",
                    kind.kind,
                    kind.count,
                    kind.seconds * 1e3
                );
            }
        }
        if self.unknown_handles > 0 {
            let _ = writeln!(
                out,
                "{} handles were sent as recorded: the capture does not say what they belong to",
                self.unknown_handles
            );
        }
        if self.not_recorded > 0 {
            let _ = writeln!(
                out,
                "{} transactions could not be compared: the capture does not hold the answers",
                self.not_recorded
            );
        }
        let _ = writeln!(
            out,
            "{}",
            if self.agrees() {
                "the kernel said what it said in the capture".to_owned()
            } else {
                format!(
                    "the kernel said something else to {} transactions",
                    self.differing
                )
            }
        );
        out
    }
}
