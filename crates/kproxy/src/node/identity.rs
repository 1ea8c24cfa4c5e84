//! Which Node the host is.

use core::net::IpAddr;

use smallvec::SmallVec;
use svc_planner::object::{Change, Node};

/// The own Node, as far as it is known before its object is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Name of its object, and of its endpoints' nodeName. Empty: no endpoint is local.
    pub name: String,
    /// Nothing may be programmed before the object is known.
    pub is_needed: bool,
    /// Somebody gave the name, so that an object of that name is to be expected.
    pub is_named: bool,
}

impl Identity {
    /// What is known before any object is read: the host's addresses, and the Node that stands for the
    /// one that need not come.
    pub fn host(&self, addresses: Vec<IpAddr>) -> impl Iterator<Item = Change> {
        let node = (!self.is_needed).then(|| self.stand_in());
        node.into_iter().chain([Change::HostAddresses(addresses)])
    }

    /// A Node of which only the name is known.
    #[must_use]
    pub fn stand_in(&self) -> Change {
        Change::Node(Node {
            name: self.name.as_str().into(),
            addresses: SmallVec::new(),
            pod_cidrs: SmallVec::new(),
            zone: None,
            eligible: true,
        })
    }
}

/// The host's name, as Nodes are named after it.
#[must_use]
pub fn host_name() -> String {
    let uname = rustix::system::uname();
    uname.nodename().to_string_lossy().to_lowercase()
}
