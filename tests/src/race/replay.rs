//! A kind of change as the engine commits it, recorded once and then replayed encoded: as fast as
//! the kernel takes it.

use anyhow::{Result, ensure};
use nft_batch::SealedBatch;
use svc_planner::plan::{Key, Transaction};

use super::{Arena, Contender, Sequence};
use crate::committer::{Committer, encode};

/// See the module.
#[derive(Debug)]
pub struct Replay {
    committer: Committer,
    batches: Vec<SealedBatch>,
    next: usize,
}

impl Replay {
    /// Records a sequence that comes round after `period` cycles.
    ///
    /// # Errors
    /// When the engine fails, or does nothing.
    pub fn record(
        arena: &Arena,
        contender: &mut Contender<'_>,
        sequence: Sequence,
        period: usize,
    ) -> Result<Self> {
        // The first round creates chains, the second is as all that follow.
        let mut transactions = Vec::new();
        for round in 0..2 {
            transactions.clear();
            for _ in 0..period {
                contender.cycle_with(sequence, |transaction| transactions.push(transaction))?;
                if round == 0 {
                    contender.settle()?;
                }
            }
        }
        ensure!(
            transactions.len() == period,
            "not one transaction a change: {transactions:#?}"
        );
        let batches = transactions
            .iter()
            .map(|it| encode(&without_marker(it)))
            .collect::<Result<_>>()?;
        Ok(Self {
            committer: Committer::open(arena.topology.node())?,
            batches,
            next: 0,
        })
    }

    /// Commits the next change.
    ///
    /// # Errors
    /// When it is not committed.
    pub fn cycle(&mut self) -> Result<()> {
        let count = self.batches.len();
        let batch = &mut self.batches[self.next];
        self.next = (self.next + 1) % count;
        self.committer.commit_encoded(batch)
    }
}

/// The row that names the state of the table is another in each transaction: left out.
fn without_marker(transaction: &Transaction) -> Transaction {
    let mut transaction = transaction.clone();
    transaction.elements.retain(|change| {
        let mut keys = change
            .delete
            .iter()
            .chain(change.add.iter().map(|row| &row.key));
        !keys.any(|key| matches!(key, Key::State { .. }))
    });
    transaction
}
