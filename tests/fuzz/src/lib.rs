//! What the fuzz targets of `fuzz/` do with their input, as ordinary functions: `tests/replay.rs`
//! runs the committed corpora through them on stable, without a fuzzer.
//!
//! A target panics when something is wrong: the code under it did, or what it made of the input
//! contradicts itself.
#![forbid(unsafe_code)]
#![allow(clippy::panic, reason = "a panic is how a target reports")]

#[cfg(feature = "proxy")]
mod apiserver;
mod batch_replies;
mod capture;
mod codec;
#[cfg(feature = "proxy")]
mod config;
mod events;
#[cfg(feature = "proxy")]
mod manifest;
#[cfg(feature = "proxy")]
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
    #[cfg(feature = "proxy")]
    target("apiserver", apiserver::run),
    target("batch_replies", batch_replies::run),
    target("capture", capture::run),
    target("codec", codec::run),
    #[cfg(feature = "proxy")]
    target("config", config::run),
    target("events", events::run),
    #[cfg(feature = "proxy")]
    target("manifest", manifest::run),
    #[cfg(feature = "proxy")]
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
