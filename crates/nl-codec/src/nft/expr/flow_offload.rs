//! `flow_offload`: move the connection to a flowtable (`net/netfilter/nft_flow_offload.c`).

use crate::nft::Str;

attr_struct! {
    /// Flow offload (`NFTA_FLOW_*`).
    pub struct FlowOffload<'a> {
        /// Flowtable name.
        1 => table: Str<'a>,
    }
}

impl<'a> FlowOffload<'a> {
    /// To `flowtable`.
    #[must_use]
    pub fn new(flowtable: impl Into<Str<'a>>) -> Self {
        Self {
            table: Some(flowtable.into()),
        }
    }
}
