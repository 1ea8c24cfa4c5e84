//! One proxy after another on the same node: kube-proxy's table becomes ours, and ours kube-proxy's.

mod layout;
mod traffic;
mod world;

pub use layout::Layout;
pub use traffic::Traffic;
pub use world::{CLUSTER, Flows, Kproxy, World, echo};
