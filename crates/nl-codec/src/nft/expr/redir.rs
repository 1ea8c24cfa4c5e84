//! `redir`: destination becomes the host itself (`net/netfilter/nft_redir.c`).

use core::fmt::{self, Formatter};

use super::NatFlags;
use super::nat::ports_text;
use crate::nft::Register;
use crate::pretty::text::Text;

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
        ports_text(f, [self.proto_min, self.proto_max], self.flags)
    }
}
