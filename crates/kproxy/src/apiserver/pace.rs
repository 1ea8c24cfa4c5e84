//! Times, as client-go's reflector has them (client-go/tools/cache/reflector.go).

use core::time::Duration;

use super::backoff::Limits;

/// How long things may take, and when they are tried again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    pub(super) backoff: Limits,
    /// Shortest `timeoutSeconds` of a watch; the longest is twice as long.
    pub(super) watch: Duration,
    /// After the server should have ended a watch.
    pub(super) grace: Duration,
    /// The server says nothing for so long, though it sends a bookmark each minute.
    pub(super) silence: Duration,
    /// For a kind that the server does not have.
    pub(super) absent: Duration,
    /// The most that a server may ask for with `Retry-After`.
    pub(super) longest_request: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            backoff: Limits {
                first: Duration::from_millis(800),
                most: Duration::from_secs(30),
                healthy: Duration::from_secs(120),
            },
            watch: Duration::from_secs(300),
            grace: Duration::from_secs(30),
            silence: Duration::from_secs(150),
            absent: Duration::from_secs(300),
            longest_request: Duration::from_secs(120),
        }
    }
}
