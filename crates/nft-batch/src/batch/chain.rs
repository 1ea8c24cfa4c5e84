//! Chains.

use nl_codec::msg::{Family, Head, NftMsg};
use nl_codec::nft::Chain;

use super::{Batch, by_name_or_handle, check_name, create, required};
use crate::order::Phase;
use crate::{BatchError, By, OpId};

impl Batch {
    /// Creates a chain, or changes the policy of one.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_chain(&mut self, family: Family, chain: &Chain<'_>) -> Result<OpId, BatchError> {
        let what = "add chain";
        required(what, "a table", chain.table)?;
        required(what, "a name", chain.name)?;
        check_name("chain", chain.name)?;
        self.push(
            what,
            Phase::AddChain,
            create(NftMsg::NEW_CHAIN, family),
            chain,
        )
    }

    /// Deletes a chain with its rules. By name, its rules go before the sets which this section
    /// deletes; by handle they go after them (`DELRULE` takes no chain handle).
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_chain(
        &mut self,
        family: Family,
        table: &str,
        chain: By<'_>,
    ) -> Result<OpId, BatchError> {
        let mut body = by_name_or_handle!(Chain::default(), name, chain);
        body.table = Some(table.into());
        check_name("chain", body.name)?;
        let head = Head::nft(NftMsg::DEL_CHAIN, family);
        let By::Name(name) = chain else {
            return self.push("delete chain", Phase::DeleteChain, head, &body);
        };
        let op = self.flush_chain(family, table, name)?;
        self.push_as(op, "delete chain", Phase::DeleteChain, head, &body)
    }

    /// Deletes a chain if it exists.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn destroy_chain(
        &mut self,
        family: Family,
        table: &str,
        name: &str,
    ) -> Result<OpId, BatchError> {
        let chain = Chain::named(table, name);
        check_name("chain", chain.name)?;
        if self.options.destroy {
            let head = Head::nft(NftMsg::DESTROY_CHAIN, family);
            return self.push("destroy chain", Phase::DeleteChain, head, &chain);
        }
        let op = self.add_chain(family, &chain)?;
        let head = Head::nft(NftMsg::DEL_CHAIN, family);
        self.push_as(op, "destroy chain", Phase::DeleteChain, head, &chain)
    }
}
