//! `byteorder`: swap between network and host order (`net/netfilter/nft_byteorder.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_byteorder_ops`.
    pub struct ByteorderOp(u32) {
        /// Network to host.
        NTOH = 0, "ntoh";
        /// Host to network.
        HTON = 1, "hton";
    }
}

attr_struct! {
    /// `dreg` = `len` bytes of `sreg`, each number of `size` bytes swapped
    /// (`NFTA_BYTEORDER_*`).
    pub struct Byteorder {
        /// Source.
        1 => sreg: Register,
        /// Destination.
        2 => dreg: Register,
        /// See [`ByteorderOp`].
        3 => op: ByteorderOp,
        /// Bytes in all.
        4 => len: u32,
        /// Bytes of a number: 2, 4 or 8.
        5 => size: u32,
    }
}

impl Byteorder {
    /// `dreg` = `len` bytes of `sreg` in the other order, by numbers of `size` bytes.
    #[must_use]
    pub fn new(op: ByteorderOp, sreg: Register, dreg: Register, len: u32, size: u32) -> Self {
        Self {
            sreg: Some(sreg),
            dreg: Some(dreg),
            op: Some(op),
            len: Some(len),
            size: Some(size),
        }
    }
}

impl Text for Byteorder {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "reg {} = {}(reg {}, {}, {}) ",
            Shown(self.dreg),
            Shown(self.op),
            Shown(self.sreg),
            Shown(self.size),
            Shown(self.len)
        )
    }
}
