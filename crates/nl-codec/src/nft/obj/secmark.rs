//! `secmark`: security mark of a packet (`nft_secmark_obj_ops`).

use crate::nft::expr::BareStr;

attr_struct! {
    /// Security mark (`NFTA_SECMARK_*`).
    pub struct Secmark<'a> {
        /// Security context, at most 4,095 bytes.
        1 => context: BareStr<'a>,
    }
}
