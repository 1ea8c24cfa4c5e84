//! Tables that belong to this process: an option, since nobody else can change them then.
//!
//! A live owner's table answers everyone else with EPERM. With the flag `persist` it outlives its
//! owner, and any process may change it then; but `add table` with other flags, as kube-proxy sends
//! it, is refused (EOPNOTSUPP, `nf_tables_updtable`) until the table is deleted.

use nft_batch::{Batch, Errno, Transport};
use nl_codec::nft::table::TableFlags;
use svc_planner::plan::Family;

use super::{Engine, EngineError, TABLE};
use crate::lower::{nf_family, own_table};

impl<T: Transport> Engine<T> {
    /// Tables that are made from here on belong to this process, and so do those that outlived their
    /// owner; others cannot be made ours without deleting them. To be called after
    /// [`adopt`](Self::adopt).
    ///
    /// # Errors
    /// [`EngineError::Query`], [`EngineError::NotCommitted`].
    pub fn own_tables(&mut self) -> Result<(), EngineError> {
        self.owns = true;
        let families: Vec<Family> = self.families().collect();
        for family in families {
            match self.table_flags(family)? {
                None => {}
                Some((flags, _)) if flags.contains(TableFlags::PERSIST) => self.own_now(family)?,
                Some(_) => {
                    tracing::warn!(
                        "table {family} {TABLE} was made without an owner and stays so; \
                         to own it, delete it first (kproxy cleanup)"
                    );
                    continue;
                }
            }
            tracing::warn!(
                "table {family} {TABLE} belongs to this process: whoever else changes it, nft \
                 included, is refused (EPERM). It outlives the process; kube-proxy cannot take it \
                 over then before it is deleted (kproxy cleanup)"
            );
        }
        Ok(())
    }

    /// Refuses to work on a table with a live owner.
    pub(super) fn check_owner(&mut self, family: Family) -> Result<(), EngineError> {
        match self.table_flags(family)? {
            Some((flags, Some(port)))
                if flags.contains(TableFlags::OWNER) && port != self.connection.port() =>
            {
                Err(EngineError::Owned { family, port })
            }
            _ => Ok(()),
        }
    }

    /// Puts a table of our own at the beginning of a batch that makes one.
    pub(super) fn put_owned_table(
        &mut self,
        family: Family,
        batch: &mut Batch,
    ) -> Result<(), EngineError> {
        if !self.owns {
            return Ok(());
        }
        let flags = self.table_flags(family)?.map(|(flags, _)| flags);
        if flags.is_none_or(|flags| flags.contains(TableFlags::PERSIST)) {
            own_table(batch, family, TABLE)?;
        }
        Ok(())
    }

    fn own_now(&mut self, family: Family) -> Result<(), EngineError> {
        let mut batch = Batch::default();
        own_table(&mut batch, family, TABLE)?;
        let outcome = self.connection.commit(&mut batch.seal());
        if outcome.is_committed() {
            Ok(())
        } else {
            Err(EngineError::NotCommitted(outcome.to_string()))
        }
    }

    /// Flags and owner; `None` if there is no table.
    fn table_flags(
        &mut self,
        family: Family,
    ) -> Result<Option<(TableFlags, Option<u32>)>, EngineError> {
        let read = self
            .connection
            .table_info(nf_family(family), TABLE, |table| {
                (table.flags.unwrap_or(TableFlags::empty()), table.owner)
            });
        match read {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
