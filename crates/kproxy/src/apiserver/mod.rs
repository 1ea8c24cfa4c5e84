//! The API server: lists and watches of what a proxy needs, and single requests.
//!
//! ```text
//!   Client ── token bucket, credentials, TLS, HTTP/2 ── the server
//!     │
//!   Transfer ── gzip ── Decoder ── frames, items ── JSON or protobuf ── crate::api
//!     │                                                                    │
//!   Reflector, one a kind: list, watch, begin anew                   crate::ingest
//!     │          Known: names and versions, nothing else                   │
//!   ApiReader ── Outbox ──────────────────────────────────── svc_planner::mailbox
//! ```
//! kube-client has the kubeconfig's types and its credentials, hyper speaks HTTP. What is in between is here, as
//! the objects of a whole cluster must neither be held at once nor cached (docs/APISERVER.md).

mod backoff;
mod board;
mod bucket;
mod client;
pub mod decode;
mod error;
mod expectation;
mod facts;
mod failure;
mod gather;
mod known;
mod kubeconfig;
mod link;
mod options;
mod outbox;
mod pace;
pub mod protobuf;
mod proxy;
mod reader;
mod reflector;
mod resource;
mod status;
mod store;
mod transfer;

pub use board::{ApiBoard, WatchStatus};
pub use client::{Answer, Client};
pub use error::{ClientError, Refusal};
pub use facts::{Asked, RequestFacts};
pub use options::{ConnectionOptions, JSON, PROTOBUF};
pub use reader::{ApiReader, Loaded};

#[cfg(test)]
mod tests;
