//! `xfrm`: properties of the IPsec transformation (`net/netfilter/nft_xfrm.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_xfrm_keys`.
    pub struct XfrmKey(u32) {
        /// IPv4 destination, 4 bytes.
        DADDR_IP4 = 1, "daddr4";
        /// IPv6 destination, 16 bytes.
        DADDR_IP6 = 2, "daddr6";
        /// IPv4 source, 4 bytes.
        SADDR_IP4 = 3, "saddr4";
        /// IPv6 source, 16 bytes.
        SADDR_IP6 = 4, "saddr6";
        /// Request id, 4 bytes, host order.
        REQID = 5, "reqid";
        /// Security parameter index, 4 bytes, network order.
        SPI = 6, "spi";
    }
}

open_enum! {
    /// `XFRM_POLICY_*`.
    pub struct XfrmDir(u8) {
        /// Incoming.
        IN = 0, "in";
        /// Outgoing.
        OUT = 1, "out";
    }
}

attr_struct! {
    /// Loads `key` of a state into `dreg` (`NFTA_XFRM_*`).
    pub struct Xfrm {
        /// Which datum.
        2 => key: XfrmKey,
        /// See [`XfrmDir`].
        3 => dir: XfrmDir,
        /// Index of the state in the packet's path.
        4 => spnum: u32,
        /// Destination.
        1 => dreg: Register,
    }
}

impl Xfrm {
    /// `dreg` = `key` of state number `spnum`.
    #[must_use]
    pub fn load(key: XfrmKey, dir: XfrmDir, spnum: u32, dreg: Register) -> Self {
        Self {
            key: Some(key),
            dir: Some(dir),
            spnum: Some(spnum),
            dreg: Some(dreg),
        }
    }
}

impl Text for Xfrm {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.dreg {
            Some(dreg) => write!(
                f,
                "load {} {} {} => reg {dreg} ",
                Shown(self.dir),
                self.spnum.unwrap_or_default(),
                Shown(self.key)
            ),
            None => Ok(()),
        }
    }
}
