//! Sets and maps (`nf_tables_newset`, `nf_tables_fill_set`). Their rows are in [`super::elem`].

use super::expr::{ExprRef, ObjType};
use super::{DataType, Exprs, List, Str};

bitflags::bitflags! {
    /// `NFT_SET_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct SetFlags: u32 {
        /// Without a name of its own; goes with the rule that uses it.
        const ANONYMOUS = 0x1;
        /// Elements cannot change once a rule uses it.
        const CONSTANT = 0x2;
        /// Elements are ranges.
        const INTERVAL = 0x4;
        /// Elements have data.
        const MAP = 0x8;
        /// Elements may expire.
        const TIMEOUT = 0x10;
        /// Rules may add elements.
        const EVAL = 0x20;
        /// Elements refer to stateful objects.
        const OBJECT = 0x40;
        /// The key is a concatenation whose fields' lengths are in [`SetDesc::concat`]; wanted
        /// with [`Self::INTERVAL`].
        const CONCAT = 0x80;
        /// Elements have several expressions: wanted with [`Set::exprs`] (Linux 5.11).
        const EXPR = 0x100;
        const _ = !0;
    }
}
flags_value!(SetFlags);

open_enum! {
    /// How the kernel chooses among implementations (`enum nft_set_policies`).
    pub struct SetPolicy(u32) {
        /// The fastest.
        PERFORMANCE = 0, "performance";
        /// The smallest.
        MEMORY = 1, "memory";
    }
}

attr_struct! {
    /// One field of a concatenated key (`NFTA_SET_FIELD_*`).
    pub struct SetField {
        /// Length in bytes (the header says bits; `nft_set_desc_concat_parse` uses bytes).
        1 => len: u32,
    }
}

impl SetField {
    /// A field of `len` bytes.
    #[must_use]
    pub const fn new(len: u32) -> Self {
        Self { len: Some(len) }
    }
}

attr_struct! {
    /// Facts by which the kernel chooses an implementation (`NFTA_SET_DESC_*`).
    pub struct SetDesc<'a> {
        /// At most this many elements; 0 or missing means no limit.
        1 => size: u32,
        /// Lengths of the fields of a concatenated key.
        2 => concat: List<'a, SetField>,
    }
}

attr_struct! {
    /// A set or map (`NFTA_SET_*`): NEW, GET, DEL and DESTROY SET.
    pub struct Set<'a> {
        /// Table.
        1 => table: Str<'a>,
        /// Name, at most 255 bytes; `%d` in the name of an anonymous set becomes a number.
        2 => name: Str<'a>,
        /// Handle, given by the kernel.
        16 => handle: u64,
        /// See [`SetFlags`].
        3 => flags: SetFlags,
        /// nft's type of the key; the kernel only keeps it. See [`DataType`].
        4 => key_type: DataType,
        /// Length of the key in bytes, fields padded to 4 bytes each.
        5 => key_len: u32,
        /// nft's type of the data, or [`DataType::VERDICT_MAP`].
        6 => data_type: DataType,
        /// Length of the data in bytes; not for verdicts.
        7 => data_len: u32,
        /// Type of the objects, with [`SetFlags::OBJECT`].
        15 => obj_type: ObjType,
        /// Number by which other messages of the same batch can refer to a new set.
        10 => id: u32,
        /// See [`SetPolicy`].
        8 => policy: SetPolicy,
        /// See [`SetDesc`].
        9 => desc: SetDesc<'a>,
        /// Default timeout of elements in milliseconds.
        11 => timeout: u64,
        /// How often expired elements are removed, in milliseconds.
        12 => gc_interval: u32,
        /// See [`crate::nft::udata`].
        13 => userdata: &'a [u8],
        /// The one expression each new element gets.
        17 => expr: ExprRef<'a>,
        /// The expressions each new element gets, if several.
        18 => exprs: Exprs<'a>,
        /// Implementation, e.g. `nft_set_rhash_type`; from the kernel only; not on older kernels.
        19 => backend: Str<'a>,
        /// Number of elements; from the kernel only; not on older kernels.
        20 => count: u32,
    }
}

impl<'a> Set<'a> {
    /// The set called `name` in `table`.
    #[must_use]
    pub fn named(table: &'a str, name: &'a str) -> Self {
        Self {
            table: Some(table.into()),
            name: Some(name.into()),
            ..Self::default()
        }
    }
}
