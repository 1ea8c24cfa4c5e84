//! `fwd`: send the packet out of another interface (`net/netfilter/nft_fwd_netdev.c`).

use core::fmt::{self, Formatter};

use super::NfProto;
use crate::nft::Register;
use crate::pretty::text::{Text, field};

attr_struct! {
    /// Forward (`NFTA_FWD_*`).
    pub struct Fwd {
        /// Index of the output interface, 4 bytes in host order.
        1 => sreg_dev: Register,
        /// Address of the neighbour.
        2 => sreg_addr: Register,
        /// Family of that address.
        3 => nfproto: NfProto,
    }
}

impl Fwd {
    /// Out of the interface in `dev`.
    #[must_use]
    pub fn new(dev: Register) -> Self {
        Self {
            sreg_dev: Some(dev),
            ..Self::default()
        }
    }

    /// By way of the neighbour whose address is in `addr`.
    #[must_use]
    pub fn via(mut self, family: NfProto, addr: Register) -> Self {
        self.sreg_addr = Some(addr);
        self.nfproto = Some(family);
        self
    }
}

impl Text for Fwd {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "sreg_dev", self.sreg_dev)?;
        field(f, "sreg_addr", self.sreg_addr)?;
        field(f, "nfproto", self.nfproto.map(|family| family.0))
    }
}
