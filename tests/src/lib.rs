//! Support code of the end-to-end tests.
#![forbid(unsafe_code)]

pub mod flood;
pub mod folder;
pub mod programmer;
pub mod proxy;
pub mod race;
pub mod ruleset;
pub mod scenario;
