//! What the planner is configured with.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::object::Protocol;
use crate::plan::{Family, Name, Route};

/// Settings of a [`Planner`](crate::Planner).
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// Name of the own Node; endpoints with this `nodeName` are local.
    pub node_name: Box<str>,
    /// Bit of the packet mark that asks for masquerading, 0 to 31 (`iptables.masqueradeBit`).
    pub masquerade_bit: u8,
    /// Masquerade all traffic to ClusterIPs.
    pub masquerade_all: bool,
    /// Which sources count as pods of this node or cluster.
    pub local: LocalDetector,
    /// The node's address of its family, instead of what the Node says (`bindAddress`). An unspecified
    /// one means nothing; a loopback address, that the node has none of the family.
    pub bind_address: Option<IpAddr>,
    /// Where node ports are served.
    pub node_port_addresses: NodePortAddresses,
    /// What becomes of connections to node ports at loopback addresses.
    pub localhost_node_ports: LocalhostNodePorts,
    /// Serve external IPs of Services (feature gate `AllowServiceExternalIPs`).
    pub external_ips: bool,
    /// What becomes of connections to a ClusterIP of internalTrafficPolicy Local whose endpoints are all
    /// on other nodes.
    pub no_local_endpoint: NoLocalEndpoint,
    /// Rows after which a transaction is closed; one Service port may exceed it.
    pub chunk: usize,
    /// How long a row, slot, chain or map outlives the commit that stopped its use: a packet may
    /// still be on its way through it.
    pub hold: Duration,
    /// How long a new chain rests before the first row leads to it.
    pub settle: Duration,
    /// Look the frontend up a second time when the first lookup missed. For kernels before 6.17,
    /// on which a lookup may find neither the old nor the new row of a replacement.
    pub repeat_lookup: bool,
    /// Upper bound of any map's size.
    pub max_rows: u32,
    /// Room for so many clients that stick to endpoints, in a table that is yet to be made. When it is
    /// reached, new clients are served but not remembered. About 90 bytes of the kernel's memory for
    /// each client that is remembered.
    pub max_affinity_clients: u32,
    /// Upper bound of the number of classes (chains shared by Services with the same number of
    /// endpoints), at most [`Route::MAX_CLASS`]. A commit's cost grows with it. When it is reached,
    /// a Service is balanced over some of its endpoints only, and reported.
    pub max_classes: u32,
    /// Tell of the flows of SCTP Service ports as of those of UDP ones, see [`crate::flows`].
    pub reconcile_sctp: bool,
    /// Upper bound of the number of source ranges of all Services; a namespace is given half of
    /// them at most. The kernel's time per new connection to a restricted address grows with it.
    pub max_source_ranges: u32,
    /// A number that tells this numbering of kernel states from earlier ones, e.g. random.
    pub instance: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            node_name: Box::default(),
            masquerade_bit: 14,
            masquerade_all: false,
            local: LocalDetector::None,
            bind_address: None,
            node_port_addresses: NodePortAddresses::PRIMARY,
            localhost_node_ports: LocalhostNodePorts::Off,
            external_ips: true,
            no_local_endpoint: NoLocalEndpoint::Drop,
            chunk: 16_000,
            hold: Duration::from_secs(1),
            settle: Duration::from_millis(5),
            repeat_lookup: false,
            max_rows: 3 << 23,
            max_affinity_clients: 1 << 18,
            max_classes: Route::MAX_CLASS,
            reconcile_sctp: false,
            max_source_ranges: 1 << 16,
            instance: 0,
        }
    }
}

/// What becomes of connections to a ClusterIP whose policy, Local, leaves no endpoint. KEP-2086 and
/// kube-proxy drop them, so that clients wait for an endpoint that is about to come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NoLocalEndpoint {
    /// Dropped without an answer, as kube-proxy does.
    #[default]
    Drop,
    /// Rejected with ICMP port unreachable, as if there were no endpoint on any node: clients that have
    /// another address to try need not wait for a timeout.
    Reject,
}

/// How local sources are recognised (`detectLocalMode`).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalDetector {
    /// Not at all.
    #[default]
    None,
    /// By source address (`ClusterCIDR`).
    Cidr(IpNet),
    /// By source address: the first pod CIDR of the own Node (`NodeCIDR`).
    NodeCidr,
    /// By input interface (`BridgeInterface`).
    Iifname(Name),
    /// By the beginning of the input interface's name (`InterfaceNamePrefix`).
    IifnamePrefix(Name),
}

/// On which addresses node ports are served (`nodePortAddresses`): on all that any of these names.
/// If nothing names an address of a family, that family serves them on all addresses, as kube-proxy
/// does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodePortAddresses {
    /// The Node's first address of the family (`primary`), if an interface of the host has it.
    pub primary: bool,
    /// All local addresses but loopback (`all`).
    pub all: bool,
    /// Loopback addresses (`localhost`), of both families. No rule serves them.
    pub localhost: bool,
    /// Host addresses inside these prefixes, but loopback. One of length 0 is `all` of its family.
    pub prefixes: Vec<IpNet>,
}

impl NodePortAddresses {
    /// Nothing named.
    pub const NONE: Self = Self {
        primary: false,
        all: false,
        localhost: false,
        prefixes: Vec::new(),
    };
    /// `primary` alone, the default.
    pub const PRIMARY: Self = Self {
        primary: true,
        all: false,
        localhost: false,
        prefixes: Vec::new(),
    };
    /// `all`.
    pub const ALL: Self = Self {
        primary: false,
        all: true,
        localhost: false,
        prefixes: Vec::new(),
    };

    /// Prefixes alone.
    #[must_use]
    pub const fn prefixes(prefixes: Vec<IpNet>) -> Self {
        Self {
            primary: false,
            all: false,
            localhost: false,
            prefixes,
        }
    }

    /// The loopback address of a family, if any of them names it.
    pub(crate) fn loopback(&self, family: Family) -> Option<IpAddr> {
        let loopback: IpAddr = match family {
            Family::Ipv4 => Ipv4Addr::LOCALHOST.into(),
            Family::Ipv6 => Ipv6Addr::LOCALHOST.into(),
        };
        let is_named = self.localhost || self.prefixes.iter().any(|it| it.contains(&loopback));
        is_named.then_some(loopback)
    }
}

impl Default for NodePortAddresses {
    fn default() -> Self {
        Self::PRIMARY
    }
}

/// What becomes of connections to node ports at loopback addresses, which cannot be translated to
/// other hosts (KEP-6032, gate `KubeProxyNFTablesLocalhostNodePorts`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum LocalhostNodePorts {
    /// Nothing: they reach whatever listens there.
    #[default]
    Off,
    /// A process of ours listens on those of TCP
    /// ([`Planner::take_listener_changes`](crate::Planner::take_listener_changes)); others are
    /// counted and rejected.
    Proxied,
    /// All are counted and rejected.
    Rejected,
}

impl LocalhostNodePorts {
    /// Protocols of node ports that are rejected there.
    #[must_use]
    pub const fn rejected(self) -> &'static [Protocol] {
        match self {
            Self::Off => &[],
            Self::Proxied => &[Protocol::Udp, Protocol::Sctp],
            Self::Rejected => &[Protocol::Tcp, Protocol::Udp, Protocol::Sctp],
        }
    }
}
