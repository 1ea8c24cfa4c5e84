//! `dynset`: add, refresh or delete an element from the packet path
//! (`net/netfilter/nft_dynset.c`).

use core::fmt::{self, Formatter};

use super::{ExprRef, NestedExprs};
use crate::nft::{Register, Str};
use crate::pretty::text::{Shown, Text, field};

open_enum! {
    /// `enum nft_dynset_ops`.
    pub struct DynsetOp(u32) {
        /// Add unless present.
        ADD = 0, "add";
        /// Add, or restart the timeout.
        UPDATE = 1, "update";
        /// Delete.
        DELETE = 2, "delete";
    }
}

bitflags::bitflags! {
    /// `enum nft_dynset_flags`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct DynsetFlags: u32 {
        /// Match when the element could *not* be added.
        const INVERT = 1;
        /// `exprs` is given.
        const EXPR = 1 << 1;
        const _ = !0;
    }
}
flags_value!(DynsetFlags);

attr_struct! {
    /// Changes `set` from a rule (`NFTA_DYNSET_*`). As with lookup, the kernel wants the name even
    /// when the id is given.
    pub struct Dynset<'a> {
        /// Key register.
        4 => sreg_key: Register,
        /// Register of a map's data.
        5 => sreg_data: Register,
        /// See [`DynsetOp`].
        3 => op: DynsetOp,
        /// Timeout of the element in milliseconds.
        6 => timeout_ms: u64,
        /// Set name.
        1 => set: Str<'a>,
        /// Id of a set created in the same batch.
        2 => set_id: u32,
        /// The stateful expression of the element.
        7 => expr: ExprRef<'a>,
        /// Several stateful expressions of the element.
        10 => exprs: NestedExprs<'a>,
        /// See [`DynsetFlags`].
        9 => flags: DynsetFlags,
    }
}

impl<'a> Dynset<'a> {
    /// Does `op` with the key in `key`.
    #[must_use]
    pub fn new(op: DynsetOp, set: impl Into<Str<'a>>, key: Register) -> Self {
        Self {
            sreg_key: Some(key),
            op: Some(op),
            set: Some(set.into()),
            ..Self::default()
        }
    }

    /// Names a set of the same batch.
    #[must_use]
    pub fn with_id(mut self, set_id: u32) -> Self {
        self.set_id = Some(set_id);
        self
    }

    /// Stores what `data` holds, for a map.
    #[must_use]
    pub fn with_data(mut self, data: Register) -> Self {
        self.sreg_data = Some(data);
        self
    }

    /// Gives the element a timeout in milliseconds.
    #[must_use]
    pub fn with_timeout_ms(mut self, timeout_ms: u64) -> Self {
        self.timeout_ms = Some(timeout_ms);
        self
    }

    /// Gives the element one stateful expression (counter, limit, quota, connlimit, last).
    #[must_use]
    pub fn with_expr(mut self, expr: ExprRef<'a>) -> Self {
        self.expr = Some(expr);
        self
    }

    /// Gives the element several stateful expressions (Linux 5.11).
    #[must_use]
    pub fn with_exprs(mut self, exprs: NestedExprs<'a>) -> Self {
        self.exprs = Some(exprs);
        self.flags = Some(self.flags.unwrap_or(DynsetFlags::empty()) | DynsetFlags::EXPR);
        self
    }
}

impl Text for Dynset<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} reg_key {} set {} ",
            Shown(self.op),
            Shown(self.sreg_key),
            Shown(self.set)
        )?;
        field(f, "sreg_data", self.sreg_data)?;
        if let Some(timeout_ms) = self.timeout_ms {
            write!(f, "timeout {timeout_ms}ms ")?;
        }
        let one = self.expr.map(|expr| expr.expr());
        let several = self.exprs.iter().flat_map(|list| list.exprs().iter());
        for expr in one.into_iter().chain(several) {
            f.write_str("expr ")?;
            match expr {
                Ok(expr) => write!(f, "{expr} ")?,
                Err(error) => write!(f, "[ {error} ] ")?,
            }
        }
        Ok(())
    }
}
