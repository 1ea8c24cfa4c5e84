//! Expressions, one file each. [`Expr`] is any of them; [`Exprs`] is a list, either to encode or as
//! received; [`ExprRef`] and [`NestedExprs`] are inside another one.

mod bitwise;
mod byteorder;
mod cmp;
mod connlimit;
mod counter;
mod ct;
mod dup;
mod dynset;
mod exthdr;
mod fib;
mod flow_offload;
mod fwd;
mod hash;
mod immediate;
mod inner;
mod last;
mod limit;
mod log;
mod lookup;
mod masq;
mod meta;
mod nat;
mod nested;
mod nfproto;
mod notrack;
mod numgen;
mod objref;
mod osf;
mod payload;
mod queue;
mod quota;
mod range;
mod redir;
mod reject;
mod rt;
mod socket;
mod synproxy;
mod tproxy;
mod tunnel;
mod xfrm;

pub use bitwise::{Bitwise, BitwiseOp};
pub use byteorder::{Byteorder, ByteorderOp};
pub use cmp::{Cmp, CmpOp};
pub use connlimit::{Connlimit, ConnlimitFlags};
pub use counter::Counter;
pub use ct::{Ct, CtDirection, CtKey, CtState};
pub use dup::Dup;
pub use dynset::{Dynset, DynsetFlags, DynsetOp};
pub use exthdr::{Exthdr, ExthdrFlags, ExthdrOp};
pub use fib::{AddrType, Fib, FibFlags, FibResult};
pub use flow_offload::FlowOffload;
pub use fwd::Fwd;
pub use hash::{Hash, HashType};
pub use immediate::Immediate;
pub use inner::{Inner, InnerFlags, InnerType};
pub use last::Last;
pub use limit::{Limit, LimitFlags, LimitType};
pub use log::{Log, LogFlags, LogLevel};
pub use lookup::{Lookup, LookupFlags};
pub use masq::Masq;
pub use meta::{Meta, MetaKey};
pub use nat::{Nat, NatFlags, NatType};
pub use nested::{ExprRef, NestedExprs};
pub use nfproto::NfProto;
pub use notrack::Notrack;
pub use numgen::{Numgen, NumgenType};
pub use objref::{BareStr, ObjType, Objref};
pub use osf::{Osf, OsfFlags, OsfTtl};
pub use payload::{CsumFlags, CsumType, Payload, PayloadBase};
pub use queue::{Queue, QueueFlags};
pub use quota::{Quota, QuotaFlags};
pub use range::{Range, RangeOp};
pub use redir::Redir;
pub use reject::{IcmpxCode, Reject, RejectType};
pub use rt::{Rt, RtKey};
pub use socket::{Socket, SocketKey};
pub use synproxy::{Synproxy, SynproxyFlags};
pub use tproxy::Tproxy;
pub use tunnel::{Tunnel, TunnelKey, TunnelMode};
pub use xfrm::{Xfrm, XfrmDir, XfrmKey};

use core::fmt::{self, Formatter};

pub use crate::ct::Status as CtStatus;

