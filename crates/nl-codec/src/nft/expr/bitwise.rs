//! `bitwise`: boolean operations and shifts on registers (`net/netfilter/nft_bitwise.c`).

use core::fmt::{self, Formatter};

use crate::nft::{Data, Register, Value};
use crate::pretty::text::{Shown, Text, data};

open_enum! {
    /// `enum nft_bitwise_ops`.
    pub struct BitwiseOp(u32) {
        /// `(sreg & mask) ^ xor`: not, and, or, xor with constants.
        MASK_XOR = 0, "mask_xor";
        /// `sreg << data`.
        LSHIFT = 1, "<<";
        /// `sreg >> data`.
        RSHIFT = 2, ">>";
        /// `sreg & sreg2` (Linux 6.13).
        AND = 3, "&";
        /// `sreg | sreg2` (Linux 6.13).
        OR = 4, "|";
        /// `sreg ^ sreg2` (Linux 6.13).
        XOR = 5, "^";
    }
}

attr_struct! {
    /// `dreg` = `op` of `sreg` and `mask`/`xor`, `data` or `sreg2` (`NFTA_BITWISE_*`).
    pub struct Bitwise<'a> {
        /// First operand.
        1 => sreg: Register,
        /// Second operand of and, or, xor.
        8 => sreg2: Register,
        /// Result.
        2 => dreg: Register,
        /// See [`BitwiseOp`]; [`BitwiseOp::MASK_XOR`] when absent.
        6 => op: BitwiseOp,
        /// Length of the operands in bytes.
        3 => len: u32,
        /// Mask of [`BitwiseOp::MASK_XOR`], `len` bytes.
        4 => mask: Data<'a>,
        /// Value xored after the mask, `len` bytes.
        5 => xor: Data<'a>,
        /// Shift in bits (4 bytes, host order), 1 to 31.
        7 => data: Data<'a>,
    }
}

impl<'a> Bitwise<'a> {
    /// `dreg` = (`sreg` & `mask`) ^ `xor`; both of `len` bytes.
    #[must_use]
    pub fn mask_xor(
        sreg: Register,
        dreg: Register,
        len: u32,
        mask: Value<'a>,
        xor: Value<'a>,
    ) -> Self {
        Self {
            mask: Some(Data::Value(mask)),
            xor: Some(Data::Value(xor)),
            ..Self::op(BitwiseOp::MASK_XOR, sreg, dreg, len)
        }
    }

    /// `dreg` = `sreg` << `bits`, over `len` bytes taken as 4-byte numbers in host order.
    #[must_use]
    pub fn lshift(sreg: Register, dreg: Register, len: u32, bits: u32) -> Self {
        Self {
            data: Some(Data::Value(Value::u32_ne(bits))),
            ..Self::op(BitwiseOp::LSHIFT, sreg, dreg, len)
        }
    }

    /// `dreg` = `sreg` >> `bits`, over `len` bytes taken as 4-byte numbers in host order.
    #[must_use]
    pub fn rshift(sreg: Register, dreg: Register, len: u32, bits: u32) -> Self {
        Self {
            data: Some(Data::Value(Value::u32_ne(bits))),
            ..Self::op(BitwiseOp::RSHIFT, sreg, dreg, len)
        }
    }

    /// `dreg` = `sreg` `op` `sreg2`, with [`BitwiseOp::AND`], [`BitwiseOp::OR`] or
    /// [`BitwiseOp::XOR`].
    #[must_use]
    pub fn registers(
        op: BitwiseOp,
        sreg: Register,
        sreg2: Register,
        dreg: Register,
        len: u32,
    ) -> Self {
        Self {
            sreg2: Some(sreg2),
            ..Self::op(op, sreg, dreg, len)
        }
    }

    fn op(op: BitwiseOp, sreg: Register, dreg: Register, len: u32) -> Self {
        Self {
            sreg: Some(sreg),
            dreg: Some(dreg),
            op: Some(op),
            len: Some(len),
            ..Self::default()
        }
    }
}

impl Text for Bitwise<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "reg {} = ( reg {} ", Shown(self.dreg), Shown(self.sreg))?;
        match self.op {
            None | Some(BitwiseOp::MASK_XOR) => {
                f.write_str("& ")?;
                data(f, "0x", self.mask.as_ref())?;
                f.write_str(") ^ ")?;
                data(f, "0x", self.xor.as_ref())
            }
            Some(op) => {
                write!(f, "{op} ")?;
                match self.sreg2 {
                    Some(sreg2) => write!(f, "reg {sreg2} ")?,
                    None => data(f, "0x", self.data.as_ref())?,
                }
                f.write_str(") ")
            }
        }
    }
}
