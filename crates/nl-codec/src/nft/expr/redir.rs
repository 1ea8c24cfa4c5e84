//! `redir`: destination becomes the host itself (`net/netfilter/nft_redir.c`).

use core::fmt::{self, Formatter};

use super::NatFlags;
use crate::nft::Register;
use crate::pretty::text::{Text, field};

attr_struct! {
    /// Redirect (`NFTA_REDIR_*`).
    pub struct Redir {
        /// First port, 2 bytes in network order.
        1 => proto_min: Register,
        /// Last port, 2 bytes in network order.
        2 => proto_max: Register,
        /// See [`NatFlags`].
        3 => flags: NatFlags,
    }
}

impl Redir {
    /// To the port in `port`, or to the same port.
    #[must_use]
    pub fn new(port: Option<Register>) -> Self {
        Self {
            proto_min: port,
            ..Self::default()
        }
    }
}

impl Text for Redir {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "proto_min reg", self.proto_min)?;
        field(f, "proto_max reg", self.proto_max)?;
        match self.flags {
            Some(flags) => write!(f, "flags {:#x} ", flags.bits()),
            None => Ok(()),
        }
    }
}