use super::{List, Str};
use crate::pretty::text::Text;
use crate::{Attr, AttrValue, Attrs, DecodeError, DecodeErrorKind, EncodeError, Encoder};

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

            fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$variant(expr) => expr.text(f), )+
                    Self::Unknown { data, .. } => write!(f, "({} bytes) ", data.len()),
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
    /// Boolean operation or shift on registers.
    Bitwise(Bitwise<'a>) = "bitwise",
    /// Between network and host order.
    Byteorder(Byteorder) = "byteorder",
    /// Comparison with a constant.
    Cmp(Cmp<'a>) = "cmp",
    /// Limit on connections.
    Connlimit(Connlimit) = "connlimit",
    /// Packets and bytes.
    Counter(Counter) = "counter",
    /// Connection property, load or set.
    Ct(Ct) = "ct",
    /// Copy sent elsewhere.
    Dup(Dup) = "dup",
    /// Element added, refreshed or deleted by a packet.
    Dynset(Dynset<'a>) = "dynset",
    /// Extension header or option, load, write or remove.
    Exthdr(Exthdr) = "exthdr",
    /// Route query.
    Fib(Fib) = "fib",
    /// Connection to a flowtable.
    FlowOffload(FlowOffload<'a>) = "flow_offload",
    /// Packet out of another interface.
    Fwd(Fwd) = "fwd",
    /// Hash below a modulus.
    Hash(Hash) = "hash",
    /// Constant or verdict.
    Immediate(Immediate<'a>) = "immediate",
    /// Expression on a tunnelled packet.
    Inner(Inner<'a>) = "inner",
    /// Time of the last match.
    Last(Last) = "last",
    /// Rate limit.
    Limit(Limit) = "limit",
    /// Line in a log, or packet to user space.
    Log(Log<'a>) = "log",
    /// Set or map lookup.
    Lookup(Lookup<'a>) = "lookup",
    /// Source becomes the interface's address.
    Masq(Masq) = "masq",
    /// Packet metadata, load or set.
    Meta(Meta) = "meta",
    /// Source or destination translation.
    Nat(Nat) = "nat",
    /// Exemption from connection tracking.
    Notrack(Notrack) = "notrack",
    /// Counter or random number below a modulus.
    Numgen(Numgen) = "numgen",
    /// Use of a named stateful object.
    Objref(Objref<'a>) = "objref",
    /// Operating system guess.
    Osf(Osf) = "osf",
    /// Packet bytes, load or write.
    Payload(Payload) = "payload",
    /// Packet to user space for a verdict.
    Queue(Queue) = "queue",
    /// Amount of bytes.
    Quota(Quota) = "quota",
    /// Comparison with a range.
    Range(Range<'a>) = "range",
    /// Destination becomes the host.
    Redir(Redir) = "redir",
    /// Drop with an error to the sender.
    Reject(Reject) = "reject",
    /// Route property.
    Rt(Rt) = "rt",
    /// Socket property.
    Socket(Socket) = "socket",
    /// SYN cookies in place of the server.
    Synproxy(Synproxy) = "synproxy",
    /// Packet to a local socket.
    Tproxy(Tproxy) = "tproxy",
    /// Tunnel metadata.
    Tunnel(Tunnel) = "tunnel",
    /// IPsec property.
    Xfrm(Xfrm) = "xfrm",
}

impl<'a> Expr<'a> {
    /// Reads the attributes of one expression (`NFTA_EXPR_*`).
    ///
    /// # Errors
    /// [`DecodeErrorKind::Missing`] without a name; others from the expression.
    pub fn decode_attrs(attrs: Attrs<'a>) -> Result<Self, DecodeError> {
        let mut name = None;
        let mut data = Attr {
            kind: NFTA_EXPR_DATA,
            flags: 0,
            payload: &[],
            offset: 0,
        };
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                NFTA_EXPR_NAME => name = Some(attr.value::<Str<'a>>("expression name")?),
                NFTA_EXPR_DATA => data = attr,
                _ => {}
            }
        }
        let name = name.ok_or(DecodeError::new(
            DecodeErrorKind::Missing,
            "expression name",
            0,
        ))?;
        Self::decode_data(name, &data)
    }
}

/// As `nft --debug=netlink` shows it, see [`crate::pretty`].
impl fmt::Display for Expr<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "[ {} ", self.name())?;
        self.text(f)?;
        f.write_str("]")
    }
}

impl<'a> AttrValue<'a> for Expr<'a> {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        let mut nest = enc.nest(attr)?;
        crate::put_attr(&mut *nest, NFTA_EXPR_NAME, &self.name())?;
        self.encode_data(&mut *nest)?;
        nest.end()
    }

    fn decode(attr: &Attr<'a>, _what: &'static str) -> Result<Self, DecodeError> {
        Self::decode_attrs(attr.nested())
    }
}

/// A list of expressions: built by the caller, or as received.
pub type Exprs<'a> = List<'a, Expr<'a>>;

#[cfg(test)]
mod tests;
