//! `lookup`: is a key in a set, or what does a map hold for it (`net/netfilter/nft_lookup.c`).

use crate::nft::{Register, Str};

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
        /// Set name.
        1 => set: Str<'a>,
        /// Key register.
        2 => sreg: Register,
        /// Where a map's data goes; [`Register::VERDICT`] for a verdict map.
        3 => dreg: Register,
        /// Id of a set created in the same batch.
        4 => set_id: u32,
        /// See [`LookupFlags`].
        5 => flags: LookupFlags,
    }
}
