//! Pure planner: from Services, EndpointSlices, the own Node and ServiceCIDRs to the wanted
//! nf_tables state, and from each change to the smallest transaction.
//!
//! No I/O, no clock, no threads: time is an argument, the same inputs give the same plan. One
//! [`Planner`] serves one IP family; two families share nothing.
//!
//! ```text
//! object::Change ──> model      what is wanted: slim arenas, ports to plan
//!                      │  policy   which endpoints, which frontends
//!                      v
//!                    planning   wanted against held, make before break
//!                      │  kernel   what the table holds: groups, slots, classes, sets
//!                      v
//!                    plan::Transaction, one at a time ──> (kproxy lowers and commits it)
//!                      ^                                      │
//!                      └── committed, rejected ───────────────┘
//! ```
//!
//! ```
//! use core::time::Duration;
//! use svc_planner::object::{Change, Node};
//! use svc_planner::plan::Family;
//! use svc_planner::{Config, Next, Planner};
//!
//! let mut planner = Planner::new(Family::Ipv4, Config::default());
//! planner.apply(Change::Node(Node {
//!     name: "node-1".into(),
//!     addresses: ["192.0.2.1".parse().unwrap()].into_iter().collect(),
//!     pod_cidrs: Default::default(),
//!     zone: None,
//! }));
//! let now = Duration::ZERO;
//! while let Next::Commit(transaction) = planner.next(now) {
//!     assert!(transaction.rows() > 0); // Here it would go to the kernel.
//!     planner.committed(now);
//! }
//! assert_eq!(planner.next(now), Next::Idle);
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
