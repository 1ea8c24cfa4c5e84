//! Commits hand-made transactions, with the library's own parts and no planner.

use anyhow::{Context as _, Result, ensure};
use kproxy::{
    engine::TABLE,
    lower::{Lowered, lower},
};
use netns_lab::Namespace;
use nft_batch::{Batch, BatchOptions, Connection, SealedBatch};
use svc_planner::plan::Transaction;

/// Commits transactions in a namespace.
#[derive(Debug)]
pub struct Committer {
    connection: Connection,
}

impl Committer {
    /// Connects to the kernel inside a namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn open(namespace: &Namespace) -> Result<Self> {
        Ok(Self {
            connection: namespace.run(Connection::open)??,
        })
    }

    /// Commits a transaction.
    ///
    /// # Errors
    /// When it cannot be lowered, or is not committed.
    pub fn commit(&mut self, transaction: &Transaction) -> Result<()> {
        let mut batch = encode(transaction)?;
        self.commit_encoded(&mut batch)
            .with_context(|| format!("{transaction:#?}"))
    }

    /// Commits a batch encoded before.
    ///
    /// # Errors
    /// When it is not committed.
    pub fn commit_encoded(&mut self, batch: &mut SealedBatch) -> Result<()> {
        let outcome = self.connection.commit(batch);
        ensure!(outcome.is_committed(), "{outcome}");
        Ok(())
    }
}

/// Encodes a transaction for [`Committer::commit_encoded`].
///
/// # Errors
/// When it cannot be lowered.
pub fn encode(transaction: &Transaction) -> Result<SealedBatch> {
    let mut batch = Batch::new(BatchOptions::default());
    lower(transaction, TABLE, &mut batch, &mut Lowered::default())?;
    Ok(batch.seal())
}
