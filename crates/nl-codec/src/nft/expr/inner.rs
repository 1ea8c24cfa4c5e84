//! `inner`: evaluate an expression on the packet inside a tunnel (`net/netfilter/nft_inner.c`,
//! Linux 6.2).

use core::fmt::{self, Formatter};

use super::ExprRef;
use crate::pretty::text::{Text, field};

open_enum! {
    /// Tunnel protocol (`enum nft_inner_type`; the numbers beyond GENEVE are nft's own).
    pub struct InnerType(u32) {
        /// VXLAN.
        VXLAN = 1, "vxlan";
        /// GENEVE.
        GENEVE = 2, "geneve";
    }
}

bitflags::bitflags! {
    /// Headers to look for (`enum nft_inner_flags`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct InnerFlags: u32 {
        /// The tunnel header has the size `hdrsize`.
        const HDRSIZE = 1;
        /// Inner link layer header.
        const LL = 1 << 1;
        /// Inner network header.
        const NH = 1 << 2;
        /// Inner transport header.
        const TH = 1 << 3;
        const _ = !0;
    }
}
flags_value!(InnerFlags);

attr_struct! {
    /// `expr` (payload or meta) on the inner packet (`NFTA_INNER_*`).
    pub struct Inner<'a> {
        /// Which of several inner packets; 0.
        1 => num: u32,
        /// See [`InnerType`].
        2 => inner_type: InnerType,
        /// See [`InnerFlags`].
        3 => flags: InnerFlags,
        /// Size of the tunnel header in bytes.
        4 => hdrsize: u32,
        /// The expression.
        5 => expr: ExprRef<'a>,
    }
}

impl<'a> Inner<'a> {
    /// `expr` on what a VXLAN packet carries.
    #[must_use]
    pub fn vxlan(expr: ExprRef<'a>) -> Self {
        Self {
            num: Some(0),
            inner_type: Some(InnerType::VXLAN),
            flags: Some(InnerFlags::HDRSIZE | InnerFlags::LL | InnerFlags::NH | InnerFlags::TH),
            hdrsize: Some(8),
            expr: Some(expr),
        }
    }
}

impl Text for Inner<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "type", self.inner_type.map(|inner_type| inner_type.0))?;
        field(f, "hdrsize", self.hdrsize)?;
        if let Some(flags) = self.flags {
            write!(f, "flags {:x} ", flags.bits())?;
        }
        match self.expr.map(|expr| expr.expr()) {
            Some(Ok(expr)) => write!(f, "{expr} "),
            Some(Err(error)) => write!(f, "[ {error} ] "),
            None => Ok(()),
        }
    }
}
