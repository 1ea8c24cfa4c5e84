//! `lookup`: is a key in a set, or what does a map hold for it (`net/netfilter/nft_lookup.c`).

use core::fmt::{self, Formatter};

use crate::nft::{Register, Str};
use crate::pretty::text::{Shown, Text, field};

bitflags::bitflags! {
    /// `NFT_LOOKUP_F_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LookupFlags: u32 {
        /// Match when the key is *not* in the set.
        const INVERT = 1;
        const _ = !0;
    }
}
flags_value!(LookupFlags);

attr_struct! {
    /// Set lookup (`NFTA_LOOKUP_*`). The kernel wants the name attribute even when the id is given;
    /// it may be empty then.
    pub struct Lookup<'a> {
        /// Key register.
        2 => sreg: Register,
        /// Where a map's data goes; [`Register::VERDICT`] for a verdict map.
        3 => dreg: Register,
        /// Set name.
        1 => set: Str<'a>,
        /// Id of a set created in the same batch.
        4 => set_id: u32,
        /// See [`LookupFlags`].
        5 => flags: LookupFlags,
    }
}

impl<'a> Lookup<'a> {
    /// Goes on when the key in `sreg` is in `set`.
    #[must_use]
    pub fn set(set: impl Into<Str<'a>>, sreg: Register) -> Self {
        Self {
            sreg: Some(sreg),
            set: Some(set.into()),
            ..Self::default()
        }
    }

    /// `dreg` = what the map `set` holds for the key in `sreg`; ends the rule if nothing.
    #[must_use]
    pub fn map(set: impl Into<Str<'a>>, sreg: Register, dreg: Register) -> Self {
        Self {
            dreg: Some(dreg),
            ..Self::set(set, sreg)
        }
    }

    /// Names a set of the same batch. The kernel looks for the name first and takes the id when no
    /// set has that name.
    #[must_use]
    pub fn with_id(mut self, set_id: u32) -> Self {
        self.set_id = Some(set_id);
        self
    }

    /// Goes on when the key is not in the set.
    #[must_use]
    pub fn inverted(mut self) -> Self {
        self.flags = Some(LookupFlags::INVERT);
        self
    }
}

impl Text for Lookup<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "reg {} set {} ", Shown(self.sreg), Shown(self.set))?;
        field(f, "dreg", self.dreg)?;
        match self.flags {
            Some(flags) => write!(f, "{:#x} ", flags.bits()),
            None => Ok(()),
        }
    }
}
