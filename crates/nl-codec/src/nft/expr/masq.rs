//! `masq`: source becomes the address of the outgoing interface (`net/netfilter/nft_masq.c`).

use core::fmt::{self, Formatter};

use super::NatFlags;
use super::nat::ports_text;
use crate::nft::Register;
use crate::pretty::text::Text;

attr_struct! {
    /// Masquerade (`NFTA_MASQ_*`).
    pub struct Masq {
        /// See [`NatFlags`].
        1 => flags: NatFlags,
        /// First port, 2 bytes in network order.
        2 => proto_min: Register,
        /// Last port, 2 bytes in network order.
        3 => proto_max: Register,
    }
}

impl Masq {
    /// With `flags`; none means the attribute is left out.
    #[must_use]
    pub fn new(flags: NatFlags) -> Self {
        Self {
            flags: (!flags.is_empty()).then_some(flags),
            ..Self::default()
        }
    }
}

impl Text for Masq {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        ports_text(f, [self.proto_min, self.proto_max], self.flags)
    }
}
