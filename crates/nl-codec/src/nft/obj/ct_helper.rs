//! `ct helper`: follow a protocol's secondary connections (`nft_ct_helper_obj_ops`).

use crate::nft::expr::BareStr;

attr_struct! {
    /// Conntrack helper (`NFTA_CT_HELPER_*`).
    pub struct CtHelper<'a> {
        /// Name, e.g. `ftp`; at most 15 bytes.
        1 => name: BareStr<'a>,
        /// Layer 3 protocol, `NFPROTO_*`.
        2 => l3proto: u16,
        /// Layer 4 protocol.
        3 => l4proto: u8,
    }
}
