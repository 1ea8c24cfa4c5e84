//! See the crate description.

pub mod lab;
