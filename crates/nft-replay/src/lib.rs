#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod capture;
pub mod session;
pub mod show;
pub mod stat;
pub mod text;
