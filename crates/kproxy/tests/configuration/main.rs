//! The command line and the file of kube-proxy, beside the real one: the same is accepted, refused and
//! written.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod files;
mod flags;
mod oracle;
mod reference;
mod sources;
mod spellings;
