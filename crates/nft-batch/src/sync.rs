//! What threads share: std's, or loom's in its models (`--cfg kproxy_loom`).

#[cfg(kproxy_loom)]
pub(crate) use loom::sync::{Arc, Mutex, MutexGuard};
#[cfg(not(kproxy_loom))]
pub(crate) use std::sync::{Arc, Mutex, MutexGuard};
