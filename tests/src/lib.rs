//! Support code of the end-to-end tests.
#![forbid(unsafe_code)]

pub mod bystander;
pub mod chaos;
pub mod committer;
pub mod confined;
pub mod conntrack;
pub mod control_plane;
pub mod deploy;
pub mod dice;
pub mod differential;
pub mod engine;
pub mod flood;
pub mod folder;
pub mod iptables;
pub mod kept;
pub mod listing;
pub mod memory_cgroup;
pub mod objects;
pub mod pod;
pub mod program;
pub mod proxy;
pub mod race;
pub mod reading;
pub mod requests;
pub mod ruleset;
pub mod scenario;
pub mod takeover;
