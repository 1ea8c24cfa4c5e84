//! `counter`: count packets and bytes (`net/netfilter/nft_counter.c`).

attr_struct! {
    /// Counter (`NFTA_COUNTER_*`); zero when absent.
    pub struct Counter {
        /// Bytes counted.
        1 => bytes: u64,
        /// Packets counted.
        2 => packets: u64,
    }
}
