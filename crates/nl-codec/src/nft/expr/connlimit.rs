//! `connlimit`: end the rule above, or below, a number of connections
//! (`net/netfilter/nft_connlimit.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::{Shown, Text};

bitflags::bitflags! {
    /// `enum nft_connlimit_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct ConnlimitFlags: u32 {
        /// Match above the number.
        const INVERT = 1;
        const _ = !0;
    }
}
flags_value!(ConnlimitFlags);

attr_struct! {
    /// Limit on connections (`NFTA_CONNLIMIT_*`).
    pub struct Connlimit {
        /// Number of connections.
        1 => count: u32,
        /// See [`ConnlimitFlags`].
        2 => flags: ConnlimitFlags,
    }
}

impl Connlimit {
    /// Goes on while at most `count` connections exist.
    #[must_use]
    pub fn until(count: u32) -> Self {
        Self {
            count: Some(count),
            flags: Some(ConnlimitFlags::empty()),
        }
    }

    /// Goes on when more than `count` connections exist.
    #[must_use]
    pub fn over(count: u32) -> Self {
        Self {
            count: Some(count),
            flags: Some(ConnlimitFlags::INVERT),
        }
    }
}

impl Text for Connlimit {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let flags = self.flags.unwrap_or(ConnlimitFlags::empty());
        write!(f, "count {} flags {:x} ", Shown(self.count), flags.bits())
    }
}
