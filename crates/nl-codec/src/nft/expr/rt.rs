//! `rt`: properties of the packet's route (`net/netfilter/nft_rt.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_rt_keys`.
    pub struct RtKey(u32) {
        /// Realm, 4 bytes, host order.
        CLASSID = 0, "classid";
        /// IPv4 next hop, 4 bytes.
        NEXTHOP4 = 1, "nexthop4";
        /// IPv6 next hop, 16 bytes.
        NEXTHOP6 = 2, "nexthop6";
        /// Maximum segment size of the path, 2 bytes, host order.
        TCPMSS = 3, "tcpmss";
        /// Whether the route uses IPsec, 1 byte.
        XFRM = 4, "ipsec";
    }
}

attr_struct! {
    /// Loads `key` into `dreg` (`NFTA_RT_*`).
    pub struct Rt {
        /// Which datum.
        2 => key: RtKey,
        /// Destination.
        1 => dreg: Register,
    }
}

impl Rt {
    /// `dreg` = `key`.
    #[must_use]
    pub fn load(key: RtKey, dreg: Register) -> Self {
        Self {
            key: Some(key),
            dreg: Some(dreg),
        }
    }
}

impl Text for Rt {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.dreg {
            Some(dreg) => write!(f, "load {} => reg {dreg} ", Shown(self.key)),
            None => Ok(()),
        }
    }
}
