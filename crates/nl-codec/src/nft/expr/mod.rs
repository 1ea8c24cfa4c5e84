//! Expressions, one file each. [`Expr`] is any of them; [`Exprs`] is a list, either to encode or as
//! received.

mod lookup;
mod meta;

pub use lookup::{Lookup, LookupFlags};
pub use meta::{Meta, MetaKey};

use super::{List, Str};
use crate::{Attr, AttrValue, DecodeError, DecodeErrorKind, EncodeError, Encoder};

const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;

macro_rules! exprs {
    ($( $(#[$meta:meta])* $variant:ident($ty:ty) = $name:literal, )+) => {
        /// One expression (`NFTA_EXPR_NAME`, `NFTA_EXPR_DATA`).
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[non_exhaustive]
        pub enum Expr<'a> {
            $( $(#[$meta])* $variant($ty), )+
            /// An expression this crate does not know, as received.
            Unknown {
                /// Its name.
                name: Str<'a>,
                /// Its attributes, undecoded.
                data: &'a [u8],
            },
        }

        impl<'a> Expr<'a> {
            /// The kernel's name of the expression.
            #[must_use]
            pub fn name(&self) -> Str<'a> {
                match self {
                    $( Self::$variant(_) => Str::new($name.as_bytes()), )+
                    Self::Unknown { name, .. } => *name,
                }
            }

            fn encode_data<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
                match self {
                    $( Self::$variant(expr) => crate::put_attr(enc, NFTA_EXPR_DATA, expr), )+
                    Self::Unknown { data, .. } => {
                        let mut nest = enc.nest(NFTA_EXPR_DATA)?;
                        nest.put(data)?;
                        nest.end()
                    }
                }
            }

            fn decode_data(name: Str<'a>, data: &Attr<'a>) -> Result<Self, DecodeError> {
                Ok(match name.as_bytes() {
                    $( x if x == $name.as_bytes() => Self::$variant(data.value($name)?), )+
                    _ => Self::Unknown { name, data: data.payload },
                })
            }
        }

        $( impl<'a> From<$ty> for Expr<'a> {
            fn from(expr: $ty) -> Self {
                Self::$variant(expr)
            }
        } )+
    };
}

exprs! {
    /// Set or map lookup.
    Lookup(Lookup<'a>) = "lookup",
    /// Packet metadata, load or set.
    Meta(Meta) = "meta",
}

impl<'a> AttrValue<'a> for Expr<'a> {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        let mut nest = enc.nest(attr)?;
        crate::put_attr(&mut *nest, NFTA_EXPR_NAME, &self.name())?;
        self.encode_data(&mut *nest)?;
        nest.end()
    }

    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        let mut name = None;
        let mut data = Attr {
            kind: NFTA_EXPR_DATA,
            flags: 0,
            payload: &[],
            offset: 0,
        };
        for inner in attr.nested() {
            let inner = inner?;
            match inner.kind {
                NFTA_EXPR_NAME => name = Some(inner.value::<Str<'a>>("expression name")?),
                NFTA_EXPR_DATA => data = inner,
                _ => {}
            }
        }
        let name = name.ok_or_else(|| attr.error(DecodeErrorKind::Missing, what))?;
        Self::decode_data(name, &data)
    }
}

/// A list of expressions: built by the caller, or as received.
pub type Exprs<'a> = List<'a, Expr<'a>>;
