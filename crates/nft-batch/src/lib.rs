//! Transactions with nf_tables over one netlink socket.
//!
//! ```text
//! Batch ──seal──▶ SealedBatch ──Connection::commit──▶ Outcome
//! ```
//! A [`Batch`] takes operations in any order and puts them into the one the kernel wants; a
//! [`Connection`] sends the sealed batch as one datagram and says what became of it, down to the
//! element that was wrong. [`Connection`] also reads: the generation, single elements by key, dumps.
//! [`Events`] tells what others change, [`Capabilities`] what the kernel can do.
//!
//! ```no_run
//! use nft_batch::{Batch, Connection, Outcome};
//! use nl_codec::msg::Family;
//! use nl_codec::nft::{Elem, Value};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut connection = Connection::open()?;
//! let mut batch = Batch::default();
//! let blocked = batch.set(Family::IPV4, "filter", "blocked")?;
//! batch.add_elements(blocked, [Elem::new(Value::new(&[192, 0, 2, 1]))])?;
//! batch.delete_elements(blocked, [Elem::new(Value::new(&[192, 0, 2, 2]))])?;
//! let mut sealed = batch.seal();
//! match connection.commit(&mut sealed) {
//!     Outcome::Committed(_) => {}
//!     Outcome::Unknown(unknown) => println!("{:?}", connection.resolve(&sealed, &unknown)?),
//!     refused => println!("{refused}"),
//! }
//! // The buffers serve the next batch.
//! let next: Batch = sealed.reuse();
//! # drop(next);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod batch;
mod chunk;
mod commit;
mod connection;
mod dump;
mod error;
mod events;
mod lane;
mod locate;
mod order;
mod outcome;
mod probe;
mod read;
mod refs;
mod resolve;
mod sealed;
mod socket;
mod transport;

pub use batch::{Batch, BatchOptions};
pub use connection::Connection;
pub use dump::Dump;
pub use error::{BatchError, OpenError, QueryError};
pub use events::{EventError, EventGroup, Events};
pub use locate::{AttrPath, BadElement, OpError};
pub use nl_codec::ack::Errno;
pub use outcome::{
    Check, Committed, GenerationMismatch, NotSent, NotSentReason, Outcome, Progress, Rejected,
    Unknown, UnknownReason,
};
pub use probe::{Capabilities, KernelVersion, ProbeError};
pub use refs::{By, OpId, SetRef};
pub use resolve::Resolution;
pub use sealed::SealedBatch;
pub use socket::Socket;
pub use transport::{Datagram, Transport, Wait};
