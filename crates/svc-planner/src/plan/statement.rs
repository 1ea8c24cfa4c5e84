//! What rules say.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

#[cfg(doc)]
use super::DataType;
use super::Name;
use crate::object::Protocol;

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
