//! `cmp`: end the rule unless a register compares as said (`net/netfilter/nft_cmp.c`).

use core::fmt::{self, Formatter};

use crate::nft::{Data, Register, Value};
use crate::pretty::text::{Shown, Text, data};

open_enum! {
    /// `enum nft_cmp_ops`. Order is that of the bytes, so that of numbers in network order.
    pub struct CmpOp(u32) {
        /// Equal.
        EQ = 0, "eq";
        /// Not equal.
        NEQ = 1, "neq";
        /// Less.
        LT = 2, "lt";
        /// Less or equal.
        LTE = 3, "lte";
        /// Greater.
        GT = 4, "gt";
        /// Greater or equal.
        GTE = 5, "gte";
    }
}

attr_struct! {
    /// Compares `sreg` with `data` (`NFTA_CMP_*`).
    pub struct Cmp<'a> {
        /// Register compared.
        1 => sreg: Register,
        /// See [`CmpOp`].
        2 => op: CmpOp,
        /// Bytes compared with; their number is the number of bytes compared.
        3 => data: Data<'a>,
    }
}

impl<'a> Cmp<'a> {
    /// Goes on when `sreg` `op` `value`.
    #[must_use]
    pub fn new(op: CmpOp, sreg: Register, value: Value<'a>) -> Self {
        Self {
            sreg: Some(sreg),
            op: Some(op),
            data: Some(Data::Value(value)),
        }
    }

    /// Goes on when `sreg` holds `value`.
    #[must_use]
    pub fn eq(sreg: Register, value: Value<'a>) -> Self {
        Self::new(CmpOp::EQ, sreg, value)
    }

    /// Goes on when `sreg` does not hold `value`.
    #[must_use]
    pub fn neq(sreg: Register, value: Value<'a>) -> Self {
        Self::new(CmpOp::NEQ, sreg, value)
    }
}

impl Text for Cmp<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} reg {} ", Shown(self.op), Shown(self.sreg))?;
        data(f, "0x", self.data.as_ref())
    }
}
