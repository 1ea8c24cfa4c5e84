//! Rules (`nf_tables_newrule`, `nf_tables_fill_rule_info`).
//!
//! Where a new rule goes is said by the message's flags and by position attributes:
//!
//! | flags | position | effect |
//! |---|---|---|
//! | CREATE, APPEND | none | at the end of the chain |
//! | CREATE | none | at the beginning |
//! | CREATE, APPEND | handle or id of a rule | after that rule |
//! | CREATE | handle or id of a rule | before that rule |
//! | REPLACE | `handle` of the rule | instead of it |

use super::{Exprs, Str};

bitflags::bitflags! {
    /// `NFT_RULE_COMPAT_F_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct RuleCompatFlags: u32 {
        /// Invert the protocol.
        const INVERT = 2;
        const _ = !0;
    }
}
flags_value!(RuleCompatFlags);

attr_struct! {
    /// Protocol that xtables extensions in the rule may rely on (`NFTA_RULE_COMPAT_*`).
    pub struct RuleCompat {
        /// Layer 4 protocol.
        1 => proto: u32,
        /// See [`RuleCompatFlags`].
        2 => flags: RuleCompatFlags,
    }
}

attr_struct! {
    /// A rule (`NFTA_RULE_*`): NEW, GET, DEL and DESTROY RULE. Delete without handle and id deletes
    /// all rules of the chain, without chain those of the table.
    pub struct Rule<'a> {
        /// Table.
        1 => table: Str<'a>,
        /// Chain, by name.
        2 => chain: Str<'a>,
        /// Chain, by id of a chain created in the same batch.
        11 => chain_id: u32,
        /// Handle, given by the kernel: which rule to replace or delete.
        3 => handle: u64,
        /// Expressions, evaluated in order.
        4 => exprs: Exprs<'a>,
        /// See [`RuleCompat`].
        5 => compat: RuleCompat,
        /// Handle of the rule next to which a new one goes; in events the handle of the rule
        /// before.
        6 => position: u64,
        /// Comment and more, at most 256 bytes; see [`crate::nft::udata`].
        7 => userdata: &'a [u8],
        /// Number by which other messages of the same batch can refer to a new rule.
        9 => id: u32,
        /// Id of the rule of the same batch next to which a new one goes.
        10 => position_id: u32,
    }
}

impl<'a> Rule<'a> {
    /// A rule of `chain` with these expressions.
    #[must_use]
    pub fn new(table: &'a str, chain: &'a str, exprs: Exprs<'a>) -> Self {
        Self {
            table: Some(table.into()),
            chain: Some(chain.into()),
            exprs: Some(exprs),
            ..Self::default()
        }
    }

    /// The rule with `handle`, or with `None` all rules of `chain`.
    #[must_use]
    pub fn at(table: &'a str, chain: &'a str, handle: Option<u64>) -> Self {
        Self {
            table: Some(table.into()),
            chain: Some(chain.into()),
            handle,
            ..Self::default()
        }
    }
}
