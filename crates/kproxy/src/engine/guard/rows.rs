//! Comparing rows with what the planner believes in, by keyed reads, and putting them right without
//! touching any other.

use std::sync::Arc;

use nft_batch::{Batch, BatchOptions, Errno, Outcome, SealedBatch, Transport};
use nl_codec::nft::{Elem, Value};
use svc_planner::ExpectedRow;
use svc_planner::plan::{DataType, Datum, Family, Key, KeyType, Name, Row, SetChange, Transaction};

use super::super::{Engine, EngineError, TABLE};
use crate::lower::{holds, key_bytes, key_of, lower, nf_family};

/// What is to be done about rows that are not as they should be.
#[derive(Debug)]
pub(super) struct Fixes {
    transaction: Transaction,
    /// Keys that none of ours can be, as bytes.
    strange: Vec<(Name, Box<[u8]>)>,
    /// Rows that are wrong.
    pub(super) rows: u64,
    /// A set is not there at all.
    pub(super) set_missing: bool,
}

/// What came of an attempt to put rows right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fixed {
    /// There was nothing to do.
    Nothing,
    /// All is as it should be.
    Done,
    /// Not in the kernel: rows have changed once more, or a chain they lead to is missing.
    Refused,
}

impl Fixes {
    pub(super) fn new(family: Family) -> Self {
        Self {
            transaction: Transaction::new(family),
            strange: Vec::new(),
            rows: 0,
            set_missing: false,
        }
    }

    fn change(&mut self, set: &Name, layout: KeyType, data: DataType) -> &mut SetChange {
        let elements = &mut self.transaction.elements;
        let known = elements.iter().position(|change| change.set == *set);
        let at = known.unwrap_or_else(|| {
            elements.push(SetChange {
                set: Arc::clone(set),
                key: layout,
                data,
                delete: Vec::new(),
                add: Vec::new(),
            });
            elements.len() - 1
        });
        &mut elements[at]
    }
}

impl<T: Transport> Engine<T> {
    /// Compares rows that should be there, each of them once.
    pub(super) fn compare(
        &mut self,
        rows: &[ExpectedRow],
        fixes: &mut Fixes,
    ) -> Result<(), EngineError> {
        for row in rows {
            let kind = (row.layout, row.data);
            self.compare_row(&row.set, kind, &row.key, Some(&row.datum), fixes)?;
        }
        Ok(())
    }

    /// Looks at a row that somebody changed. False if that cannot be put right row by row.
    pub(super) fn compare_sighted(
        &mut self,
        index: usize,
        (set, bytes): &(Box<str>, Box<[u8]>),
        fixes: &mut Fixes,
    ) -> Result<bool, EngineError> {
        let Some(state) = self.families.get(index) else {
            return Ok(true);
        };
        let (family, planner) = (state.family, &state.planner);
        let Some(expected) = planner.expected_sets().find(|it| **it.name == **set) else {
            return Ok(true);
        };
        if expected.dynamic {
            // Clients come and go there; one less is not worth the fuss.
            return Ok(true);
        }
        if expected.interval {
            return Ok(false);
        }
        let (name, kind) = (Arc::clone(expected.name), (expected.layout, expected.data));
        let Some(key) = key_of(family, kind.0, bytes) else {
            let key = Elem::new(Value::new(bytes));
            let nf = nf_family(family);
            let there = self.connection.element(nf, TABLE, &name, &key, |_| ());
            match there {
                Ok(None) => {}
                Ok(Some(())) => {
                    fixes.strange.push((name, bytes.clone()));
                    fixes.rows += 1;
                }
                Err(error) if error.errno() == Some(Errno::ENOENT) => fixes.set_missing = true,
                Err(error) => return Err(error.into()),
            }
            return Ok(true);
        };
        match planner.expected_row(set, &key) {
            Some(datum) => self.compare_row(&name, kind, &key, datum.as_ref(), fixes)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    fn compare_row(
        &mut self,
        set: &Name,
        (layout, data): (KeyType, DataType),
        key: &Key,
        datum: Option<&Datum>,
        fixes: &mut Fixes,
    ) -> Result<(), EngineError> {
        let family = fixes.transaction.family;
        let Some(bytes) = key_bytes(family, layout, key) else {
            return Ok(());
        };
        let elem = Elem::new(Value::new(bytes.as_slice()));
        let read = self
            .connection
            .element(nf_family(family), TABLE, set, &elem, |elem| {
                datum.is_some_and(|datum| holds(family, elem, datum))
            });
        let found = match read {
            Ok(found) => found,
            Err(error) if error.errno() == Some(Errno::ENOENT) => {
                fixes.set_missing = true;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        if found == Some(true) || found.is_none() && datum.is_none() {
            return Ok(());
        }
        let change = fixes.change(set, layout, data);
        if found.is_some() {
            change.delete.push(*key);
        }
        if let Some(datum) = datum {
            change.add.push(Row {
                key: *key,
                datum: datum.clone(),
            });
        }
        fixes.rows += 1;
        Ok(())
    }

    /// Puts rows right.
    pub(super) fn fix(&mut self, fixes: &Fixes) -> Result<Fixed, EngineError> {
        if fixes.rows == 0 {
            return Ok(Fixed::Nothing);
        }
        let family = nf_family(fixes.transaction.family);
        let options = BatchOptions::default().split(self.split);
        let mut batch = self.batch.take().unwrap_or_else(|| Batch::new(options));
        batch.clear();
        lower(&fixes.transaction, TABLE, &mut batch, &mut self.lowered)?;
        for (set, key) in &fixes.strange {
            let set = batch.set(family, TABLE, set)?;
            batch.delete_elements(set, [Elem::new(Value::new(key))])?;
        }
        let mut sealed = batch.seal();
        let outcome = self.connection.commit(&mut sealed);
        self.batch = Some(SealedBatch::reuse(sealed));
        match outcome {
            Outcome::Committed(committed) => {
                self.repairs += committed.progress.committed;
                Ok(Fixed::Done)
            }
            Outcome::Rejected(rejected) => match rejected.errors.into_iter().next() {
                Some(error) if error.errno == Errno::EPERM => {
                    Err(EngineError::Rejected(Box::new(error)))
                }
                _ => Ok(Fixed::Refused),
            },
            other => Err(EngineError::NotCommitted(other.to_string())),
        }
    }
}
