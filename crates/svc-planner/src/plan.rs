//! A plan is data: transactions of typed operations, printable and serialisable, applied to the
//! kernel by one lowering function and to a fake by another.
//!
//! Within a [`Transaction`] operations are executed in the order of its fields; that order makes
//! references come before referrers when adding and after them when deleting, and deletions from a
//! set before additions to it.

use core::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::object::Protocol;

/// Name of a chain or set.
pub type Name = Arc<str>;

/// IP family; each has a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Family {
    /// Table `ip`.
    Ipv4,
    /// Table `ip6`.
    Ipv6,
}

/// One atomic batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// Which table.
    pub family: Family,
    /// Make sure the table exists.
    pub add_table: bool,
    /// Delete all rules of these chains.
    pub flush_chains: Vec<Name>,
    /// Delete these chains (flushed above) so that they can be added again with another type, hook
    /// or priority.
    pub replace_chains: Vec<Name>,
    /// Create sets and maps, hot ones first: the kernel finds names in creation order.
    pub add_sets: Vec<Set>,
    /// Create chains.
    pub add_chains: Vec<Chain>,
    /// Change elements, one entry per set.
    pub elements: Vec<SetChange>,
    /// Append rules.
    pub add_rules: Vec<Rule>,
    /// Delete sets and maps; before chains, because the rows of a verdict map hold theirs.
    pub delete_sets: Vec<Name>,
    /// Delete chains.
    pub delete_chains: Vec<Name>,
    /// Delete the table with everything in it.
    pub delete_table: bool,
}

impl Transaction {
    /// A transaction that does nothing yet.
    #[must_use]
    pub const fn new(family: Family) -> Self {
        Self {
            family,
            add_table: false,
            flush_chains: Vec::new(),
            replace_chains: Vec::new(),
            add_sets: Vec::new(),
            add_chains: Vec::new(),
            elements: Vec::new(),
            add_rules: Vec::new(),
            delete_sets: Vec::new(),
            delete_chains: Vec::new(),
            delete_table: false,
        }
    }

    /// Empties it but for the family; buffers stay for the next one.
    pub(crate) fn clear(&mut self) {
        (self.add_table, self.delete_table) = (false, false);
        self.add_sets.clear();
        self.add_chains.clear();
        self.elements.clear();
        self.add_rules.clear();
        for names in [
            &mut self.flush_chains,
            &mut self.replace_chains,
            &mut self.delete_sets,
            &mut self.delete_chains,
        ] {
            names.clear();
        }
    }

    /// Number of rows deleted and added.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.elements
            .iter()
            .map(|change| change.delete.len() + change.add.len())
            .sum()
    }
}

/// A base or regular chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Name.
    pub name: Name,
    /// Where it hooks, if it is a base chain.
    pub base: Option<BaseChain>,
}

/// Hook of a base chain; the policy is accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseChain {
    /// `filter` or `nat`.
    pub kind: ChainKind,
    /// Hook.
    pub hook: Hook,
    /// Priority, e.g. -100 for dstnat.
    pub priority: i32,
}

/// Type of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainKind {
    /// Filter.
    Filter,
    /// Network address translation; sees the first packet of a connection only.
    Nat,
}

/// Netfilter hook of the ip and ip6 families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// After routing.
    Postrouting,
}

/// A set or map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Name.
    pub name: Name,
    /// Key layout.
    pub key: KeyType,
    /// What a map's rows hold; [`DataType::None`] for a set.
    pub data: DataType,
    /// Keys are prefixes (interval set).
    pub interval: bool,
    /// Rows are added by rules and expire.
    pub dynamic: bool,
    /// Room for this many rows; `None` lets the kernel grow the set.
    pub size: Option<u32>,
}

/// Layout of a key; fields are padded to 4 bytes each on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum KeyType {
    /// address.
    Address,
    /// address . protocol . port
    Frontend,
    /// protocol . port
    NodePort,
    /// class number, host order (nft type `classid`).
    Class,
    /// group number . slot, both host order (`classid . mark`).
    Slot,
    /// group number, host order (`classid`).
    Group,
    /// instance . sequence number, both host order (`classid . mark`).
    State,
    /// address . address . protocol . port
    Hairpin,
    /// list number, host order . address (`classid . address`)
    Source,
    /// client address . address . protocol . port
    Client,
    /// endpoint number, host order (`classid`).
    EndpointId,
}

