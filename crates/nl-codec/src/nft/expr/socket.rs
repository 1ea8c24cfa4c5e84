//! `socket`: properties of the local socket a packet is for (`net/netfilter/nft_socket.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text, field};

open_enum! {
    /// `enum nft_socket_keys`.
    pub struct SocketKey(u32) {
        /// Whether it has `IP_TRANSPARENT`, 1 byte.
        TRANSPARENT = 0, "transparent";
        /// Its mark, 4 bytes, host order.
        MARK = 1, "mark";
        /// Whether it is bound to no address, 1 byte.
        WILDCARD = 2, "wildcard";
        /// Id of its control group, 8 bytes, host order.
        CGROUPV2 = 3, "cgroupv2";
    }
}

attr_struct! {
    /// Loads `key` into `dreg` (`NFTA_SOCKET_*`).
    pub struct Socket {
        /// Which datum.
        1 => key: SocketKey,
        /// Destination.
        2 => dreg: Register,
        /// Level of the control group's ancestor to take; nft sends 0 with the other keys.
        3 => level: u32,
    }
}

impl Socket {
    /// `dreg` = `key`.
    #[must_use]
    pub fn load(key: SocketKey, dreg: Register) -> Self {
        Self {
            key: Some(key),
            dreg: Some(dreg),
            level: Some(0),
        }
    }
}

impl Text for Socket {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.dreg {
            Some(dreg) => write!(f, "load {} => reg {dreg} ", Shown(self.key)),
            None => field(f, "level", self.level),
        }
    }
}
