//! `last`: when the rule last matched (`net/netfilter/nft_last.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::Text;

attr_struct! {
    /// Last use (`NFTA_LAST_*`).
    pub struct Last {
        /// Milliseconds since then.
        2 => msecs: u64,
        /// 1 if ever, else 0.
        1 => set: u32,
    }
}

impl Last {
    /// Not yet used.
    #[must_use]
    pub fn never() -> Self {
        Self {
            msecs: Some(0),
            set: Some(0),
        }
    }
}

impl Text for Last {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.set {
            None | Some(0) => f.write_str("never "),
            Some(_) => write!(f, "{} ", self.msecs.unwrap_or_default()),
        }
    }
}
