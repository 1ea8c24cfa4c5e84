//! What a sync would do, found out without doing it.

use core::time::Duration;

use nft_batch::{Errno, Transport};
use nl_codec::nft::{Elem, Value};
use serde::Serialize;
use svc_planner::Next;
use svc_planner::plan::{DataType, Datum, Family, Key, KeyType, Name, Transaction};
use svc_planner::report::PortName;

use super::{Engine, EngineError, FamilyState, TABLE};
use crate::lower::{datum_of, key_bytes, nf_family};

/// What would change in one family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WouldChange {
    /// Family.
    pub family: Family,
    /// The table is not as we left it, or not there: all of it would be made anew.
    pub rebuild: bool,
    /// Transactions that would be sent, in order.
    pub transactions: Vec<Transaction>,
    /// Their rows beside what the kernel holds now.
    pub rows: Vec<RowChange>,
}

/// A row that would change.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RowChange {
    /// Set or map.
    pub set: Name,
    /// Key.
    pub key: Key,
    /// What the kernel holds for the key now; `None` if nothing.
    pub live: Option<Datum>,
    /// What it would hold; `None` if nothing.
    pub wanted: Option<Datum>,
    /// Service port the row is for, if it is for one alone.
    pub service: Option<String>,
}

impl<T: Transport> Engine<T> {
    /// What [`sync`](Engine::sync) would do, up to what is removed later. The engine is of no use
    /// afterwards: its planners believe it was done.
    ///
    /// # Errors
    /// [`EngineError::Query`].
    pub fn dry_run(mut self) -> Result<Vec<WouldChange>, EngineError> {
        let families = core::mem::take(&mut self.families);
        families
            .into_iter()
            .map(|state| self.dry_run_family(state))
            .filter(|changes| {
                changes
                    .as_ref()
                    .map_or(true, |changes| !changes.transactions.is_empty())
            })
            .collect()
    }

    fn dry_run_family(&mut self, mut state: FamilyState) -> Result<WouldChange, EngineError> {
        let mut now = self.clock.now();
        let mut transactions = Vec::new();
        loop {
            match state.planner.next(now) {
                Next::Commit(transaction) => {
                    transactions.push(*transaction);
                    state.planner.committed(now);
                }
                Next::Clients => state.planner.carry_over([]),
                Next::WaitUntil(time) if !state.planner.is_complete() => now = time,
                _ => break,
            }
            // A clock that stands still would let nothing that waits come due.
            now += Duration::from_nanos(1);
        }
        let mut rows: Vec<RowChange> = Vec::new();
        for change in transactions.iter().flat_map(|it| &it.elements) {
            if change.key == KeyType::State {
                continue;
            }
            let deleted = change.delete.iter().map(|key| (key, None));
            let added = change.add.iter().map(|row| (&row.key, Some(&row.datum)));
            // A replaced row is deleted and added: the addition is what counts.
            let again: std::collections::HashSet<_> =
                change.add.iter().map(|row| row.key).collect();
            for (key, wanted) in deleted.filter(|(key, _)| !again.contains(key)).chain(added) {
                let live = self.live(state.family, &change.set, (change.key, change.data), key)?;
                let owner = state.planner.owner(key);
                rows.push(RowChange {
                    set: change.set.clone(),
                    key: *key,
                    live,
                    wanted: wanted.cloned(),
                    service: owner.map(|owner: PortName| owner.to_string()),
                });
            }
        }
        Ok(WouldChange {
            family: state.family,
            rebuild: state.rebuilt,
            transactions,
            rows,
        })
    }

    /// What the kernel holds for a key.
    fn live(
        &mut self,
        family: Family,
        set: &str,
        (layout, data): (KeyType, DataType),
        key: &Key,
    ) -> Result<Option<Datum>, EngineError> {
        let Some(bytes) = key_bytes(family, layout, key) else {
            return Ok(None);
        };
        let key = Elem::new(Value::new(bytes.as_slice()));
        let read = self
            .connection
            .element(nf_family(family), TABLE, set, &key, |elem| {
                datum_of(family, data, elem)
            });
        match read {
            Ok(found) => Ok(found.flatten()),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
