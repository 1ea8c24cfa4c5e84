//! `meta`: load or set packet metadata (`net/netfilter/nft_meta.c`).

use crate::nft::Register;

open_enum! {
    /// `enum nft_meta_keys`.
    pub struct MetaKey(u32) {
        /// Packet length.
        LEN = 0, "len";
        /// Layer 4 protocol, 1 byte.
        L4PROTO = 16, "l4proto";
        /// `skb->priority`, 4 bytes, host order.
        PRIORITY = 2, "priority";
        /// Packet mark, 4 bytes, host order.
        MARK = 3, "mark";
    }
}

attr_struct! {
    /// Loads `key` into `dreg`, or sets it from `sreg` (`NFTA_META_*`).
    pub struct Meta {
        /// Destination register of a load.
        1 => dreg: Register,
        /// Which datum.
        2 => key: MetaKey,
        /// Source register of a set.
        3 => sreg: Register,
    }
}

impl Meta {
    /// `dreg` = `key`.
    #[must_use]
    pub fn load(key: MetaKey, dreg: Register) -> Self {
        Self {
            key: Some(key),
            dreg: Some(dreg),
            ..Self::default()
        }
    }

    /// `key` = `sreg`.
    #[must_use]
    pub fn set(key: MetaKey, sreg: Register) -> Self {
        Self {
            key: Some(key),
            sreg: Some(sreg),
            ..Self::default()
        }
    }
}
