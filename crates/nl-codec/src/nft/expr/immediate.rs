//! `immediate`: a constant into a register, or a verdict (`net/netfilter/nft_immediate.c`).

use core::fmt::{self, Formatter};

use crate::nft::{Data, Register, Value, Verdict};
use crate::pretty::text::{Shown, Text, data};

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

impl Text for Immediate<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "reg {} ", Shown(self.dreg))?;
        data(f, "0x", self.data.as_ref())
    }
}
