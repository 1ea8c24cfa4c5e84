//! Tables.

use nl_codec::msg::{Family, Head, NftMsg};
use nl_codec::nft::Table;

use super::{Batch, by_name_or_handle, check_name, create, required};
use crate::order::Phase;
use crate::{BatchError, By, OpId};

impl Batch {
    /// Creates a table, or changes its flags.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_table(&mut self, family: Family, table: &Table<'_>) -> Result<OpId, BatchError> {
        let what = "add table";
        required(what, "a name", table.name)?;
        check_name("table", table.name)?;
        self.push(
            what,
            Phase::AddTable,
            create(NftMsg::NEW_TABLE, family),
            table,
        )
    }

    /// Deletes a table with everything in it.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_table(&mut self, family: Family, table: By<'_>) -> Result<OpId, BatchError> {
        let table = by_name_or_handle!(Table::default(), name, table);
        check_name("table", table.name)?;
        self.push(
            "delete table",
            Phase::DeleteTable,
            Head::nft(NftMsg::DEL_TABLE, family),
            &table,
        )
    }

    /// Deletes a table if it exists.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn destroy_table(&mut self, family: Family, name: &str) -> Result<OpId, BatchError> {
        let table = Table::named(name);
        check_name("table", table.name)?;
        if self.options.destroy {
            return self.push(
                "destroy table",
                Phase::DeleteTable,
                Head::nft(NftMsg::DESTROY_TABLE, family),
                &table,
            );
        }
        let op = self.add_table(family, &table)?;
        let head = Head::nft(NftMsg::DEL_TABLE, family);
        self.push_as(op, "destroy table", Phase::DeleteTable, head, &table)
    }
}
