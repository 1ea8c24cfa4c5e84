//! Expressions inside another one: built by the caller, or as received.

use core::fmt;

use super::{Expr, Exprs, NFTA_EXPR_NAME};
use crate::nft::Str;
use crate::{Attr, AttrValue, Attrs, DecodeError, DecodeErrorKind, EncodeError, Encoder};

/// One expression inside another. A received one stays encoded until it is asked for, so that an
/// expression that holds one has a size and needs no heap.
#[derive(Clone, Copy)]
pub struct ExprRef<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Built(&'a Expr<'a>),
    Wire(&'a [u8]),
}

impl<'a> ExprRef<'a> {
    /// Refers to `expr`.
    #[must_use]
    pub const fn new(expr: &'a Expr<'a>) -> Self {
        Self(Repr::Built(expr))
    }

    /// The expression; a received one is decoded.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn expr(&self) -> Result<Expr<'a>, DecodeError> {
        match self.0 {
            Repr::Built(expr) => Ok(*expr),
            Repr::Wire(bytes) => Expr::decode_attrs(Attrs::new(bytes)),
        }
    }
}

impl PartialEq for ExprRef<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.expr() == other.expr()
    }
}

impl fmt::Debug for ExprRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr().fmt(f)
    }
}

impl<'a> AttrValue<'a> for ExprRef<'a> {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        match self.0 {
            Repr::Built(expr) => expr.encode(attr, enc),
            Repr::Wire(bytes) => {
                let mut nest = enc.nest(attr)?;
                nest.put(bytes)?;
                nest.end()
            }
        }
    }

    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        check_leaf(attr, what)?;
        Ok(Self(Repr::Wire(attr.payload)))
    }
}

/// A list of expressions inside another one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NestedExprs<'a>(Exprs<'a>);

impl<'a> NestedExprs<'a> {
    /// The expressions in `exprs`.
    #[must_use]
    pub const fn new(exprs: &'a [Expr<'a>]) -> Self {
        Self(Exprs::new(exprs))
    }

    /// The list.
    #[must_use]
    pub const fn exprs(&self) -> &Exprs<'a> {
        &self.0
    }
}

impl<'a> AttrValue<'a> for NestedExprs<'a> {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        self.0.encode(attr, enc)
    }

    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        for entry in attr.nested() {
            check_leaf(&entry?, what)?;
        }
        attr.value(what).map(Self)
    }
}

/// Refuses an expression that can hold expressions: received bytes must not decide how deep
/// comparing and printing recurse.
fn check_leaf(expr: &Attr<'_>, what: &'static str) -> Result<(), DecodeError> {
    for attr in expr.nested() {
        let attr = attr?;
        if attr.kind == NFTA_EXPR_NAME {
            let name: Str<'_> = attr.value(what)?;
            if [b"dynset" as &[u8], b"inner"].contains(&name.as_bytes()) {
                return Err(expr.error(DecodeErrorKind::TooDeep, what));
            }
        }
    }
    Ok(())
}
