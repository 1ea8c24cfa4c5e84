//! `dup`: send a copy elsewhere (`net/ipv4/netfilter/nft_dup_ipv4.c`, `nft_dup_ipv6.c`,
//! `net/netfilter/nft_dup_netdev.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Text, field};

attr_struct! {
    /// Duplicate (`NFTA_DUP_*`).
    pub struct Dup {
        /// Address of the next hop.
        1 => sreg_addr: Register,
        /// Index of the output interface, 4 bytes in host order.
        2 => sreg_dev: Register,
    }
}

impl Dup {
    /// To the next hop in `addr` and out of the interface in `dev`, those given.
    #[must_use]
    pub fn new(addr: Option<Register>, dev: Option<Register>) -> Self {
        Self {
            sreg_addr: addr,
            sreg_dev: dev,
        }
    }
}

impl Text for Dup {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "sreg_addr", self.sreg_addr)?;
        field(f, "sreg_dev", self.sreg_dev)
    }
}
