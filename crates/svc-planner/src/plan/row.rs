//! What rows of sets and maps hold: keys and data, and their layouts.

use core::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::Name;
use crate::object::Protocol;

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
///
/// In the two groups of a Service port, all endpoints and those of this node, an endpoint has the
/// same number but for one bit: rules set it or clear it before they look a client's endpoint up. So
/// a client goes on to it after a change of traffic policy, if it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndpointId(pub u32);

impl EndpointId {
    /// The smallest.
    pub const FIRST: Self = Self(1 << Route::GROUP_BITS);
    /// Set in numbers of groups of this node's endpoints.
    pub const LOCAL: u32 = 1 << 31;

    /// The number in the other group.
    #[must_use]
    pub const fn twin(self) -> Self {
        Self(self.0 ^ Self::LOCAL)
    }

    /// The number in the group of all endpoints.
    #[must_use]
    pub const fn base(self) -> Self {
        Self(self.0 & !Self::LOCAL)
    }
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
