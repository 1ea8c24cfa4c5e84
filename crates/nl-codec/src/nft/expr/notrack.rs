//! `notrack`: exempt the packet from connection tracking (`net/netfilter/nft_ct.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::Text;
use crate::{Attr, AttrValue, DecodeError, EncodeError, Encoder};

/// Has no attributes, and no `NFTA_EXPR_DATA`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notrack;

impl<'a> AttrValue<'a> for Notrack {
    fn encode<E: Encoder>(&self, _attr: u16, _enc: &mut E) -> Result<(), EncodeError> {
        Ok(())
    }

    fn decode(_attr: &Attr<'a>, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

impl Text for Notrack {
    fn text(&self, _f: &mut Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
