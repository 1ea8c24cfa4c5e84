//! Removing our tables.

use nft_batch::{Batch, BatchOptions, Outcome};

use super::{EngineError, FAMILIES, Netns, TABLE, connect};
use crate::lower::{LowerError, nf_family};

/// Deletes our tables of both families in one transaction; none there is fine.
///
/// # Errors
/// See [`EngineError`].
pub fn cleanup(netns: &Netns) -> Result<(), EngineError> {
    let mut connection = connect(netns)?;
    // Adding and deleting works on every kernel, whether the table is there or not.
    let mut batch = Batch::new(BatchOptions::default().destroy(false));
    for family in FAMILIES {
        batch
            .destroy_table(nf_family(family), TABLE)
            .map_err(LowerError::from)?;
    }
    match connection.commit(&mut batch.seal()) {
        Outcome::Committed(_) => Ok(()),
        Outcome::Rejected(rejected) => match rejected.errors.into_iter().next() {
            Some(error) => Err(EngineError::Rejected(Box::new(error))),
            None => Err(EngineError::NotCommitted("rejected".to_owned())),
        },
        other => Err(EngineError::NotCommitted(other.to_string())),
    }
}
