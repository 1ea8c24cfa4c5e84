//! `immediate`: a constant into a register, or a verdict (`net/netfilter/nft_immediate.c`).

use crate::nft::{Data, Register, Value, Verdict};

attr_struct! {
    /// `dreg` = `data` (`NFTA_IMMEDIATE_*`).
    pub struct Immediate<'a> {
        /// Destination; [`Register::VERDICT`] for a verdict.
        1 => dreg: Register,
        /// Bytes or a verdict.
        2 => data: Data<'a>,
    }
}

impl<'a> Immediate<'a> {
    /// `dreg` = `value`.
    #[must_use]
    pub fn value(dreg: Register, value: Value<'a>) -> Self {
        Self {
            dreg: Some(dreg),
            data: Some(Data::Value(value)),
        }
    }

    /// Ends the rule with `verdict`.
    #[must_use]
    pub fn verdict(verdict: Verdict<'a>) -> Self {
        Self {
            dreg: Some(Register::VERDICT),
            data: Some(Data::Verdict(verdict)),
        }
    }
}
