//! Named stateful objects (`nf_tables_newobj`, `nf_tables_fill_obj_info`).
//!
//! Counters, quotas, limits, connection limits and SYN proxies hold the same attributes as the
//! expressions of that name; the others have a file each.

mod ct_expect;
mod ct_helper;
mod ct_timeout;
mod secmark;
mod tunnel;

pub use ct_expect::CtExpect;
pub use ct_helper::CtHelper;
pub use ct_timeout::{CtTimeout, Timeout};
pub use secmark::Secmark;
pub use tunnel::{TunnelFlags, TunnelIp, TunnelIp6, TunnelMetadata};

use super::Str;
use super::expr::{Connlimit, Counter, Limit, ObjType, Quota, Synproxy};
use crate::msg::Body;
use crate::{AttrBytes, Attrs, DecodeError, EncodeError, Encoder, put_attr};

const NFTA_OBJ_TABLE: u16 = 1;
const NFTA_OBJ_NAME: u16 = 2;
const NFTA_OBJ_TYPE: u16 = 3;
const NFTA_OBJ_DATA: u16 = 4;
const NFTA_OBJ_USE: u16 = 5;
const NFTA_OBJ_HANDLE: u16 = 6;
const NFTA_OBJ_USERDATA: u16 = 8;

/// A stateful object (`NFTA_OBJ_*`): NEW, GET, DEL and DESTROY OBJ. All but dumps need the type.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[non_exhaustive]
pub struct Obj<'a> {
    /// Table.
    pub table: Option<Str<'a>>,
    /// Name; unique among objects of a type.
    pub name: Option<Str<'a>>,
    /// Handle, given by the kernel; delete takes it instead of the name.
    pub handle: Option<u64>,
    /// Type. When encoding, the type of `data` if this is `None`.
    pub kind: Option<ObjType>,
    /// See [`crate::nft::udata`].
    pub userdata: Option<AttrBytes<'a>>,
    /// Parameters and state.
    pub data: Option<ObjData<'a>>,
    /// Number of rules and map rows that refer to it; from the kernel only.
    pub in_use: Option<u32>,
}

impl<'a> Obj<'a> {
    /// An object to create.
    #[must_use]
    pub fn new(table: &'a str, name: &'a str, data: impl Into<ObjData<'a>>) -> Self {
        let data = data.into();
        Self {
            data: Some(data),
            ..Self::named(table, name, data.kind())
        }
    }

    /// The object `name` of type `kind`.
    #[must_use]
    pub fn named(table: &'a str, name: &'a str, kind: ObjType) -> Self {
        Self {
            table: Some(table.into()),
            name: Some(name.into()),
            kind: Some(kind),
            ..Self::default()
        }
    }
}

impl<'a> Body<'a> for Obj<'a> {
    fn encode_body<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        if let Some(table) = &self.table {
            put_attr(enc, NFTA_OBJ_TABLE, table)?;
        }
        if let Some(name) = &self.name {
            put_attr(enc, NFTA_OBJ_NAME, name)?;
        }
        if let Some(handle) = &self.handle {
            put_attr(enc, NFTA_OBJ_HANDLE, handle)?;
        }
        if let Some(kind) = &self.kind.or_else(|| self.data.map(|data| data.kind())) {
            put_attr(enc, NFTA_OBJ_TYPE, kind)?;
        }
        if let Some(userdata) = &self.userdata {
            put_attr(enc, NFTA_OBJ_USERDATA, userdata)?;
        }
        if let Some(data) = &self.data {
            data.encode(enc)?;
        }
        if let Some(in_use) = &self.in_use {
            put_attr(enc, NFTA_OBJ_USE, in_use)?;
        }
        Ok(())
    }

    fn decode_body(attrs: Attrs<'a>) -> Result<Self, DecodeError> {
        let mut out = Self::default();
        let mut data = None;
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                NFTA_OBJ_TABLE => out.table = Some(attr.value("Obj.table")?),
                NFTA_OBJ_NAME => out.name = Some(attr.value("Obj.name")?),
                NFTA_OBJ_TYPE => out.kind = Some(attr.value("Obj.kind")?),
                NFTA_OBJ_DATA => data = Some(attr),
                NFTA_OBJ_USE => out.in_use = Some(attr.value("Obj.in_use")?),
                NFTA_OBJ_HANDLE => out.handle = Some(attr.value("Obj.handle")?),
                NFTA_OBJ_USERDATA => out.userdata = Some(attr.value("Obj.userdata")?),
                _ => {}
            }
        }
        // How to read the data depends on the type, wherever that stands.
        if let (Some(data), Some(kind)) = (data, out.kind) {
            out.data = Some(ObjData::decode(kind, data.payload)?);
        }
        Ok(out)
    }
}

macro_rules! obj_data {
    ($( $(#[$meta:meta])* $variant:ident($ty:ty) = $kind:ident, )+) => {
        /// Parameters and state of an object (`NFTA_OBJ_DATA`).
        #[derive(Debug, Clone, Copy, PartialEq)]
        #[non_exhaustive]
        pub enum ObjData<'a> {
            $( $(#[$meta])* $variant($ty), )+
            /// An object this crate does not know.
            Unknown {
                /// Its type.
                kind: ObjType,
                /// Its attributes, undecoded.
                data: AttrBytes<'a>,
            },
        }

        impl<'a> ObjData<'a> {
            /// The object's type.
            #[must_use]
            pub fn kind(&self) -> ObjType {
                match self {
                    $( Self::$variant(_) => ObjType::$kind, )+
                    Self::Unknown { kind, .. } => *kind,
                }
            }

            fn encode<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
                match self {
                    $( Self::$variant(data) => put_attr(enc, NFTA_OBJ_DATA, data), )+
                    Self::Unknown { data, .. } => {
                        let mut nest = enc.nest(NFTA_OBJ_DATA)?;
                        nest.put(data)?;
                        nest.end()
                    }
                }
            }

            fn decode(kind: ObjType, data: AttrBytes<'a>) -> Result<Self, DecodeError> {
                Ok(match kind {
                    $( ObjType::$kind => Self::$variant(<$ty>::decode_attrs(Attrs::new(data))?), )+
                    _ => Self::Unknown { kind, data },
                })
            }
        }

        $( impl<'a> From<$ty> for ObjData<'a> {
            fn from(data: $ty) -> Self {
                Self::$variant(data)
            }
        } )+
    };
}

obj_data! {
    /// Counter.
    Counter(Counter) = COUNTER,
    /// Quota.
    Quota(Quota) = QUOTA,
    /// Conntrack helper to assign.
    CtHelper(CtHelper<'a>) = CT_HELPER,
    /// Limit.
    Limit(Limit) = LIMIT,
    /// Connection limit.
    Connlimit(Connlimit) = CONNLIMIT,
    /// Tunnel metadata to attach.
    Tunnel(TunnelMetadata<'a>) = TUNNEL,
    /// Conntrack timeouts to assign.
    CtTimeout(CtTimeout<'a>) = CT_TIMEOUT,
    /// Security mark to assign.
    Secmark(Secmark<'a>) = SECMARK,
    /// Conntrack expectation to create.
    CtExpect(CtExpect) = CT_EXPECT,
    /// SYN proxy.
    Synproxy(Synproxy) = SYNPROXY,
}
