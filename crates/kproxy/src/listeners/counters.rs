use core::sync::atomic::{AtomicU64, Ordering};

/// What went wrong, counted since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) health_bind_failures: AtomicU64,
    pub(super) site_bind_failures: AtomicU64,
    pub(super) localhost_bind_failures: AtomicU64,
    pub(super) localhost_connections: AtomicU64,
    pub(super) localhost_dial_failures: AtomicU64,
}

/// [`Counters`] at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Attempts to listen for health checks that failed.
    pub health_bind_failures: u64,
    /// Attempts to listen for a site's requests that failed.
    pub site_bind_failures: u64,
    /// Attempts to listen on a node port at a loopback address that failed.
    pub localhost_bind_failures: u64,
    /// Connections to node ports at loopback addresses.
    pub localhost_connections: u64,
    /// Those of them whose endpoint could not be reached.
    pub localhost_dial_failures: u64,
}

impl Counters {
    /// The numbers now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            health_bind_failures: read(&self.health_bind_failures),
            site_bind_failures: read(&self.site_bind_failures),
            localhost_bind_failures: read(&self.localhost_bind_failures),
            localhost_connections: read(&self.localhost_connections),
            localhost_dial_failures: read(&self.localhost_dial_failures),
        }
    }
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
