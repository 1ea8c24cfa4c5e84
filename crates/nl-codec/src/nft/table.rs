//! Tables (`nf_tables_newtable`, `nf_tables_fill_table_info`).

use super::Str;

bitflags::bitflags! {
    /// `NFT_TABLE_F_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct TableFlags: u32 {
        /// Its base chains are not hooked.
        const DORMANT = 1;
        /// Only the socket that made it may change it; it goes when the socket goes (Linux 5.12).
        const OWNER = 2;
        /// An owned table outlives its owner and can be taken over (Linux 6.9).
        const PERSIST = 4;
        const _ = !0;
    }
}
flags_value!(TableFlags);

attr_struct! {
    /// A table (`NFTA_TABLE_*`): NEW, GET, DEL and DESTROY TABLE. Get and delete take a name or a
    /// handle; delete without either flushes the ruleset of the family.
    pub struct Table<'a> {
        /// Name.
        1 => name: Str<'a>,
        /// Handle, given by the kernel.
        4 => handle: u64,
        /// See [`TableFlags`].
        2 => flags: TableFlags,
        /// Number of chains, sets, objects and flowtables in it; from the kernel only.
        3 => in_use: u32,
        /// See [`crate::nft::udata`].
        6 => userdata: &'a [u8],
        /// Port id of the owner; from the kernel only.
        7 => owner: u32,
    }
}

impl<'a> Table<'a> {
    /// The table called `name`.
    #[must_use]
    pub fn named(name: &'a str) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }
}
