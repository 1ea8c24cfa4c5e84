//! A fake of the kernel's nf_tables for the planner's tables, to test plans without a kernel and to
//! explain what a plan does to a packet.
//!
//! [`Kernel`] applies [`Transaction`](crate::plan::Transaction)s and refuses what the kernel
//! refuses. [`Kernel::outcomes`] sends a [`Packet`] through the result. [`quiescence`] proves from
//! the recorded states and their times alone that no packet was lost or misled by an update while
//! it was on its way.

mod apply;
mod choice;
mod clients;
mod error;
mod eval;
mod kernel;
mod layout;
pub mod oracle;
mod packet;
pub mod quiescence;
mod reader;
mod table;
mod timeline;
mod validate;
mod versions;

pub use apply::operations;
pub use error::{ApplyError, Errno, Op, Rejection};
pub use kernel::{Commit, Fault, Kernel};
pub use packet::{Endpoint, Host, Origin, Outcome, Packet, Step, Transport, Verdict};

#[cfg(test)]
mod tests;
