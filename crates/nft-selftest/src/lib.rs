#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod bench;
mod case;
mod cases;
pub mod cli;
pub mod doctor;
mod json;
mod ktap;
mod raw;
mod run;
mod tally;
mod traffic;
mod verdict;

pub use case::Case;
pub use cases::all;
pub use run::{Outcome, run};
pub use verdict::{Stop, Verdict};
