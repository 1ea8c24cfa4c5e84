use core::fmt;
use core::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::object::Protocol;
use crate::plan::{Datum, EndpointId, Family, Hook, Key, Name};

/// The first packet of a connection, as it arrives at or leaves this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Source address.
    pub saddr: IpAddr,
    /// Destination address, of the same family.
    pub daddr: IpAddr,
    /// Protocol and ports.
    pub transport: Transport,
    /// Where it comes from.
    pub origin: Origin,
    /// Packet mark on arrival.
    pub mark: u32,
}

impl Packet {
    /// A packet that arrived on an interface.
    #[must_use]
    pub fn arriving(
        interface: &str,
        saddr: IpAddr,
        daddr: IpAddr,
        protocol: Protocol,
        port: u16,
    ) -> Self {
        let transport = Transport::Ports {
            protocol,
            source: 40_000,
            destination: port,
        };
        let origin = Origin::Interface(Arc::from(interface));
        Self {
            saddr,
            daddr,
            transport,
            origin,
            mark: 0,
        }
    }

    /// A packet of a local process.
    #[must_use]
    pub const fn local(saddr: IpAddr, daddr: IpAddr, protocol: Protocol, port: u16) -> Self {
        let transport = Transport::Ports {
            protocol,
            source: 40_000,
            destination: port,
        };
        Self {
            saddr,
            daddr,
            transport,
            origin: Origin::Local,
            mark: 0,
        }
    }

    /// Its family, by the destination.
    #[must_use]
    pub const fn family(&self) -> Family {
        Family::of(self.daddr)
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.transport {
            Transport::Ports {
                protocol,
                source,
                destination,
            } => {
                let from = Endpoint {
                    address: self.saddr,
                    port: source,
                };
                let to = Endpoint {
                    address: self.daddr,
                    port: destination,
                };
                write!(f, "{protocol} {from} -> {to}")?;
            }
            Transport::Other(number) => {
                write!(f, "protocol {number} {} -> {}", self.saddr, self.daddr)?;
            }
        }
        match &self.origin {
            Origin::Local => f.write_str(" from a local process"),
            Origin::Interface(name) => write!(f, " from {name}"),
        }
    }
}

/// Layer 4 of a [`Packet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// TCP, UDP or SCTP.
    Ports {
        /// Protocol.
        protocol: Protocol,
        /// Source port.
        source: u16,
        /// Destination port.
        destination: u16,
    },
    /// Another protocol, by its IP protocol number.
    Other(u8),
}

/// Where a [`Packet`] comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It arrives on this interface.
    Interface(Name),
    /// A process of this host sends it.
    Local,
}

/// What the host answers when rules and routing ask.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Host {
    /// Prefixes of local addresses (`fib … type local`); a node's are /32 or /128, and loopback
    /// belongs to them.
    pub local: Vec<IpNet>,
}

impl Host {
    /// A host with these addresses, and loopback.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let loopback = [
            IpNet::V4(ipnet::Ipv4Net::new_assert(
                core::net::Ipv4Addr::new(127, 0, 0, 0),
                8,
            )),
            IpNet::from(IpAddr::V6(core::net::Ipv6Addr::LOCALHOST)),
        ];
        Self {
            local: loopback
                .into_iter()
                .chain(addresses.into_iter().map(IpNet::from))
                .collect(),
        }
    }

    /// Whether an address is one of this host's.
    #[must_use]
    pub fn is_local(&self, address: &IpAddr) -> bool {
        self.local.iter().any(|prefix| prefix.contains(address))
    }
}

/// Address and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Endpoint {
    /// Address.
    pub address: IpAddr,
    /// Port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&core::net::SocketAddr::new(self.address, self.port), f)
    }
}

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// Sent on to an endpoint.
    Delivered {
        /// Where to.
        endpoint: Endpoint,
        /// Its source became an address of this host.
        masqueraded: bool,
    },
    /// Answered with an ICMP error.
    Rejected,
    /// Gone.
    Dropped,
    /// Sent on with the destination it had: conntrack remembers it as not translated.
    Untouched {
        /// Its source became an address of this host.
        masqueraded: bool,
    },
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let masquerade = |yes: bool| if yes { ", masqueraded" } else { "" };
        match self {
            Self::Delivered {
                endpoint,
                masqueraded,
            } => {
                write!(f, "delivered to {endpoint}{}", masquerade(*masqueraded))
            }
            Self::Rejected => f.write_str("rejected"),
            Self::Dropped => f.write_str("dropped"),
            Self::Untouched { masqueraded } => write!(f, "untouched{}", masquerade(*masqueraded)),
        }
    }
}

/// A packet's way and end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The end.
    pub verdict: Verdict,
    /// `meta priority` at the end; it was 0.
    pub scratch: u32,
    /// Packet mark at the end.
    pub mark: u32,
    /// Rules and rows used, in order.
    pub trace: Vec<Step>,
}

/// Something that happened to a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// It entered a base chain.
    Hook {
        /// Hook.
        hook: Hook,
        /// Base chain.
        chain: Name,
    },
    /// It was sent on to a chain.
    Chain {
        /// Chain.
        chain: Name,
    },
    /// All matches of a rule held, up to its end or to the statement that ended the chain.
    Rule {
        /// Chain.
        chain: Name,
        /// Index of the rule.
        index: usize,
    },
    /// A set or map was looked up.
    Lookup {
        /// Set.
        set: Name,
        /// Key.
        key: Key,
        /// Row found.
        found: Option<Datum>,
        /// First generation at which the answer was this one, or that the packet had seen.
        generation: u64,
    },
    /// A row of a dynamic map was added, or its lifetime restarted.
    Stuck {
        /// Map.
        map: Name,
        /// Key.
        key: Key,
        /// What the row would hold if it is new.
        endpoint: EndpointId,
    },
    /// A random number was drawn.
    Number {
        /// The number, offset included.
        number: u32,
        /// Of how many.
        modulus: u32,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hook { hook, chain } => write!(f, "{hook}: {chain}"),
            Self::Chain { chain } => write!(f, "chain {chain}"),
            Self::Rule { chain, index } => write!(f, "rule {index} of {chain}"),
            Self::Lookup {
                set,
                key,
                found,
                generation,
            } => {
                write!(f, "@{set} {{ {key} }} ")?;
                match found {
                    None => f.write_str("missing")?,
                    Some(Datum::None) => f.write_str("found")?,
                    Some(datum) => write!(f, ": {datum}")?,
                }
                write!(f, " (generation {generation})")
            }
            Self::Stuck { map, key, endpoint } => {
                write!(f, "update @{map} {{ {key} : {endpoint} }}")
            }
            Self::Number { number, modulus } => write!(f, "random {number} of {modulus}"),
        }
    }
}
