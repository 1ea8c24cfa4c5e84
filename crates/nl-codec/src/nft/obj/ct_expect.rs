//! `ct expectation`: expect another connection (`nft_ct_expect_obj_ops`).

use crate::HostU32;

attr_struct! {
    /// Expectation (`NFTA_CT_EXPECT_*`).
    pub struct CtExpect {
        /// Layer 3 protocol, `NFPROTO_*`.
        1 => l3proto: u16,
        /// Layer 4 protocol.
        2 => l4proto: u8,
        /// Destination port.
        3 => dport: u16,
        /// Lifetime in milliseconds; in host order, unlike everything around it.
        4 => timeout: HostU32,
        /// At most this many connections.
        5 => size: u8,
    }
}
