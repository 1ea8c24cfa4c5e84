//! `tproxy`: hand the packet to a local socket without changing it
//! (`net/netfilter/nft_tproxy.c`).

use super::NfProto;
use crate::nft::Register;

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
