//! Base and regular chains (`nf_tables_newchain`, `nf_tables_fill_chain_info`).

use super::expr::Counter;
use super::{List, Str};
use crate::{Attr, AttrValue, DecodeError, EncodeError, Encoder};

bitflags::bitflags! {
    /// `NFT_CHAIN_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct ChainFlags: u32 {
        /// It has a hook; set by the kernel.
        const BASE = 1;
        /// Its rules are offloaded to hardware.
        const HW_OFFLOAD = 2;
        /// Bound to one rule, anonymous (`jump { … }`).
        const BINDING = 4;
        const _ = !0;
    }
}
flags_value!(ChainFlags);

open_enum! {
    /// Netfilter hook number of the ip, ip6, inet and bridge families (`enum nf_inet_hooks`).
    pub struct Hook(u32) {
        /// Before routing.
        PREROUTING = 0, "prerouting";
        /// To this host.
        INPUT = 1, "input";
        /// Through this host.
        FORWARD = 2, "forward";
        /// From this host.
        OUTPUT = 3, "output";
        /// After routing.
        POSTROUTING = 4, "postrouting";
        /// From a device, in the inet family.
        INET_INGRESS = 5, "ingress";
    }
}

impl Hook {
    /// From a device, in the netdev family.
    pub const NETDEV_INGRESS: Self = Self(0);
    /// To a device, in the netdev family.
    pub const NETDEV_EGRESS: Self = Self(1);
}

open_enum! {
    /// What happens to packets that pass a base chain (`NF_DROP`, `NF_ACCEPT`).
    pub struct Policy(u32) {
        /// Drop.
        DROP = 0, "drop";
        /// Accept.
        ACCEPT = 1, "accept";
    }
}

attr_struct! {
    /// Where a base chain sits (`NFTA_HOOK_*`).
    pub struct ChainHook<'a> {
        /// Hook.
        1 => hook: Hook,
        /// Lower ones see a packet first; signed.
        2 => priority: i32,
        /// One device.
        3 => device: Str<'a>,
        /// Several devices.
        4 => devices: Devices<'a>,
    }
}

impl<'a> ChainHook<'a> {
    /// At `hook`, with `priority`.
    #[must_use]
    pub fn new(hook: Hook, priority: i32) -> Self {
        Self {
            hook: Some(hook),
            priority: Some(priority),
            ..Self::default()
        }
    }
}

/// Devices of a chain or flowtable.
pub type Devices<'a> = List<'a, Device<'a>>;

/// An entry of a device list (`NFTA_DEVICE_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device<'a> {
    /// Its name, or the beginning of it.
    pub name: Str<'a>,
    /// All devices whose name begins so (`NFTA_DEVICE_PREFIX`; older kernels refuse it).
    pub prefix: bool,
}

const NFTA_DEVICE_PREFIX: u16 = 2;

impl<'a> From<&'a str> for Device<'a> {
    fn from(name: &'a str) -> Self {
        Self {
            name: name.into(),
            prefix: false,
        }
    }
}

impl<'a> AttrValue<'a> for Device<'a> {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        let attr = if self.prefix {
            NFTA_DEVICE_PREFIX
        } else {
            attr
        };
        self.name.encode(attr, enc)
    }

    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self {
            name: attr.value(what)?,
            prefix: attr.kind == NFTA_DEVICE_PREFIX,
        })
    }
}

attr_struct! {
    /// A chain (`NFTA_CHAIN_*`): NEW, GET, DEL and DESTROY CHAIN. With a hook it is a base chain.
    pub struct Chain<'a> {
        /// Table.
        1 => table: Str<'a>,
        /// Name.
        3 => name: Str<'a>,
        /// Handle, given by the kernel. In NEW with a name it renames the chain.
        2 => handle: u64,
        /// Type of a base chain: `filter`, `nat` or `route`.
        7 => kind: Str<'a>,
        /// Policy of a base chain.
        5 => policy: Policy,
        /// Hook of a base chain.
        4 => hook: ChainHook<'a>,
        /// Counters of a base chain.
        8 => counters: Counter,
        /// Number by which other messages of the same batch can refer to a new chain.
        11 => id: u32,
        /// See [`ChainFlags`].
        10 => flags: ChainFlags,
        /// Number of rules, jumps and map rows; from the kernel only.
        6 => in_use: u32,
        /// See [`crate::nft::udata`].
        12 => userdata: &'a [u8],
    }
}

impl<'a> Chain<'a> {
    /// The chain called `name` in `table`.
    #[must_use]
    pub fn named(table: &'a str, name: &'a str) -> Self {
        Self {
            table: Some(table.into()),
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// Makes it a base chain of type `kind`.
    #[must_use]
    pub fn hooked(mut self, kind: &'a str, hook: ChainHook<'a>) -> Self {
        self.kind = Some(kind.into());
        self.hook = Some(hook);
        self
    }
}