/// What a map's rows hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DataType {
    /// Nothing: a set.
    None,
    /// A verdict.
    Verdict,
    /// Class and group packed into 32 bits, host order (`classid`).
    Route,
    /// address . port
    Endpoint,
    /// Number of a list of source ranges, host order (`classid`).
    List,
    /// Endpoint number, host order (`classid`).
    EndpointId,
}

/// Changes of one set's elements: deletions are applied before additions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetChange {
    /// Set or map.
    pub set: Name,
    /// Its key layout, so that keys can be lowered without looking the set up.
    pub key: KeyType,
    /// Its data.
    pub data: DataType,
    /// Keys to delete.
    pub delete: Vec<Key>,
    /// Rows to add.
    pub add: Vec<Row>,
}

/// A key and what it maps to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Key.
    pub key: Key,
    /// Datum; [`Datum::None`] in sets.
    pub datum: Datum,
}

/// A key, see [`KeyType`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Key {
    /// One address.
    Address(IpAddr),
    /// All addresses of a prefix, in interval sets.
    Prefix(IpNet),
    /// A Service address and port.
    Frontend {
        /// Address.
        address: IpAddr,
        /// Protocol.
        protocol: Protocol,
        /// Port.
        port: u16,
    },
    /// A node port.
    NodePort {
        /// Protocol.
        protocol: Protocol,
        /// Port.
        port: u16,
    },
    /// A class, already shifted to its place in a [`Route`].
    Class(u32),
    /// A slot of a group.
    Slot {
        /// Group number.
        group: u32,
        /// Slot number.
        slot: u32,
    },
    /// A group.
    Group(u32),
    /// Marks the state the kernel is in: replaced in every transaction.
    State {
        /// Whose numbering it is.
        instance: u32,
        /// Number of the transaction.
        sequence: u32,
    },
    /// An endpoint talking to itself: (address . address . protocol . port).
    Hairpin {
        /// Address, on both sides.
        address: IpAddr,
        /// Protocol.
        protocol: Protocol,
        /// Endpoint port.
        port: u16,
    },
    /// The sources inside a prefix, in a list; in interval sets.
    Source {
        /// List number.
        list: u32,
        /// Prefix; of a packet its whole source address.
        range: IpNet,
    },
    /// A client of a Service address and port.
    Client {
        /// The client's address.
        client: IpAddr,
        /// Address.
        address: IpAddr,
        /// Protocol.
        protocol: Protocol,
        /// Port.
        port: u16,
    },
    /// An endpoint.
    EndpointId(EndpointId),
}

/// Number of an endpoint of a group; above all group numbers, so that none is taken for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndpointId(pub u32);

impl EndpointId {
    /// The smallest.
    pub const FIRST: Self = Self(1 << Route::GROUP_BITS);
}

/// Class and group of a frontend, packed as the kernel's rows hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route(pub u32);

impl Route {
    /// Bits of the group number; the class number sits above.
    pub const GROUP_BITS: u32 = 20;
    /// Mask of the group number.
    pub const GROUP_MASK: u32 = (1 << Self::GROUP_BITS) - 1;
    /// Mask of the class number.
    pub const CLASS_MASK: u32 = !Self::GROUP_MASK;
    /// Classes 1 to this; 0 is "none".
    pub const MAX_CLASS: u32 = (1 << (32 - Self::GROUP_BITS)) - 1;
    /// Groups 1 to this; 0 is "none".
    pub const MAX_GROUP: u32 = Self::GROUP_MASK;

    /// Packs both numbers; `None` when one is out of range.
    #[must_use]
    pub const fn new(class: u32, group: u32) -> Option<Self> {
        if class == 0 || class > Self::MAX_CLASS || group == 0 || group > Self::MAX_GROUP {
            return None;
        }
        Some(Self(class << Self::GROUP_BITS | group))
    }

    /// Class number.
    #[must_use]
    pub const fn class(self) -> u32 {
        self.0 >> Self::GROUP_BITS
    }

    /// Group number.
    #[must_use]
    pub const fn group(self) -> u32 {
        self.0 & Self::GROUP_MASK
    }
}

/// A datum, see [`DataType`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Datum {
    /// Nothing.
    None,
    /// Go to a chain.
    Goto(Name),
    /// Drop.
    Drop,
    /// Class and group.
    Route(Route),
    /// Endpoint.
    Endpoint {
        /// Address.
        address: IpAddr,
        /// Port.
        port: u16,
    },
    /// Number of a list of source ranges.
    List(u32),
    /// Endpoint.
    EndpointId(EndpointId),
    /// Endpoint that a client sticks to, and for how long: a row of a dynamic map.
    Stuck {
        /// Endpoint.
        endpoint: EndpointId,
        /// Lifetime in milliseconds, at least 1.
        milliseconds: u32,
    },
}

