//! `fib`: ask the routing tables about the packet's addresses (`net/netfilter/nft_fib.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_fib_result`.
    pub struct FibResult(u32) {
        /// Index of the route's interface, 4 bytes, host order.
        OIF = 1, "oif";
        /// Name of the route's interface, 16 bytes, NUL-padded.
        OIFNAME = 2, "oifname";
        /// Type of the address, 4 bytes, host order ([`AddrType`]).
        ADDRTYPE = 3, "type";
    }
}

bitflags::bitflags! {
    /// What of the packet the query uses (`enum nft_fib_flags`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FibFlags: u32 {
        /// Look up the source address.
        const SADDR = 1;
        /// Look up the destination address.
        const DADDR = 1 << 1;
        /// Use the packet mark.
        const MARK = 1 << 2;
        /// Restrict to the input interface.
        const IIF = 1 << 3;
        /// Restrict to the output interface.
        const OIF = 1 << 4;
        /// Only ask whether there is a route; the result is 1 byte.
        const PRESENT = 1 << 5;
        const _ = !0;
    }
}
flags_value!(FibFlags);

open_enum! {
    /// Address types as `fib … type` returns them (`RTN_*`, `include/uapi/linux/rtnetlink.h`).
    pub struct AddrType(u32) {
        /// Unknown.
        UNSPEC = 0, "unspec";
        /// Reachable through a gateway or direct.
        UNICAST = 1, "unicast";
        /// One of the host's own.
        LOCAL = 2, "local";
        /// Broadcast.
        BROADCAST = 3, "broadcast";
        /// Anycast.
        ANYCAST = 4, "anycast";
        /// Multicast.
        MULTICAST = 5, "multicast";
        /// Dropped.
        BLACKHOLE = 6, "blackhole";
        /// Rejected.
        UNREACHABLE = 7, "unreachable";
        /// Prohibited.
        PROHIBIT = 8, "prohibit";
    }
}

attr_struct! {
    /// `dreg` = `result` of a query made with `flags` (`NFTA_FIB_*`).
    pub struct Fib {
        /// See [`FibFlags`].
        3 => flags: FibFlags,
        /// What to return.
        2 => result: FibResult,
        /// Destination.
        1 => dreg: Register,
    }
}

impl Fib {
    /// `dreg` = `result` of a query made with `flags`.
    #[must_use]
    pub fn new(flags: FibFlags, result: FibResult, dreg: Register) -> Self {
        Self {
            flags: Some(flags),
            result: Some(result),
            dreg: Some(dreg),
        }
    }
}

impl Text for Fib {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let flags = self.flags.unwrap_or(FibFlags::empty());
        let (asked, present) = (flags - FibFlags::PRESENT, flags & FibFlags::PRESENT);
        let mut rest = asked;
        for (flag, name) in [
            (FibFlags::SADDR, "saddr"),
            (FibFlags::DADDR, "daddr"),
            (FibFlags::MARK, "mark"),
            (FibFlags::IIF, "iif"),
            (FibFlags::OIF, "oif"),
        ] {
            if rest.contains(flag) {
                rest -= flag;
                let more = if rest.is_empty() { "" } else { ". " };
                write!(f, "{name} {more}")?;
            }
        }
        if !rest.is_empty() {
            write!(f, "unknown {:#x} ", rest.bits())?;
        }
        let present = if present.is_empty() { "" } else { " present" };
        write!(
            f,
            "{}{present} => reg {} ",
            Shown(self.result),
            Shown(self.dreg)
        )
    }
}
