//! `limit`: end the rule above, or below, a rate (`net/netfilter/nft_limit.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_limit_type`.
    pub struct LimitType(u32) {
        /// Packets.
        PACKETS = 0, "packets";
        /// Bytes.
        BYTES = 1, "bytes";
    }
}

bitflags::bitflags! {
    /// `enum nft_limit_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LimitFlags: u32 {
        /// Match above the rate.
        const INVERT = 1;
        const _ = !0;
    }
}
flags_value!(LimitFlags);

attr_struct! {
    /// Rate limit (`NFTA_LIMIT_*`).
    pub struct Limit {
        /// Packets or bytes a unit.
        1 => rate: u64,
        /// Seconds of a unit.
        2 => unit: u64,
        /// Packets or bytes allowed above the rate at once; 0 when absent.
        3 => burst: u32,
        /// What is limited.
        4 => limit_type: LimitType,
        /// See [`LimitFlags`].
        5 => flags: LimitFlags,
    }
}

impl Limit {
    /// Goes on up to `rate` packets each `unit` seconds.
    #[must_use]
    pub fn packets(rate: u64, unit: u64, burst: u32) -> Self {
        Self::new(LimitType::PACKETS, rate, unit, burst)
    }

    /// Goes on up to `rate` bytes each `unit` seconds.
    #[must_use]
    pub fn bytes(rate: u64, unit: u64, burst: u32) -> Self {
        Self::new(LimitType::BYTES, rate, unit, burst)
    }

    /// Goes on above the rate.
    #[must_use]
    pub fn inverted(mut self) -> Self {
        self.flags = Some(LimitFlags::INVERT);
        self
    }

    fn new(limit_type: LimitType, rate: u64, unit: u64, burst: u32) -> Self {
        Self {
            rate: Some(rate),
            unit: Some(unit),
            burst: (burst != 0).then_some(burst),
            limit_type: Some(limit_type),
            flags: Some(LimitFlags::empty()),
        }
    }
}

impl Text for Limit {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Some(1) => "second",
            Some(60) => "minute",
            Some(3_600) => "hour",
            Some(86_400) => "day",
            Some(604_800) => "week",
            _ => "error",
        };
        write!(
            f,
            "rate {}/{unit} burst {} type {} flags {:#x} ",
            Shown(self.rate),
            self.burst.unwrap_or_default(),
            self.limit_type.unwrap_or(LimitType::PACKETS),
            self.flags.unwrap_or(LimitFlags::empty()).bits()
        )
    }
}
