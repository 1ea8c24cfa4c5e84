#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod address;
mod association;
mod error;
mod error_queue;
mod evenness;
mod flow;
mod ipv6;
mod namespace;
mod netlink;
mod packet_info;
mod probe;
mod responder;
mod sctp;
mod socket;
mod sysctl;
mod topology;
mod user;

pub use address::{add_address, remove_address};
pub use association::Association;
pub use error::LabError;
pub use evenness::Evenness;
pub use flow::Flow;
pub use ipv6::has_ipv6;
pub use namespace::{NamedNamespace, Namespace, NamespaceRef};
pub use probe::{Answer, Connection, Probe, Transport, Verdict};
pub use topology::{Host, SINK, Topology, TopologyBuilder};
pub use user::enter_user_namespace;
