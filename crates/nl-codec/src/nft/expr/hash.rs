//! `hash`: a hash of a register or of the packet's flow, below a modulus
//! (`net/netfilter/nft_hash.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text, field};

open_enum! {
    /// `enum nft_hash_types`.
    pub struct HashType(u32) {
        /// Jenkins hash of a register's bytes.
        JENKINS = 0, "jhash";
        /// Hash of the flow, the same for both directions.
        SYM = 1, "symhash";
    }
}

attr_struct! {
    /// `dreg` = `offset` + hash below `modulus`, 4 bytes in host order (`NFTA_HASH_*`).
    pub struct Hash {
        /// What is hashed (Jenkins).
        1 => sreg: Register,
        /// Destination.
        2 => dreg: Register,
        /// Bytes hashed (Jenkins).
        3 => len: u32,
        /// One above the highest result.
        4 => modulus: u32,
        /// Seed (Jenkins); the kernel takes a random one when absent.
        5 => seed: u32,
        /// Added to the result.
        6 => offset: u32,
        /// See [`HashType`].
        7 => hash_type: HashType,
    }
}

impl Hash {
    /// `dreg` = Jenkins hash of `len` bytes of `sreg` below `modulus`.
    #[must_use]
    pub fn jenkins(sreg: Register, len: u32, modulus: u32, seed: u32, dreg: Register) -> Self {
        Self {
            sreg: Some(sreg),
            len: Some(len),
            seed: Some(seed),
            ..Self::new(HashType::JENKINS, modulus, dreg)
        }
    }

    /// `dreg` = hash of the flow below `modulus`.
    #[must_use]
    pub fn symmetric(modulus: u32, dreg: Register) -> Self {
        Self::new(HashType::SYM, modulus, dreg)
    }

    /// Adds `offset` to the result.
    #[must_use]
    pub fn with_offset(mut self, offset: u32) -> Self {
        self.offset = Some(offset);
        self
    }

    fn new(hash_type: HashType, modulus: u32, dreg: Register) -> Self {
        Self {
            dreg: Some(dreg),
            modulus: Some(modulus),
            offset: Some(0),
            hash_type: Some(hash_type),
            ..Self::default()
        }
    }
}

impl Text for Hash {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "reg {} = ", Shown(self.dreg))?;
        match self.hash_type {
            Some(HashType::SYM) => f.write_str("symhash() ")?,
            _ => write!(
                f,
                "jhash(reg {}, {}, {:#x}) ",
                Shown(self.sreg),
                Shown(self.len),
                self.seed.unwrap_or_default()
            )?,
        }
        write!(f, "% mod {} ", Shown(self.modulus))?;
        field(f, "offset", self.offset.filter(|offset| *offset != 0))
    }
}
