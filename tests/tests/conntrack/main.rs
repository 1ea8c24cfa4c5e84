//! Flows that a change leaves behind are cut, and no others.

mod bench;
mod endpoints;
mod failure;
mod foreign;
mod sctp;
mod tcp;
