//! Rules.

use nl_codec::msg::{Family, Flags, Head, NftMsg};
use nl_codec::nft::Rule;

use super::{Batch, check_name, create, required};
use crate::order::Phase;
use crate::{BatchError, OpId};

impl Batch {
    /// Appends a rule to its chain, or with [`Rule::position`] puts it after that rule.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_rule(&mut self, family: Family, rule: &Rule<'_>) -> Result<OpId, BatchError> {
        let head = create(NftMsg::NEW_RULE, family).with_flags(Flags::APPEND);
        self.push_rule("add rule", head, rule)
    }

    /// Puts a rule at the beginning of its chain, or with [`Rule::position`] before that rule.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn insert_rule(&mut self, family: Family, rule: &Rule<'_>) -> Result<OpId, BatchError> {
        self.push_rule("insert rule", create(NftMsg::NEW_RULE, family), rule)
    }

    /// Puts a rule in the place of the one with its [`Rule::handle`].
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace_rule(&mut self, family: Family, rule: &Rule<'_>) -> Result<OpId, BatchError> {
        let what = "replace rule";
        required(what, "a handle", rule.handle)?;
        let head = Head::nft(NftMsg::NEW_RULE, family).with_flags(Flags::REPLACE);
        self.push_rule(what, head, rule)
    }

    /// Deletes one rule.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_rule(
        &mut self,
        family: Family,
        table: &str,
        chain: &str,
        handle: u64,
    ) -> Result<OpId, BatchError> {
        let rule = Rule::at(table, chain, Some(handle));
        self.push(
            "delete rule",
            Phase::DeleteRule,
            Head::nft(NftMsg::DEL_RULE, family),
            &rule,
        )
    }

    /// Deletes all rules of a chain.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn flush_chain(
        &mut self,
        family: Family,
        table: &str,
        chain: &str,
    ) -> Result<OpId, BatchError> {
        let rule = Rule::at(table, chain, None);
        check_name("chain", rule.chain)?;
        self.push(
            "flush chain",
            Phase::DeleteRule,
            Head::nft(NftMsg::DEL_RULE, family),
            &rule,
        )
    }

    fn push_rule(
        &mut self,
        what: &'static str,
        head: Head,
        rule: &Rule<'_>,
    ) -> Result<OpId, BatchError> {
        required(what, "a table", rule.table)?;
        if rule.chain.is_none() && rule.chain_id.is_none() {
            let field = "a chain";
            return Err(BatchError::Missing { what, field });
        }
        self.push(what, Phase::AddRule, head, rule)
    }
}
