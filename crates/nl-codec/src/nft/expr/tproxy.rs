//! `tproxy`: hand the packet to a local socket without changing it
//! (`net/netfilter/nft_tproxy.c`).

use core::fmt::{self, Formatter};

use super::NfProto;
use crate::nft::Register;
use crate::pretty::text::{Text, field};

attr_struct! {
    /// Transparent proxy (`NFTA_TPROXY_*`).
    pub struct Tproxy {
        /// Family of the address.
        1 => family: NfProto,
        /// Address of the socket.
        2 => addr: Register,
        /// Port of the socket, 2 bytes in network order.
        3 => port: Register,
    }
}

impl Tproxy {
    /// To a socket at the address and port in registers, those given.
    #[must_use]
    pub fn new(family: NfProto, addr: Option<Register>, port: Option<Register>) -> Self {
        Self {
            family: Some(family),
            addr,
            port,
        }
    }
}

impl Text for Tproxy {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(family) = self.family.filter(|family| *family != NfProto::UNSPEC) {
            write!(f, "{family} ")?;
        }
        field(f, "addr reg", self.addr)?;
        field(f, "port reg", self.port)
    }
}
