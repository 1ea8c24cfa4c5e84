#![doc = include_str!("../README.md")]
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
#![forbid(unsafe_code)]

pub mod clients;
pub mod config;
pub mod display;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod flows;
pub mod listeners;
pub mod mailbox;
pub mod object;
pub mod plan;
pub mod report;

mod clock;
mod kernel;
mod model;
mod planner;
mod planning;
mod policy;
mod sync;

pub use config::Config;
pub use planner::{
    EndpointDetail, ExpectedRow, ExpectedSet, FrontendDetail, LiveSnapshot, Narrowed, Next,
    Planner, RestoreError, RowCursor, ServiceDetail, ServiceSummary, SetFill, Snapshot, Totals,
};
pub use planning::takeover::Inventory;
