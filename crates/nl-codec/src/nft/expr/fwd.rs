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

impl Text for Fwd {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "sreg_dev", self.sreg_dev)?;
        field(f, "sreg_addr", self.sreg_addr)?;
        field(f, "nfproto", self.nfproto.map(|family| family.0))
    }
}
