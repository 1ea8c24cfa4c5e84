//! The same objects and the same probes for the real kube-proxy and for ours, each in a node of its
//! own with the same wiring. What becomes of every probe is compared, as a set over many tries: who
//! answered, where, which source address was seen; or how it was refused, or that it was not.
//!
//! A difference is a bug of ours unless a row of docs/DIFFERENCES.md excuses it.

mod campaign;
mod cluster;
mod excuse;
mod flows;
mod observe;
mod ours;
mod random;
mod run;
mod trial;
mod watch;

pub use campaign::{Campaign, scenario_files};
pub use cluster::Cluster;
pub use excuse::{Difference, Excuses};
pub use observe::Outcomes;
pub use ours::{Kproxy, Replaced};
pub use random::{History, histories};
pub use run::{Report, run};
pub use trial::{Check, Trial, TrialStep};
