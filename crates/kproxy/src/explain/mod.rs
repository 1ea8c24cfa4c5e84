//! What becomes of a new connection, and why: from the state that manifests lead to, or from the
//! kernel read by key.
//!
//! ```text
//! manifests ──> planners ──transactions──> svc_planner::fake::Kernel ──┐
//!                                                                      ├─> every way ──> Explanation
//! live table ── rules, and rows by key ──> svc_planner::fake::Kernel ──┘
//! ```
//! Both are decided by one evaluator of the planner's statements, so what it says is what the rules
//! say, whatever they are.

mod decide;
mod endpoints;
mod known;
mod live;
mod objects;
mod planned;
mod reason;
mod source;
mod text;
mod twice;

pub use decide::explain;
pub use known::Known;
pub use live::{LiveError, LiveState};
pub use objects::Objects;
pub use planned::{Planned, PlannedError};
pub use text::text;

use core::net::{IpAddr, SocketAddr};

use serde::Serialize;
use svc_planner::fake::{Host, Origin, Packet, Transport};
use svc_planner::object::{Protocol, TrafficPolicy};
use svc_planner::plan::Family;

/// Which new connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// Source address.
    pub from: IpAddr,
    /// Source port, if it is to be a certain one.
    pub from_port: Option<u16>,
    /// Destination.
    pub to: SocketAddr,
    /// Protocol.
    pub protocol: Protocol,
    /// Interface it arrives on; without one a source of this node's sends it itself.
    pub interface: Option<String>,
}

impl Question {
    /// The family of the table that decides.
    #[must_use]
    pub const fn family(&self) -> Family {
        Family::of(self.to.ip())
    }

    /// Its first packet, as `host` sees it.
    #[must_use]
    pub fn packet(&self, host: &Host) -> Packet {
        let origin = match &self.interface {
            Some(name) => Origin::Interface(name.as_str().into()),
            None if host.is_local(&self.from) => Origin::Local,
            // No interface has this name, so it is no pod's.
            None => Origin::Interface("".into()),
        };
        Packet {
            saddr: self.from,
            daddr: self.to.ip(),
            transport: Transport::Ports {
                protocol: self.protocol,
                source: self.from_port.unwrap_or(40_000),
                destination: self.to.port(),
            },
            origin,
            mark: 0,
        }
    }
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The question.
    pub question: Question,
    /// The node itself sends it.
    pub from_this_node: bool,
    /// Where rules and rows come from.
    pub state: StateSource,
    /// What becomes of it.
    pub decision: Decision,
    /// Why.
    pub why: String,
    /// What it is addressed to, if that is a Service's.
    pub service: Option<Target>,
    /// Where it may go.
    pub endpoints: Vec<EndpointShare>,
    /// Endpoints of the Service port to which it does not go.
    pub unused: Vec<UnusedEndpoint>,
    /// Whether the endpoint sees an address of this node as its source.
    pub source: Option<SourceAddress>,
    /// What else to know.
    pub notes: Vec<String>,
    /// Every way through the rules.
    pub ways: Vec<Way>,
}

/// Where rules and rows come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StateSource {
    /// What manifests lead to.
    Planned,
    /// The kernel.
    Live,
}

/// What becomes of a connection. In order of badness: of several the worst counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// It goes to an endpoint.
    Endpoint,
    /// It goes on as it was sent.
    Untouched,
    /// Answered with ICMP port unreachable.
    Rejected,
    /// Gone without an answer.
    Dropped,
}

/// A Service's address and port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// `namespace/name:port/protocol`; absent when only the kernel was asked and nothing says whose
    /// it is.
    pub port: Option<String>,
    /// What kind of address it is.
    pub kind: Option<FrontendKind>,
    /// Traffic policy that counts for it.
    pub policy: Option<TrafficPolicy>,
    /// Seconds of ClientIP affinity.
    pub affinity: Option<u32>,
    /// Class and group numbers, if a row leads on.
    pub route: Option<RouteNumbers>,
}

/// Kind of a Service's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum FrontendKind {
    /// `spec.clusterIPs`.
    ClusterIp,
    /// `spec.externalIPs`.
    ExternalIp,
    /// `status.loadBalancer.ingress`.
    LoadBalancer,
    /// `spec.ports[].nodePort`.
    NodePort,
}

impl FrontendKind {
    /// What it is called, with its article.
    const fn with_article(self) -> &'static str {
        match self {
            Self::ClusterIp => "a ClusterIP",
            Self::ExternalIp => "an external IP",
            Self::LoadBalancer => "a load-balancer IP",
            Self::NodePort => "a node port",
        }
    }
}

/// Class and group of a frontend's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RouteNumbers {
    /// Which chain.
    pub class: u32,
    /// Which endpoints.
    pub group: u32,
}

/// An endpoint that may be chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EndpointShare {
    /// Address and port.
    pub endpoint: SocketAddr,
    /// Probability.
    pub share: f64,
    /// Its source becomes an address of this node.
    pub masqueraded: bool,
    /// `nodeName`.
    pub node: Option<String>,
    /// On this node.
    pub here: bool,
    /// Chosen although it is about to end, for want of better ones.
    pub terminating: bool,
}

/// An endpoint that is not chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusedEndpoint {
    /// Address and port.
    pub endpoint: SocketAddr,
    /// `nodeName`.
    pub node: Option<String>,
    /// Why not.
    pub why: String,
}

/// What an endpoint sees as the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceAddress {
    /// It becomes an address of this node.
    pub masqueraded: bool,
    /// Why.
    pub why: String,
}

/// One way through the rules.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Way {
    /// Its end.
    pub end: String,
    /// Probability.
    pub share: f64,
    /// Packet mark at the end.
    pub mark: u32,
    /// Chains, rules and rows, in order.
    pub steps: Vec<String>,
}
