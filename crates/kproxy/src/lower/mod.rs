//! From a plan to a batch: typed operations become nf_tables objects, expressions and bytes.
//!
//! The bytecode is what nft would send for the same statement, wherever nft has a way to say it,
//! so that nft lists it; where it has none (resetting the scratch between a map lookup and
//! `dnat`), it is what all nft versions can list. Rows are written straight into the batch, without
//! an allocation.

mod bytes;
mod chain;
mod expr;
mod raise;
mod row;
mod set;

pub use bytes::{Bytes, DatumBytes, KeyBytes, datum_bytes, key_bytes, key_of};
pub(crate) use raise::base_name;
pub use raise::{RaiseError, raise_rule, raise_set};
pub use row::{Boundary, Rows, boundaries, boundary_of, datum_of, holds};

use nft_batch::{Batch, BatchError, By, OpId};
use nl_codec::EncodeError;
use nl_codec::msg::Family as NfFamily;
use nl_codec::nft::table::TableFlags;
use nl_codec::nft::udata::Udata;
use nl_codec::nft::{self};
use svc_planner::plan::{Family, Key, SetChange, Transaction};
use thiserror::Error;

/// The comment on our tables, kube-proxy's own.
const TABLE_COMMENT: &str = "rules for kube-proxy";

/// Why a transaction cannot be lowered. The planner does not make such transactions; a plan read
/// from a file may hold one.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LowerError {
    /// The batch refused an operation.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Something is longer than the wire can say.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A key of another layout, or an address of another family, than its set has.
    #[error("{set}: key {key:?} does not fit the set")]
    KeyMismatch {
        /// Set.
        set: String,
        /// Key.
        key: Box<Key>,
    },
    /// A datum of another kind, or an address of another family, than its map has.
    #[error("{set}: datum of key {key:?} does not fit the map")]
    DatumMismatch {
        /// Map.
        set: String,
        /// Key of the row.
        key: Box<Key>,
    },
    /// A rule that is wrong in itself.
    #[error("chain {chain}: {what}")]
    Rule {
        /// Chain.
        chain: String,
        /// What is wrong.
        what: &'static str,
    },
}

/// Which operation of the batch stands for what of the transaction; for reading errors back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lowered {
    elements: Vec<ElementOp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ElementOp {
    op: OpId,
    change: usize,
    deletes: bool,
}

impl Lowered {
    /// The key of element number `index` of operation `op`.
    #[must_use]
    pub fn key<'t>(&self, transaction: &'t Transaction, op: OpId, index: u32) -> Option<&'t Key> {
        let found = self.elements.iter().find(|element| element.op == op)?;
        let change = transaction.elements.get(found.change)?;
        let index = usize::try_from(index).ok()?;
        if found.deletes {
            change.delete.get(index)
        } else {
            change.add.get(index).map(|row| &row.key)
        }
    }

    fn clear(&mut self) {
        self.elements.clear();
    }
}

/// The family of a table on the wire.
#[must_use]
pub const fn nf_family(family: Family) -> NfFamily {
    match family {
        Family::Ipv4 => NfFamily::IPV4,
        Family::Ipv6 => NfFamily::IPV6,
    }
}

/// Adds the operations of `transaction` on `table` to `batch`.
///
/// # Errors
/// See [`LowerError`]; the batch then holds part of the transaction and must be cleared.
pub fn lower(
    transaction: &Transaction,
    table: &str,
    batch: &mut Batch,
    lowered: &mut Lowered,
) -> Result<(), LowerError> {
    lowered.clear();
    let family = nf_family(transaction.family);
    if transaction.add_table {
        let comment = Udata::with_comment(TABLE_COMMENT)?;
        let mut body = nft::Table::named(table);
        body.userdata = Some(comment.as_bytes());
        batch.add_table(family, &body)?;
    }
    for chain in &transaction.flush_chains {
        batch.flush_chain(family, table, chain)?;
    }
    if !transaction.replace_chains.is_empty() {
        for chain in &transaction.replace_chains {
            batch.delete_chain(family, table, By::Name(chain))?;
        }
        // The chains of the same names come in the same transaction, after this.
        batch.barrier();
    }
    for set in &transaction.add_sets {
        set::add(batch, transaction.family, table, set)?;
    }
    for chain in &transaction.add_chains {
        batch.add_chain(family, &chain::chain(table, chain))?;
    }
    for (index, change) in transaction.elements.iter().enumerate() {
        elements(transaction.family, table, index, change, batch, lowered)?;
    }
    for rule in &transaction.add_rules {
        expr::add_rule(batch, transaction.family, table, rule)?;
    }
    for set in &transaction.delete_sets {
        batch.delete_set(family, table, By::Name(set))?;
    }
    for chain in &transaction.delete_chains {
        batch.delete_chain(family, table, By::Name(chain))?;
    }
    if transaction.delete_table {
        batch.delete_table(family, By::Name(table))?;
    }
    Ok(())
}

/// Adds a table that belongs to whoever commits the batch, and outlives him; before anything else.
///
/// # Errors
/// See [`LowerError`].
pub fn own_table(batch: &mut Batch, family: Family, table: &str) -> Result<(), LowerError> {
    let comment = Udata::with_comment(TABLE_COMMENT)?;
    let mut body = nft::Table::named(table);
    body.userdata = Some(comment.as_bytes());
    body.flags = Some(TableFlags::OWNER | TableFlags::PERSIST);
    batch.add_table(nf_family(family), &body)?;
    Ok(())
}

fn elements(
    family: Family,
    table: &str,
    index: usize,
    change: &SetChange,
    batch: &mut Batch,
    lowered: &mut Lowered,
) -> Result<(), LowerError> {
    let rows = Rows::checked(family, change)?;
    let set = batch.set(nf_family(family), table, &change.set)?;
    if !change.delete.is_empty() {
        let op = batch.delete_elements(set, rows.deletions())?;
        lowered.elements.push(ElementOp {
            op,
            change: index,
            deletes: true,
        });
    }
    if !change.add.is_empty() {
        let op = batch.add_elements(set, rows.additions())?;
        lowered.elements.push(ElementOp {
            op,
            change: index,
            deletes: false,
        });
    }
    Ok(())
}
