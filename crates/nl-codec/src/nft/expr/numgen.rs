//! `numgen`: a counter or a random number below a modulus (`net/netfilter/nft_numgen.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text, field};

open_enum! {
    /// `enum nft_ng_types`.
    pub struct NumgenType(u32) {
        /// Counts up by one a packet, one counter for all CPUs.
        INCREMENTAL = 0, "inc";
        /// Pseudo-random.
        RANDOM = 1, "random";
    }
}

attr_struct! {
    /// `dreg` = `offset` + number below `modulus`, 4 bytes in host order (`NFTA_NG_*`).
    pub struct Numgen {
        /// Destination.
        1 => dreg: Register,
        /// One above the highest number.
        2 => modulus: u32,
        /// How the number is made.
        3 => numgen_type: NumgenType,
        /// Added to the number.
        4 => offset: u32,
    }
}

impl Numgen {
    /// `dreg` = random number below `modulus`.
    #[must_use]
    pub fn random(modulus: u32, dreg: Register) -> Self {
        Self::new(NumgenType::RANDOM, modulus, dreg)
    }

    /// `dreg` = a counter that goes round at `modulus`.
    #[must_use]
    pub fn inc(modulus: u32, dreg: Register) -> Self {
        Self::new(NumgenType::INCREMENTAL, modulus, dreg)
    }

    /// Adds `offset` to the number.
    #[must_use]
    pub fn with_offset(mut self, offset: u32) -> Self {
        self.offset = Some(offset);
        self
    }

    fn new(numgen_type: NumgenType, modulus: u32, dreg: Register) -> Self {
        Self {
            dreg: Some(dreg),
            modulus: Some(modulus),
            numgen_type: Some(numgen_type),
            offset: Some(0),
        }
    }
}

impl Text for Numgen {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "reg {} = {} mod {} ",
            Shown(self.dreg),
            Shown(self.numgen_type),
            Shown(self.modulus)
        )?;
        field(f, "offset", self.offset.filter(|offset| *offset != 0))
    }
}
