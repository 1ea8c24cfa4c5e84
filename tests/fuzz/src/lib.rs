//! What the fuzz targets of `fuzz/` do with their input, as ordinary functions: `tests/replay.rs`
//! runs the committed corpora through them on stable, without a fuzzer.
//!
//! A target panics when something is wrong: the code under it did, or what it made of the input
//! contradicts itself.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a panic is how a target reports")]

mod batch_replies;
mod codec;
mod events;
mod manifest;
mod rtnetlink;
mod snapshot;
mod wire;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name: that of its folder of inputs and of its program.
    pub name: &'static str,
    /// What it does with an input.
    pub body: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    target("batch_replies", batch_replies::run),
    target("codec", codec::run),
    target("events", events::run),
    target("manifest", manifest::run),
    target("rtnetlink", rtnetlink::run),
    target("snapshot", snapshot::run),
];

const fn target(name: &'static str, body: fn(&[u8])) -> Target {
    Target { name, body }
}

/// Runs one target.
///
/// # Panics
/// When there is no such target, or when it finds something.
pub fn run(name: &str, input: &[u8]) {
    match TARGETS.iter().find(|target| target.name == name) {
        Some(target) => (target.body)(input),
        None => panic!("no fuzz target {name}"),
    }
}
