//! `counter`: count packets and bytes (`net/netfilter/nft_counter.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::Text;

attr_struct! {
    /// Counter (`NFTA_COUNTER_*`); zero when absent.
    pub struct Counter {
        /// Bytes counted.
        1 => bytes: u64,
        /// Packets counted.
        2 => packets: u64,
    }
}

impl Text for Counter {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pkts {} bytes {} ",
            self.packets.unwrap_or_default(),
            self.bytes.unwrap_or_default()
        )
    }
}
