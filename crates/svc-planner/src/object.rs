//! What the planner is told: API objects reduced to what balancing needs. Parsing, defaulting and
//! complaints about bad fields are the caller's; everything here is already valid.

use core::fmt;
use core::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

/// Seconds since the Unix epoch.
pub type Seconds = u64;

/// Nanoseconds since the Unix epoch.
pub type UnixNanos = u64;

/// `metadata.uid`, a UUID in network byte order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Uid(pub [u8; 16]);

impl Uid {
    /// Reads 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12, as the API server writes them.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 36 || [8, 13, 18, 23].iter().any(|&dash| text[dash] != b'-') {
            return None;
        }
        let mut digits = text.iter().filter(|&&byte| byte != b'-');
        let mut uid = [0; 16];
        for byte in &mut uid {
            for _ in 0..2 {
                let digit = char::from(*digits.next()?).to_digit(16)?;
                *byte = *byte << 4 | u8::try_from(digit).ok()?;
            }
        }
        digits.next().is_none().then_some(Self(uid))
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Layer 4 protocol; the number is the IP protocol number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
#[repr(u8)]
#[non_exhaustive]
pub enum Protocol {
    /// TCP, 6.
    Tcp = 6,
    /// UDP, 17.
    Udp = 17,
    /// SCTP, 132.
    Sctp = 132,
}

/// Namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectName {
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
}

/// One change of the cluster's state, as delivered by a watch or a folder of manifests.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Change {
    /// A Service was added or changed.
    Service(Service),
    /// A Service is gone, or is none of ours any more (ExternalName, headless, foreign proxy).
    ServiceGone(ObjectName),
    /// An EndpointSlice was added or changed.
    EndpointSlice(EndpointSlice),
    /// An EndpointSlice is gone.
    EndpointSliceGone(ObjectName),
    /// The own Node was added or changed.
    Node(Node),
    /// The own Node is gone.
    NodeGone,
    /// A ServiceCIDR was added or changed.
    ServiceCidr {
        /// Object name.
        name: Box<str>,
        /// Its CIDRs of any family.
        cidrs: SmallVec<[IpNet; 2]>,
    },
    /// A ServiceCIDR is gone.
    ServiceCidrGone(Box<str>),
    /// All addresses of this host's interfaces, any family.
    HostAddresses(Vec<IpAddr>),
}

/// Traffic policy, internal or external.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum TrafficPolicy {
    /// Any endpoint.
    #[default]
    Cluster,
    /// Endpoints of this node only.
    Local,
}

/// How an endpoint is chosen for a new connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Algorithm {
    /// Uniformly at random (`numgen random`).
    #[default]
    Random,
}

/// A Service that this proxy serves: it has a ClusterIP and is neither headless nor ExternalName.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    /// Namespace and name.
    pub name: ObjectName,
    /// `metadata.creationTimestamp`; decides between Services that claim the same frontend
    /// (oldest wins, then namespace/name). Absent counts as newest.
    pub created: Option<Seconds>,
    /// `metadata.uid`; manifests have none.
    pub uid: Option<Uid>,
    /// Its ClusterIPs of any family.
    pub cluster_ips: SmallVec<[IpAddr; 2]>,
    /// `spec.externalIPs`.
    pub external_ips: SmallVec<[IpAddr; 1]>,
    /// `status.loadBalancer.ingress[].ip` whose ipMode is VIP or absent.
    pub load_balancer_ips: SmallVec<[IpAddr; 1]>,
    /// `spec.loadBalancerSourceRanges`; empty means unrestricted.
    pub source_ranges: SmallVec<[IpNet; 1]>,
    /// `spec.internalTrafficPolicy`.
    pub internal_policy: TrafficPolicy,
    /// `spec.externalTrafficPolicy`.
    pub external_policy: TrafficPolicy,
    /// ClientIP affinity timeout in seconds; `None` is no affinity.
    pub affinity: Option<u32>,
    /// `spec.healthCheckNodePort`, 0 if none; counts with external policy Local only.
    pub health_check_node_port: u16,
    /// Balancing method.
    pub algorithm: Algorithm,
    /// `spec.ports`.
    pub ports: SmallVec<[ServicePort; 2]>,
}

