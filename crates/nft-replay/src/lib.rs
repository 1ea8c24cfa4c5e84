#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod bisect;
pub mod capture;
pub mod cli;
pub mod play;
pub mod ruleset;
pub mod session;
pub mod show;
pub mod stat;
pub mod text;
pub mod trace;
