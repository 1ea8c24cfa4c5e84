//! Support code of the end-to-end tests.
#![forbid(unsafe_code)]

pub mod ruleset;
