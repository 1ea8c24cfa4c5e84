//! Values for property tests, made from random bytes. The macros of this crate implement [`Arb`]
//! for all they define, so that a new field or object is tested without being listed.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::vec::Vec;

use crate::HostU32;
use crate::ct::TcpFlags;
use crate::nft::chain::Device;
use crate::nft::expr::{BareStr, ExprRef, NestedExprs, Notrack, ObjType};
use crate::nft::obj::{Obj, ObjData, Timeout};
use crate::nft::{Data, Expr, List, Str, Value};

/// Turns random bytes into values; when they run out, into zeroes and absent attributes.
pub(crate) struct Source<'a> {
    pub(crate) bytes: &'a [u8],
    /// What expressions inside others are taken from; at least one.
    pub(crate) nested: &'a [Expr<'a>],
}

impl<'a> Source<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        *byte
    }

    fn slice(&mut self, max: u8) -> &'a [u8] {
        let len = usize::from(self.byte() % (max + 1));
        let (slice, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        slice
    }

    fn expr(&mut self) -> &'a Expr<'a> {
        &self.nested[usize::from(self.byte()) % self.nested.len()]
    }
}

pub(crate) trait Arb<'a>: Sized {
    fn arb(source: &mut Source<'a>) -> Self;
}

impl<'a, T: Arb<'a>> Arb<'a> for Option<T> {
    fn arb(source: &mut Source<'a>) -> Self {
        (source.byte() & 1 == 1).then(|| T::arb(source))
    }
}

macro_rules! ints {
    ($($int:ty)+) => {$(
        impl<'a> Arb<'a> for $int {
            fn arb(source: &mut Source<'a>) -> Self {
                Self::from_ne_bytes(core::array::from_fn(|_| source.byte()))
            }
        }
    )+};
}
ints!(u8 u16 u32 u64 i32);

macro_rules! from_inner {
    ($($name:ty: $inner:ty,)+) => {$(
        impl<'a> Arb<'a> for $name {
            fn arb(source: &mut Source<'a>) -> Self {
                Self::from(<$inner>::arb(source))
            }
        }
    )+};
}
from_inner! {
    Ipv4Addr: u32,
    BareStr<'a>: Str<'a>,
}

impl<'a> Arb<'a> for Ipv6Addr {
    fn arb(source: &mut Source<'a>) -> Self {
        Self::from(core::array::from_fn::<u8, 16, _>(|_| source.byte()))
    }
}

impl<'a> Arb<'a> for HostU32 {
    fn arb(source: &mut Source<'a>) -> Self {
        Self(Arb::arb(source))
    }
}

impl<'a> Arb<'a> for &'a [u8] {
    fn arb(source: &mut Source<'a>) -> Self {
        source.slice(u8::MAX - 1)
    }
}

impl<'a> Arb<'a> for Str<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        let bytes = source.slice(u8::MAX - 1);
        let end = bytes.iter().position(|byte| *byte == 0);
        Self::new(&bytes[..end.unwrap_or(bytes.len())])
    }
}

impl<'a> Arb<'a> for Data<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        if source.byte() & 1 == 0 {
            Self::Value(Value::new(source.slice(64)))
        } else {
            Self::Verdict(Arb::arb(source))
        }
    }
}

impl<'a> Arb<'a> for Expr<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        *source.expr()
    }
}

impl<'a> Arb<'a> for ExprRef<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        Self::new(source.expr())
    }
}

impl<'a> Arb<'a> for NestedExprs<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        let index = usize::from(source.byte()) % source.nested.len();
        Self::new(&source.nested[index..])
    }
}

impl<'a> Arb<'a> for Notrack {
    fn arb(_source: &mut Source<'a>) -> Self {
        Self
    }
}

impl<'a> Arb<'a> for TcpFlags {
    fn arb(source: &mut Source<'a>) -> Self {
        Self {
            flags: source.byte(),
            mask: source.byte(),
        }
    }
}

impl<'a> Arb<'a> for Timeout {
    fn arb(source: &mut Source<'a>) -> Self {
        Self {
            // The two highest bits of a type are flags.
            state: u16::arb(source) & 0x3fff,
            seconds: Arb::arb(source),
        }
    }
}

impl<'a> Arb<'a> for ObjData<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        match source.byte() % 11 {
            0 => Self::Counter(Arb::arb(source)),
            1 => Self::Quota(Arb::arb(source)),
            2 => Self::CtHelper(Arb::arb(source)),
            3 => Self::Limit(Arb::arb(source)),
            4 => Self::Connlimit(Arb::arb(source)),
            5 => Self::Tunnel(Arb::arb(source)),
            6 => Self::CtTimeout(Arb::arb(source)),
            7 => Self::Secmark(Arb::arb(source)),
            8 => Self::CtExpect(Arb::arb(source)),
            9 => Self::Synproxy(Arb::arb(source)),
            _ => Self::Unknown {
                kind: ObjType(11),
                data: Arb::arb(source),
            },
        }
    }
}

impl<'a> Arb<'a> for Obj<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        let mut obj = Self::default();
        obj.table = Arb::arb(source);
        obj.name = Arb::arb(source);
        obj.handle = Arb::arb(source);
        obj.userdata = Arb::arb(source);
        obj.in_use = Arb::arb(source);
        obj.data = Arb::arb(source);
        // Data without a type cannot be read.
        obj.kind = match &obj.data {
            Some(data) => Some(data.kind()),
            None => Arb::arb(source),
        };
        obj
    }
}

impl<'a> Arb<'a> for Device<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        Self {
            prefix: source.byte() & 1 == 1,
            name: Arb::arb(source),
        }
    }
}

impl<'a, T: Arb<'a> + 'a> Arb<'a> for List<'a, T> {
    fn arb(source: &mut Source<'a>) -> Self {
        let len = source.byte() % 4;
        let entries: Vec<T> = (0..len).map(|_| T::arb(source)).collect();
        // A list borrows its entries; those of a test may live to its end.
        Self::new(entries.leak())
    }
}
