//! The planner against the fake kernel: random clusters with random histories, compared with the
//! oracle, with a planner that knows only the end, and checked for what packets saw in between;
//! known packet flows of kube-proxy; the size of changes and of clusters; faults; growth.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "how tests fail, also outside of functions marked as tests"
)]

mod affinity;
mod cluster;
mod driver;
mod fairness;
mod faults;
mod flows;
mod growth;
mod moves;
mod names;
mod objects;
mod packets;
mod properties;
mod scale;
mod size;
mod takeover;
