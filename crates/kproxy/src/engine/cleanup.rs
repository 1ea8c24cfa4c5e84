//! Removing our tables.

use nft_batch::{Batch, BatchOptions, Connection, Outcome, Socket};
use svc_planner::plan::Family;

use super::{EngineError, TABLE, connect};
use crate::family::{FAMILIES, present_families};
use crate::lower::nf_family;
use crate::netns::Netns;

/// Deletes our tables, each family's in a transaction of its own; none there is fine, and so is a kernel
/// without the family.
///
/// # Errors
/// The first one, see [`EngineError`]; the other family's table is deleted nevertheless.
pub fn cleanup(netns: &Netns) -> Result<(), EngineError> {
    let mut connection = connect(netns)?;
    let present = present_families();
    let mut result = Ok(());
    for family in FAMILIES {
        let deleted = delete(&mut connection, family);
        if present.contains(&family) {
            result = result.and(deleted);
        }
    }
    result
}

fn delete(connection: &mut Connection<Socket>, family: Family) -> Result<(), EngineError> {
    // Adding and deleting works on every kernel, whether the table is there or not.
    let mut batch = Batch::new(BatchOptions::default().destroy(false));
    batch.destroy_table(nf_family(family), TABLE)?;
    match connection.commit(&mut batch.seal()) {
        Outcome::Committed(_) => Ok(()),
        Outcome::Rejected(rejected) => match rejected.errors.into_iter().next() {
            Some(error) => Err(EngineError::Rejected(Box::new(error))),
            None => Err(EngineError::NotCommitted("rejected".to_owned())),
        },
        other => Err(EngineError::NotCommitted(other.to_string())),
    }
}
