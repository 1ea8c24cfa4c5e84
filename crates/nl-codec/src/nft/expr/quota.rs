//! `quota`: match below, or above, an amount of bytes (`net/netfilter/nft_quota.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::{Shown, Text};

bitflags::bitflags! {
    /// `enum nft_quota_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct QuotaFlags: u32 {
        /// Match above the amount.
        const INVERT = 1;
        /// Used up; set by the kernel.
        const DEPLETED = 1 << 1;
        const _ = !0;
    }
}
flags_value!(QuotaFlags);

attr_struct! {
    /// Quota (`NFTA_QUOTA_*`).
    pub struct Quota {
        /// Bytes allowed.
        1 => bytes: u64,
        /// Bytes used.
        4 => consumed: u64,
        /// See [`QuotaFlags`].
        2 => flags: QuotaFlags,
    }
}

impl Quota {
    /// Matches until `bytes` have passed.
    #[must_use]
    pub fn until(bytes: u64) -> Self {
        Self::new(bytes, QuotaFlags::empty())
    }

    /// Matches once `bytes` have passed.
    #[must_use]
    pub fn over(bytes: u64) -> Self {
        Self::new(bytes, QuotaFlags::INVERT)
    }

    fn new(bytes: u64, flags: QuotaFlags) -> Self {
        Self {
            bytes: Some(bytes),
            consumed: Some(0),
            flags: Some(flags),
        }
    }
}

impl Text for Quota {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "bytes {} consumed {} flags {} ",
            Shown(self.bytes),
            self.consumed.unwrap_or_default(),
            self.flags.unwrap_or(QuotaFlags::empty()).bits()
        )
    }
}