/// One port of a Service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Port name, "" if unnamed; EndpointSlice ports are matched by it and the protocol.
    pub name: Box<str>,
    /// Protocol.
    pub protocol: Protocol,
    /// Port of the Service's addresses.
    pub port: u16,
    /// Node port, 0 if none.
    pub node_port: u16,
}

/// An EndpointSlice with a Service label and an IP address type.
#[derive(Debug, Clone, PartialEq)]
pub struct EndpointSlice {
    /// Namespace and name of the slice.
    pub name: ObjectName,
    /// Label `kubernetes.io/service-name`; the Service is in the same namespace.
    pub service: Box<str>,
    /// When what this tells happened (annotation `endpoints.kubernetes.io/last-change-trigger-time`).
    /// The mailbox collects those of the changes that it merges.
    pub triggers: SmallVec<[UnixNanos; 1]>,
    /// Ports; an endpoint serves each of them.
    pub ports: SmallVec<[SlicePort; 2]>,
    /// Endpoints.
    pub endpoints: Vec<Endpoint>,
}

/// One port of an EndpointSlice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SlicePort {
    /// Name, "" if null.
    pub name: Box<str>,
    /// Protocol, TCP if null.
    pub protocol: Protocol,
    /// Number; slices' ports without one never get here.
    pub port: u16,
}

/// One endpoint of an EndpointSlice.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// First address.
    pub address: IpAddr,
    /// Condition `ready`, null = true.
    pub ready: bool,
    /// Condition `serving`, null = true.
    pub serving: bool,
    /// Condition `terminating`, null = false.
    pub terminating: bool,
    /// `nodeName`.
    pub node: Option<Box<str>>,
    /// `hints.forZones[].name`.
    pub zone_hints: SmallVec<[Box<str>; 1]>,
    /// `hints.forNodes[].name`.
    pub node_hints: SmallVec<[Box<str>; 1]>,
    /// Share of new connections relative to the Service's other endpoints.
    pub weight: u16,
}

/// The own Node.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// Name.
    pub name: Box<str>,
    /// Node IPs in order of preference (InternalIP before ExternalIP), any family.
    pub addresses: SmallVec<[IpAddr; 2]>,
    /// `spec.podCIDRs`.
    pub pod_cidrs: SmallVec<[IpNet; 2]>,
    /// Label `topology.kubernetes.io/zone`.
    pub zone: Option<Box<str>>,
    /// It may be sent traffic: it is neither being deleted nor about to be removed by the cluster
    /// autoscaler (taint `ToBeDeletedByClusterAutoscaler`).
    pub eligible: bool,
}

impl Node {
    /// Makes `address` the only one of its family, and the first of all. An unspecified one changes
    /// nothing.
    pub(crate) fn bind(&mut self, address: IpAddr) {
        if address.is_unspecified() {
            return;
        }
        self.addresses
            .retain(|other| other.is_ipv4() != address.is_ipv4());
        self.addresses.insert(0, address);
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    #[test]
    fn uids_are_read_as_they_are_written() {
        let text = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0";
        assert_eq!(Uid::parse(text).unwrap().to_string(), text);
        for wrong in [
            "",
            "0f1e2d3c4b5a69788796a5b4c3d2e1f0",
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1fg",
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1-0",
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1ü",
        ] {
            assert_eq!(Uid::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bind_address_replaces_those_of_its_family() {
        let bound = |address: &str| {
            let ips = ["192.0.2.1", "192.0.2.2", "2001:db8::1"];
            let mut node = Node {
                name: "here".into(),
                addresses: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
                pod_cidrs: smallvec![],
                zone: None,
                eligible: true,
            };
            node.bind(address.parse().unwrap());
            let ips: Vec<_> = node.addresses.iter().map(ToString::to_string).collect();
            ips.join(" ")
        };
        assert_eq!(bound("0.0.0.0"), "192.0.2.1 192.0.2.2 2001:db8::1");
        assert_eq!(bound("192.0.2.9"), "192.0.2.9 2001:db8::1");
        assert_eq!(bound("::1"), "::1 192.0.2.1 192.0.2.2");
    }
}
