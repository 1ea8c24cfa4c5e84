//! `ct timeout`: how long connections stay in each state (`nft_ct_timeout_obj_ops`).

use crate::nft::List;
use crate::{Attr, AttrValue, DecodeError, EncodeError, Encoder, put_attr};

attr_struct! {
    /// Conntrack timeouts (`NFTA_CT_TIMEOUT_*`).
    pub struct CtTimeout<'a> {
        /// Layer 3 protocol, `NFPROTO_*`.
        1 => l3proto: u16,
        /// Layer 4 protocol.
        2 => l4proto: u8,
        /// Timeouts that differ from the defaults.
        3 => timeouts: List<'a, Timeout>,
    }
}

/// Timeout of one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// State of the layer 4 protocol (`CTA_TIMEOUT_TCP_*`, `CTA_TIMEOUT_UDP_*`, …,
    /// `include/uapi/linux/netfilter/nfnetlink_cttimeout.h`).
    pub state: u16,
    /// Seconds.
    pub seconds: u32,
}

impl<'a> AttrValue<'a> for Timeout {
    fn encode<E: Encoder>(&self, _attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        put_attr(enc, self.state, &self.seconds)
    }

    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            state: attr.kind,
            seconds: attr.value(what)?,
        })
    }
}
