//! `objref`: use a named stateful object, given or found in a map
//! (`net/netfilter/nft_objref.c`).

use core::fmt::{self, Formatter};

use crate::nft::{Register, Str};
use crate::pretty::text::{Shown, Text};
use crate::{Attr, AttrValue, DecodeError, EncodeError, Encoder};

open_enum! {
    /// `NFT_OBJECT_*`.
    pub struct ObjType(u32) {
        /// Counter.
        COUNTER = 1, "counter";
        /// Quota.
        QUOTA = 2, "quota";
        /// Conntrack helper.
        CT_HELPER = 3, "ct helper";
        /// Limit.
        LIMIT = 4, "limit";
        /// Connection limit.
        CONNLIMIT = 5, "connlimit";
        /// Tunnel metadata.
        TUNNEL = 6, "tunnel";
        /// Conntrack timeouts.
        CT_TIMEOUT = 7, "ct timeout";
        /// Security mark.
        SECMARK = 8, "secmark";
        /// Conntrack expectation.
        CT_EXPECT = 9, "ct expectation";
        /// SYN proxy.
        SYNPROXY = 10, "synproxy";
    }
}

/// A name that goes out without a NUL, as libnftnl sends it here alone. The kernel takes both and
/// sends one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BareStr<'a>(pub Str<'a>);

impl<'a, T: Into<Str<'a>>> From<T> for BareStr<'a> {
    fn from(name: T) -> Self {
        Self(name.into())
    }
}

impl fmt::Display for BareStr<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'a> AttrValue<'a> for BareStr<'a> {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        if self.0.as_bytes().contains(&0) {
            return Err(EncodeError::Invalid {
                what: "name with a NUL byte",
                offset: enc.position(),
            });
        }
        enc.put_attr_bytes(attr, self.0.as_bytes())
    }

    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        attr.value(what).map(Self)
    }
}

attr_struct! {
    /// Object by type and name, or by a key in a map (`NFTA_OBJREF_*`).
    pub struct Objref<'a> {
        /// Type of the object.
        1 => obj_type: ObjType,
        /// Name of the object.
        2 => name: BareStr<'a>,
        /// Key register.
        3 => sreg: Register,
        /// Map name.
        4 => set: BareStr<'a>,
        /// Id of a map created in the same batch.
        5 => set_id: u32,
    }
}

impl<'a> Objref<'a> {
    /// The object `name`.
    #[must_use]
    pub fn named(obj_type: ObjType, name: impl Into<Str<'a>>) -> Self {
        Self {
            obj_type: Some(obj_type),
            name: Some(BareStr(name.into())),
            ..Self::default()
        }
    }

    /// The object the map `set` holds for the key in `sreg`.
    #[must_use]
    pub fn map(set: impl Into<Str<'a>>, sreg: Register) -> Self {
        Self {
            sreg: Some(sreg),
            set: Some(BareStr(set.into())),
            ..Self::default()
        }
    }

    /// Names a map of the same batch.
    #[must_use]
    pub fn with_id(mut self, set_id: u32) -> Self {
        self.set_id = Some(set_id);
        self
    }
}

impl Text for Objref<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.sreg {
            Some(sreg) => {
                let set = self.set.map(|set| set.0);
                write!(f, "sreg {sreg} set {} ", Shown(set))
            }
            None => {
                let obj_type = self.obj_type.map(|obj_type| obj_type.0);
                let name = self.name.map(|name| name.0);
                write!(f, "type {} name {} ", Shown(obj_type), Shown(name))
            }
        }
    }
}
