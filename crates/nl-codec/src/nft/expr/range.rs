//! `range`: end the rule unless a register is inside, or outside, a range
//! (`net/netfilter/nft_range.c`).

use core::fmt::{self, Formatter};

use crate::nft::{Data, Register, Value};
use crate::pretty::text::{Shown, Text, data};

open_enum! {
    /// `enum nft_range_ops`.
    pub struct RangeOp(u32) {
        /// Inside.
        EQ = 0, "eq";
        /// Outside.
        NEQ = 1, "neq";
    }
}

attr_struct! {
    /// Compares `sreg` with `from`–`to` as bytes (`NFTA_RANGE_*`).
    pub struct Range<'a> {
        /// Register compared.
        1 => sreg: Register,
        /// See [`RangeOp`].
        2 => op: RangeOp,
        /// First value.
        3 => from: Data<'a>,
        /// Last value, of the same length.
        4 => to: Data<'a>,
    }
}

impl<'a> Range<'a> {
    /// Goes on when `sreg` is inside (or outside) `from`–`to`, both included.
    #[must_use]
    pub fn new(op: RangeOp, sreg: Register, from: Value<'a>, to: Value<'a>) -> Self {
        Self {
            sreg: Some(sreg),
            op: Some(op),
            from: Some(Data::Value(from)),
            to: Some(Data::Value(to)),
        }
    }
}

impl Text for Range<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} reg {} ", Shown(self.op), Shown(self.sreg))?;
        data(f, "0x", self.from.as_ref())?;
        data(f, "0x", self.to.as_ref())
    }
}
