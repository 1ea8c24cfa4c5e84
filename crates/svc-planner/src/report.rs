//! What the planner could not do, by name.

use core::fmt;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::object::{ObjectName, Protocol};

/// Name of a Service port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PortName {
    /// The Service.
    pub service: ObjectName,
    /// Port name, "" if unnamed.
    pub port: Box<str>,
    /// Protocol.
    pub protocol: Protocol,
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            service,
            port,
            protocol,
        } = self;
        let protocol = match protocol {
            Protocol::Tcp => "TCP",
            Protocol::Udp => "UDP",
            Protocol::Sctp => "SCTP",
        };
        write!(f, "{}/{}", service.namespace, service.name)?;
        if !port.is_empty() {
            write!(f, ":{port}")?;
        }
        write!(f, "/{protocol}")
    }
}

/// Something about configuration and Node that is in force, but is hardly meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Notice {
    /// Nothing names an address of the family.
    #[error(
        "node ports are served on all addresses: the node port addresses name none of this family"
    )]
    NodePortsEverywhere,
    /// `primary` is all there is, and the Node has no address of the family.
    #[error("node ports are served on all addresses: the Node has no address of this family")]
    NoPrimaryAddress,
    /// There is nothing to tell pods by.
    #[error(
        "local traffic is not told from other: {0}; no ClusterIP is masqueraded, and with external \
             traffic policy Local pods reach no endpoint elsewhere"
    )]
    NoLocalDetector(Missing),
}

/// What is missing to tell local traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Missing {
    /// Mode `ClusterCIDR`.
    #[error("no cluster CIDR of this family")]
    ClusterCidr,
    /// Mode `NodeCIDR`.
    #[error("the Node has no pod CIDR of this family")]
    PodCidr,
    /// Modes `BridgeInterface` and `InterfaceNamePrefix`.
    #[error("no interface name")]
    Interface,
}

/// A Service port that is not, or not fully, served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Report {
    /// Which one.
    pub port: PortName,
    /// Why.
    pub reason: Reason,
}

/// Why a Service port is not, or not fully, served.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Reason {
    /// Another Service claims the same address and port and is older, or first by name.
    #[error("{address}:{number} belongs to {winner}")]
    AddressTaken {
        /// Address.
        address: IpAddr,
        /// Port number.
        number: u16,
        /// Who serves it.
        winner: PortName,
    },
    /// Another Service claims the same node port and is older, or first by name.
    #[error("node port {number} belongs to {winner}")]
    NodePortTaken {
        /// Port number.
        number: u16,
        /// Who serves it.
        winner: PortName,
    },
    /// All class numbers are in use.
    #[error("no chain left for {slots} endpoints")]
    NoClass {
        /// Endpoints of the port.
        slots: u32,
    },
    /// Clients stick longer than is asked for: there are too many different times.
    #[error("clients stick for {used} s, not {asked} s: too many different times")]
    AffinityTimeout {
        /// What the Service asks for, in seconds.
        asked: u32,
        /// What is used, in seconds.
        used: u32,
    },
    /// All group numbers are in use.
    #[error("no group number left")]
    NoGroup,
    /// A map would exceed its greatest size.
    #[error("map {map} is full")]
    MapFull {
        /// Which one.
        map: &'static str,
    },
    /// Source ranges are given, none of them of this family: they name others, so nobody of this
    /// family is admitted.
    #[error("all source ranges are of the other family: load-balancer addresses admit nobody")]
    SourceRangesOfOtherFamily,
    /// There would be more source ranges than are allowed, in all or in the Service's namespace.
    #[error("no room for its source ranges: load-balancer addresses admit nobody")]
    SourceRangesFull,
    /// The kernel refused it; tried again when the Service or its endpoints change.
    #[error("refused by the kernel")]
    SetAside,
}

impl Reason {
    /// Names of all reasons.
    pub const NAMES: [&str; 9] = [
        "AddressTaken",
        "NodePortTaken",
        "NoClass",
        "AffinityTimeout",
        "NoGroup",
        "MapFull",
        "SourceRangesOfOtherFamily",
        "SourceRangesFull",
        "SetAside",
    ];

    /// A name for metrics and events.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        let position = match self {
            Self::AddressTaken { .. } => 0,
            Self::NodePortTaken { .. } => 1,
            Self::NoClass { .. } => 2,
            Self::AffinityTimeout { .. } => 3,
            Self::NoGroup => 4,
            Self::MapFull { .. } => 5,
            Self::SourceRangesOfOtherFamily => 6,
            Self::SourceRangesFull => 7,
            Self::SetAside => 8,
        };
        Self::NAMES[position]
    }
}
