//! `osf`: guess the sender's operating system (`net/netfilter/nft_osf.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Text, field};

open_enum! {
    /// How the fingerprint's TTL is compared (`NF_OSF_TTL_*`, `nfnetlink_osf.h`).
    pub struct OsfTtl(u8) {
        /// Equal (`NF_OSF_TTL_TRUE`).
        TRUE = 0, "true";
        /// At most the fingerprint's.
        LESS = 1, "loose";
        /// Not at all.
        NOCHECK = 2, "skip";
    }
}

bitflags::bitflags! {
    /// `enum nft_osf_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct OsfFlags: u32 {
        /// Append the version to the name.
        const VERSION = 1;
        const _ = !0;
    }
}
flags_value!(OsfFlags);

attr_struct! {
    /// `dreg` = name of the operating system, 16 bytes, NUL-padded (`NFTA_OSF_*`).
    pub struct Osf {
        /// Destination.
        1 => dreg: Register,
        /// See [`OsfTtl`].
        2 => ttl: OsfTtl,
        /// See [`OsfFlags`].
        3 => flags: OsfFlags,
    }
}

impl Osf {
    /// `dreg` = name of the operating system.
    #[must_use]
    pub fn load(ttl: OsfTtl, flags: OsfFlags, dreg: Register) -> Self {
        Self {
            dreg: Some(dreg),
            ttl: Some(ttl),
            flags: (!flags.is_empty()).then_some(flags),
        }
    }
}

impl Text for Osf {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "dreg", self.dreg)
    }
}
