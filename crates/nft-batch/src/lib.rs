#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod batch;
mod chunk;
mod commit;
mod connection;
mod dump;
mod error;
mod events;
mod fence;
mod lane;
mod locate;
mod order;
mod outcome;
mod probe;
mod read;
pub mod record;
mod refs;
mod resolve;
mod sealed;
mod socket;
mod sync;
mod transport;
mod walk;

pub use batch::{Batch, BatchOptions};
pub use connection::Connection;
pub use dump::Dump;
pub use error::{BatchError, OpenError, QueryError};
pub use events::{EventError, EventGroup, Events};
pub use fence::{Ear, Fence, is_before, next_generation};
pub use locate::{AttrPath, BadElement, OpError};
pub use nl_codec::ack::Errno;
pub use outcome::{
    Check, Committed, GenerationMismatch, NotSent, NotSentReason, Outcome, Progress, Rejected,
    Unknown, UnknownReason,
};
pub use probe::{Advice, Capabilities, KernelVersion, ProbeError, Severity};
pub use refs::{By, OpId, SetRef};
pub use resolve::Resolution;
pub use sealed::SealedBatch;
pub use socket::Socket;
pub use transport::{Datagram, Transport, Wait};
pub use walk::{ElementWalk, Walked};
