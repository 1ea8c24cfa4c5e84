//! A network of private namespaces in which packets really flow: for the demo and for tests.
//!
//! ```text
//!   client ──┐                                   one veth pair per host, /32 and /128 routes,
//!   pod ─────┤                                   fixed neighbours: no ARP, no address detection
//!   pod ─────┼── node (the rules live here) ── sink
//!   …    ────┘                                   the sink has the default route and answers for
//!                                                every address nobody else has
//! ```
//!
//! A namespace is held by a thread inside it and by an open file; nothing is mounted and no name is
//! taken, so all of it is gone when the [`Topology`] is dropped or the process ends, however it
//! ends. The exception is [`NamedNamespace`], which tests of `--netns` ask for.
//!
//! Works as root, or without any privilege after [`enter_user_namespace`].

mod address;
mod error;
mod error_queue;
mod evenness;
mod flow;
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
pub use error::LabError;
pub use evenness::Evenness;
pub use flow::Flow;
pub use namespace::{NamedNamespace, Namespace, NamespaceRef};
pub use probe::{Answer, Connection, Probe, Transport, Verdict};
pub use topology::{Host, SINK, Topology, TopologyBuilder};
pub use user::enter_user_namespace;
