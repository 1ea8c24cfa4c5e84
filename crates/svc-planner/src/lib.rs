//! Pure planner: from Services, EndpointSlices, the own Node and ServiceCIDRs to the wanted
//! nf_tables state, and from each change to the smallest transaction.
//!
//! No I/O, no clock, no threads: time is an argument, the same inputs give the same plan. One
//! [`Planner`](crate) serves one IP family; two families share nothing.
//!
//! ```text
//! object::Change ──> model (slim arenas, dirty Service ports)
//!                      └─> policy (which endpoints, which frontends)
//!                            └─> plan::Transaction, plan::Transaction, … ──> (kproxy lowers, commits)
//! ```
#![forbid(unsafe_code)]

pub mod config;
pub mod display;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod object;
pub mod plan;
pub mod report;

mod kernel;
mod model;
mod planner;
mod planning;
mod policy;

pub use config::Config;
pub use planner::{Inventory, Next, Planner, RestoreError, Snapshot};
