//! `fwd`: send the packet out of another interface (`net/netfilter/nft_fwd_netdev.c`).

use super::NfProto;
use crate::nft::Register;

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
