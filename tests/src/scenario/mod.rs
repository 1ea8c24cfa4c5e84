//! Packet scenarios: files that say which hosts there are, which manifests are applied step by
//! step, and what becomes of probes.
//!
//! Each file is run twice, for IPv4 and IPv6: `$(name)` stands for the address of that family given
//! under `addresses`, `$(addressType)` for `IPv4` or `IPv6`.

mod expect;
mod explained;
mod file;
mod flows;
mod matrix;
mod run;

pub use expect::{Expected, Target};
pub use file::{Case, DetectLocalMode, Family, NodeSpec, Opened, Scenario, Sent, SourceSeen, Step};
pub(crate) use flows::{Flows, SETTLING, WATCHED};
pub(crate) use run::served;
pub use run::{run, run_confined};