/// A rule at the end of a chain.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// Chain.
    pub chain: Name,
    /// Statements from left to right.
    pub statements: Vec<Statement>,
    /// Comment, at most 128 bytes.
    pub comment: Option<Name>,
}

/// A part of a concatenated key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Field {
    /// Source address.
    Saddr,
    /// Destination address.
    Daddr,
    /// Layer 4 protocol.
    L4Proto,
    /// Destination port of TCP, UDP and SCTP.
    Dport,
    /// `meta priority`, the scratch field, and-ed with a mask (all ones: as it is).
    Scratch {
        /// Mask.
        mask: u32,
    },
    /// A random number 0 … modulus - 1, plus offset (`numgen random`).
    Random {
        /// Modulus, at least 1.
        modulus: u32,
        /// Added to the number.
        offset: u32,
    },
}

/// One statement or match of a rule. A match that fails ends the rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Statement {
    /// `ct state new`
    CtStateNew,
    /// `ct status dnat`
    CtStatusDnat,
    /// `ip saddr [!=] prefix`
    Saddr {
        /// Prefix.
        prefix: IpNet,
        /// Match when *not* inside.
        invert: bool,
    },
    /// `ip daddr [!=] prefix`
    Daddr {
        /// Prefix.
        prefix: IpNet,
        /// Match when *not* inside.
        invert: bool,
    },
    /// `iifname [!=] name`, or its beginning.
    Iifname {
        /// Interface name.
        name: Name,
        /// Only the beginning must match (`name*`).
        prefix: bool,
        /// Match when it does *not*.
        invert: bool,
    },
    /// `meta l4proto protocol`
    L4Proto(Protocol),
    /// `fib saddr type local`
    FibSaddrLocal,
    /// `fib daddr type local`
    FibDaddrLocal,
    /// `meta mark & mask != 0`
    MarkSet {
        /// Bits, one of which must be set.
        mask: u32,
    },
    /// `meta mark set mark or bits`
    MarkOr {
        /// Bits.
        bits: u32,
    },
    /// `meta mark set mark xor bits`
    MarkXor {
        /// Bits.
        bits: u32,
    },
    /// `key [!=] @set`
    InSet {
        /// Key.
        key: Vec<Field>,
        /// Set.
        set: Name,
        /// Match when *not* inside.
        invert: bool,
    },
    /// `meta priority set key map @map`; ends the rule on a miss, leaving the scratch as it was.
    ScratchFromMap {
        /// Key.
        key: Vec<Field>,
        /// Map with [`DataType::Route`], [`DataType::List`] or [`DataType::EndpointId`].
        map: Name,
    },
    /// `meta priority set 0`
    ScratchReset,
    /// `meta priority set meta priority & mask`
    ScratchMask {
        /// Mask.
        mask: u32,
    },
    /// `meta priority set meta priority | bits`
    ScratchOr {
        /// Bits.
        bits: u32,
    },
    /// `meta priority & mask != 0`
    ScratchSet {
        /// Bits, one of which must be set.
        mask: u32,
    },
    /// `update @map { key timeout … : meta priority }`: adds the row, or restarts its lifetime and
    /// leaves its data as they are. Ends the rule if the map is full.
    Stick {
        /// Key.
        key: Vec<Field>,
        /// Dynamic map with [`DataType::EndpointId`].
        map: Name,
        /// Lifetime in seconds.
        seconds: u32,
    },
    /// `delete @map { key : meta priority }`: deletes the row, whatever its data.
    Unstick {
        /// Key.
        key: Vec<Field>,
        /// Dynamic map with [`DataType::EndpointId`].
        map: Name,
    },
    /// `key vmap @map`; ends the rule on a miss.
    VerdictMap {
        /// Key.
        key: Vec<Field>,
        /// Map with [`DataType::Verdict`].
        map: Name,
    },
    /// `meta priority set 0` and `dnat to key map @map`: looks the endpoint up, resets the scratch,
    /// then translates. Ends the rule on a miss, leaving the scratch as it was.
    Dnat {
        /// Key.
        key: Vec<Field>,
        /// Map with [`DataType::Endpoint`].
        map: Name,
    },
    /// `counter`: packets and bytes that got so far in the rule. Never ends it.
    Counter,
    /// `jump chain`
    Jump(Name),
    /// `goto chain`
    Goto(Name),
    /// `drop`
    Drop,
    /// `reject` with ICMP port unreachable.
    Reject,
    /// `masquerade fully-random`
    Masquerade,
}
