//! One expression inside another: built by the caller, or as received.

use core::fmt;

use super::Expr;
use crate::{Attr, AttrValue, Attrs, DecodeError, EncodeError, Encoder};

/// One expression inside another. A received one stays encoded until it is asked for, so that an
/// expression that holds one has a size and needs no heap; two received ones are equal when their
/// bytes are.
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
        match (self.0, other.0) {
            (Repr::Wire(a), Repr::Wire(b)) => a == b,
            _ => self.expr() == other.expr(),
        }
    }
}

impl fmt::Debug for ExprRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Repr::Built(expr) => expr.fmt(f),
            Repr::Wire(bytes) => f.debug_tuple("ExprRef").field(&bytes).finish(),
        }
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

    fn decode(attr: &Attr<'a>, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self(Repr::Wire(attr.payload)))
    }
}
