//! `synproxy`: answer TCP SYNs with cookies in place of the server
//! (`net/netfilter/nft_synproxy.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::{Text, field};

bitflags::bitflags! {
    /// TCP options offered to clients (`NF_SYNPROXY_OPT_*`,
    /// `include/uapi/linux/netfilter/nf_synproxy.h`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct SynproxyFlags: u32 {
        /// Maximum segment size.
        const MSS = 1;
        /// Window scale.
        const WSCALE = 1 << 1;
        /// Selective acknowledgement.
        const SACK_PERM = 1 << 2;
        /// Timestamps.
        const TIMESTAMP = 1 << 3;
        const _ = !0;
    }
}
flags_value!(SynproxyFlags);

attr_struct! {
    /// SYN proxy (`NFTA_SYNPROXY_*`).
    pub struct Synproxy {
        /// Maximum segment size told the client.
        1 => mss: u16,
        /// Window scale told the client.
        2 => wscale: u8,
        /// See [`SynproxyFlags`].
        3 => flags: SynproxyFlags,
    }
}

impl Synproxy {
    /// With these options; `mss` and `wscale` are sent when their flags are set.
    #[must_use]
    pub fn new(mss: u16, wscale: u8, flags: SynproxyFlags) -> Self {
        Self {
            mss: Some(mss),
            wscale: Some(wscale),
            flags: Some(flags),
        }
    }
}

impl Text for Synproxy {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "mss", self.mss)?;
        field(f, "wscale", self.wscale)
    }
}
