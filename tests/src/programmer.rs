//! Plans and commits changes in a namespace, with the library's own parts and nothing in between.

use core::time::Duration;
use std::{thread, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use kproxy::{
    lab::Namespace,
    lower::{Lowered, lower},
};
use nft_batch::{Batch, BatchOptions, Connection, SealedBatch};
use svc_planner::{
    Config, Inventory, Next, Planner,
    object::Change,
    plan::{Family, Name, Transaction},
};

/// Name of the table.
pub const TABLE: &str = "kube-proxy";

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

/// A planner of one family and the kernel it plans for.
#[derive(Debug)]
pub struct Programmer {
    planner: Planner,
    committer: Committer,
    family: Family,
    config: Config,
    inventory: Inventory,
    started: Instant,
    commits: u64,
}

impl Programmer {
    /// Starts with an empty table in a namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(namespace: &Namespace, family: Family, config: Config) -> Result<Self> {
        Ok(Self {
            planner: Planner::new(family, config.clone()),
            committer: Committer::open(namespace)?,
            family,
            config,
            inventory: Inventory::default(),
            started: Instant::now(),
            commits: 0,
        })
    }

    /// Takes a change in and commits what can be committed now.
    ///
    /// # Errors
    /// When a transaction is not committed.
    pub fn apply(&mut self, change: Change) -> Result<()> {
        self.planner.apply(change);
        self.commit_due()?;
        Ok(())
    }

    /// Commits what is due. Returns when more will be, if anything is held back.
    ///
    /// # Errors
    /// When a transaction is not committed.
    pub fn commit_due(&mut self) -> Result<Option<Duration>> {
        loop {
            match self.planner.next(self.started.elapsed()) {
                Next::Commit(transaction) => {
                    self.committer.commit(&transaction)?;
                    self.commits += 1;
                    note(&mut self.inventory, &transaction);
                    self.planner.committed(self.started.elapsed());
                }
                Next::WaitUntil(time) => return Ok(Some(time)),
                Next::Idle => return Ok(None),
                other => bail!("the planner says {other:?}"),
            }
        }
    }

    /// Commits until the kernel holds what it should, which is when nothing is due for longer than
    /// a new chain rests.
    ///
    /// # Errors
    /// When a transaction is not committed.
    pub fn settle(&mut self) -> Result<()> {
        while let Some(time) = self.commit_due()? {
            let wait = time.saturating_sub(self.started.elapsed());
            if wait > self.config.settle {
                break;
            }
            thread::park_timeout(wait);
        }
        Ok(())
    }

    /// Number of transactions committed.
    #[must_use]
    pub const fn commits(&self) -> u64 {
        self.commits
    }

    /// Starts over with a new planner, as a restarted program does: `changes` are what it is told
    /// first.
    ///
    /// # Errors
    /// When a transaction is not committed.
    pub fn take_over(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<()> {
        self.config.instance = self.config.instance.wrapping_add(1);
        self.planner = Planner::new(self.family, self.config.clone());
        for change in changes {
            self.planner.apply(change);
        }
        self.planner.rebuild(self.inventory.clone());
        self.settle()
    }
}

/// Keeps the list of what is in the table.
fn note(inventory: &mut Inventory, transaction: &Transaction) {
    let gone = |name: &Name, list: &[Name]| list.contains(name);
    inventory.chains.retain(|chain| {
        !gone(&chain.name, &transaction.delete_chains)
            && !gone(&chain.name, &transaction.replace_chains)
    });
    inventory
        .sets
        .retain(|set| !gone(set, &transaction.delete_sets));
    inventory
        .chains
        .extend(transaction.add_chains.iter().cloned());
    inventory
        .sets
        .extend(transaction.add_sets.iter().map(|set| set.name.clone()));
}
