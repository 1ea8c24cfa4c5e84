//! Kubernetes Events on the own Node and on Services.
//!
//! ```text
//! loop, listeners, start-up ──Recorder──> a thread ──Sink──> API server
//!                                           │ faults of Services wait for a while, at random
//!                                           └ all take tokens from a bucket
//! ```
//! What is wrong with a *Service object* is wrong on every node: its event has a name that follows from
//! the Service's uid and the reason, so that one node creates it and the API server tells all others
//! that it exists. Nodes tell at different times, spread over minutes, and a fault that is over by then is
//! not told. What is wrong on *this node* is told at once, and not again with the same words for a while.
//!
//! Nobody who tells an event waits for the API server; an event that cannot be written is tried again a
//! few times, then given up: metrics and log have it, too.

mod api;
mod bucket;
mod counters;
mod event;
mod recorder;
mod sink;
mod worker;

pub use api::ApiSink;
pub use counters::{Counters, Totals};
pub use event::{Event, EventType, Regarding};
pub use recorder::{Options, Recorder, Recording};
pub use sink::{Sink, SinkError, Told};
