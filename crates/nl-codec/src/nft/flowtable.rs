//! Flowtables: fast path for established connections (`nf_tables_newflowtable`).

use super::Str;
use super::chain::Devices;

bitflags::bitflags! {
    /// `NFT_FLOWTABLE_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FlowtableFlags: u32 {
        /// Offloaded to hardware.
        const HW_OFFLOAD = 1;
        /// Counts per flow.
        const COUNTER = 2;
        const _ = !0;
    }
}
flags_value!(FlowtableFlags);

attr_struct! {
    /// Where a flowtable sits (`NFTA_FLOWTABLE_HOOK_*`).
    pub struct FlowtableHook<'a> {
        /// Hook of the netdev family; 0, ingress.
        1 => hook: u32,
        /// Lower ones see a packet first; signed.
        2 => priority: i32,
        /// Devices.
        3 => devices: Devices<'a>,
    }
}

attr_struct! {
    /// A flowtable (`NFTA_FLOWTABLE_*`): NEW, GET, DEL and DESTROY FLOWTABLE.
    pub struct Flowtable<'a> {
        /// Table.
        1 => table: Str<'a>,
        /// Name.
        2 => name: Str<'a>,
        /// Handle, given by the kernel.
        5 => handle: u64,
        /// Hook and devices.
        3 => hook: FlowtableHook<'a>,
        /// See [`FlowtableFlags`].
        7 => flags: FlowtableFlags,
        /// Number of rules that use it; from the kernel only.
        4 => in_use: u32,
    }
}

impl<'a> Flowtable<'a> {
    /// The flowtable called `name` in `table`.
    #[must_use]
    pub fn named(table: &'a str, name: &'a str) -> Self {
        Self {
            table: Some(table.into()),
            name: Some(name.into()),
            ..Self::default()
        }
    }
}
