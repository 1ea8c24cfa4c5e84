//! `flow_offload`: move the connection to a flowtable (`net/netfilter/nft_flow_offload.c`).

use core::fmt::{self, Formatter};

use crate::nft::Str;
use crate::pretty::text::{Text, field};

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

impl Text for FlowOffload<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "flowtable", self.table)
    }
}
