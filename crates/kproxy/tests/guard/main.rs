//! What becomes of our tables when others change them: noticed by events, put right, and no more
//! touched than need be. `nft` and plain connections are the others.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod bench;
mod edits;
mod every_object;
#[path = "../objects/mod.rs"]
mod objects;
mod scale;
mod second_writer;
mod uncounted;
mod unseen;
