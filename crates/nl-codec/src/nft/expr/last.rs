//! `last`: when the rule last matched (`net/netfilter/nft_last.c`).

attr_struct! {
    /// Last use (`NFTA_LAST_*`).
    pub struct Last {
        /// Milliseconds since then.
        2 => msecs: u64,
        /// 1 if ever, else 0.
        1 => set: u32,
    }
}
