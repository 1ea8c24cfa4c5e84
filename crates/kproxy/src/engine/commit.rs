//! One transaction on its way: lowered, sent, and its outcome told to its planner.

use std::time::Instant;

use nft_batch::{
    Batch, BatchOptions, Errno, NotSent, NotSentReason, Outcome, SealedBatch, Transport,
};
use svc_planner::plan::{Key, KeyType, Transaction};
use svc_planner::report::PortName;

use super::{Applied, Engine, EngineError, TABLE};
use crate::lower::lower;

impl<T: Transport> Engine<T> {
    /// Sends one transaction and tells its planner. `None` if it was not committed and the planner
    /// has been told why.
    pub(super) fn commit(
        &mut self,
        index: usize,
        transaction: &Transaction,
    ) -> Result<Option<Applied>, EngineError> {
        self.before_commit(index, transaction.rows())?;
        let (mut outcome, mut applied) = self.send(index, transaction)?;
        if too_long(&outcome) && !self.split {
            // What may be cut is encoded differently: a set that is new is referenced by name.
            self.split = true;
            self.batch = None;
            (outcome, applied) = self.send(index, transaction)?;
        }
        self.conclude(index, transaction, outcome, applied.messages)
            .map(|committed| committed.then_some(applied))
    }

    /// Lowers a transaction and sends it.
    fn send(
        &mut self,
        index: usize,
        transaction: &Transaction,
    ) -> Result<(Outcome, Applied), EngineError> {
        let encoding = Instant::now();
        let isolate = self.families.get(index).is_some_and(|it| it.isolate);
        let options = BatchOptions::default().split(self.split).isolate(isolate);
        let batch = self.batch.take().filter(|it| it.options() == options);
        let mut batch = batch.unwrap_or_else(|| Batch::new(options));
        batch.clear();
        let owned = if transaction.add_table {
            self.put_owned_table(transaction.family, &mut batch)
        } else {
            Ok(())
        };
        let lowered =
            owned.and_then(|()| Ok(lower(transaction, TABLE, &mut batch, &mut self.lowered)?));
        if let Err(error) = lowered {
            self.batch = Some(batch);
            self.reject(index, &[]);
            return Err(error);
        }
        let mut sealed = batch.seal();
        let encode = encoding.elapsed();
        let committing = Instant::now();
        let outcome = self.connection.commit(&mut sealed);
        let commit = committing.elapsed();
        let mut applied = Applied::of(transaction, &sealed);
        applied.encode = encode;
        applied.commit = commit;
        self.batch = Some(SealedBatch::reuse(sealed));
        Ok((outcome, applied))
    }

    /// Tells the planner what became of its transaction; whether it is in the kernel.
    fn conclude(
        &mut self,
        index: usize,
        transaction: &Transaction,
        outcome: Outcome,
        messages: u32,
    ) -> Result<bool, EngineError> {
        if let Outcome::GenerationMismatch(_) = outcome {
            self.note_conflict(index);
        }
        let parts = outcome.progress().committed;
        let partly = parts > 0 && !outcome.is_committed();
        if parts > 0 {
            self.after_commit(index, transaction, parts);
        }
        match outcome {
            Outcome::Committed(_) => {
                self.accept(index);
                Ok(true)
            }
            Outcome::Rejected(rejected) => {
                self.rejected(index, transaction, &rejected, messages)?;
                Ok(false)
            }
            Outcome::Unknown(unknown) => {
                let there = self.is_there(transaction);
                if let Ok(true) = there {
                    self.after_commit(index, transaction, 1);
                    self.accept(index);
                    return Ok(true);
                }
                self.reject(index, &[]);
                if there.is_err() {
                    // It may be there all the same.
                    self.distrust(index);
                }
                there?;
                let unknown = Outcome::Unknown(unknown);
                tracing::warn!(family = ?transaction.family, "{unknown}");
                let again = self.is_rebuilt(index);
                self.rebuild(index)?;
                if again {
                    return Err(EngineError::NotCommitted(unknown.to_string()));
                }
                Ok(false)
            }
            Outcome::NotSent(NotSent {
                reason: NotSentReason::Send(Errno::ENOBUFS | Errno::ENOMEM),
                ..
            }) if !partly => {
                // Half as much may find memory.
                self.not_sent(index, &outcome.to_string())?;
                Ok(false)
            }
            other => {
                self.reject(index, &[]);
                if partly {
                    self.rebuild(index)?;
                }
                Err(EngineError::NotCommitted(other.to_string()))
            }
        }
    }

    /// Somebody else changed the table.
    pub(super) fn note_conflict(&mut self, index: usize) {
        if let Some(state) = self.families.get_mut(index) {
            state.tally.conflicts += 1;
        }
    }

    fn accept(&mut self, index: usize) {
        let now = self.clock.now();
        if let Some(state) = self.families.get_mut(index) {
            state.planner.committed(now);
            state.rebuilt = false;
            state.isolate = false;
            for suspect in state.suspects.drain(..) {
                let service = &suspect.name;
                if suspect.is_new {
                    tracing::error!(%service, "set aside: the kernel refused it alone");
                } else {
                    tracing::debug!(%service, "set aside: the kernel refused it alone again");
                }
            }
            state.unsaved = true;
        }
    }

    pub(super) fn reject(&mut self, index: usize, offenders: &[PortName]) {
        let now = self.clock.now();
        if let Some(state) = self.families.get_mut(index) {
            state.planner.rejected(now, offenders);
        }
    }

    /// Whether the marker that a transaction sets is in the kernel.
    fn is_there(&mut self, transaction: &Transaction) -> Result<bool, EngineError> {
        let marker = transaction.elements.iter().find_map(|change| {
            let row = change.add.first()?;
            matches!(row.key, Key::State { .. }).then_some((&change.set, &row.key))
        });
        let Some((set, key)) = marker else {
            return Ok(false);
        };
        self.has_row(transaction.family, set, KeyType::State, key)
    }
}

/// Whether a batch is longer than the send buffer can be made.
fn too_long(outcome: &Outcome) -> bool {
    matches!(
        outcome,
        Outcome::NotSent(NotSent {
            reason: NotSentReason::TooLong { .. },
            ..
        })
    )
}
