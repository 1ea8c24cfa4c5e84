//! `tunnel`: metadata of the tunnel a packet came through (`net/netfilter/nft_tunnel.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_tunnel_keys`.
    pub struct TunnelKey(u32) {
        /// Whether there is metadata, 1 byte.
        PATH = 0, "path";
        /// Tunnel id, 4 bytes, host order.
        ID = 1, "id";
    }
}

open_enum! {
    /// `enum nft_tunnel_mode`.
    pub struct TunnelMode(u32) {
        /// Any.
        NONE = 0, "none";
        /// Received.
        RX = 1, "rx";
        /// To be sent.
        TX = 2, "tx";
    }
}

attr_struct! {
    /// Loads `key` into `dreg` (`NFTA_TUNNEL_*`).
    pub struct Tunnel {
        /// Which datum.
        1 => key: TunnelKey,
        /// Destination.
        2 => dreg: Register,
        /// Direction it must have.
        3 => mode: TunnelMode,
    }
}

impl Tunnel {
    /// `dreg` = `key`.
    #[must_use]
    pub fn load(key: TunnelKey, dreg: Register) -> Self {
        Self {
            key: Some(key),
            dreg: Some(dreg),
            mode: None,
        }
    }
}

impl Text for Tunnel {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.dreg {
            Some(dreg) => write!(f, "load {} => reg {dreg} ", Shown(self.key)),
            None => Ok(()),
        }
    }
}
