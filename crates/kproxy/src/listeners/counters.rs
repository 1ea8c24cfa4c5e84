//! What the listeners did and what went wrong, in numbers.

use core::sync::atomic::{AtomicU64, Ordering};

use svc_planner::plan::Family;

/// Counted since the start.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) health_bind_failures: AtomicU64,
    pub(super) site_bind_failures: AtomicU64,
    localhost_ipv4: Localhost,
    localhost_ipv6: Localhost,
}

/// Node ports at the loopback addresses of one family.
#[derive(Debug, Default)]
pub(super) struct Localhost {
    /// Of them, those that are listened on now.
    pub(super) listeners: AtomicU64,
    pub(super) bind_failures: AtomicU64,
    pub(super) connections: AtomicU64,
    pub(super) dial_failures: AtomicU64,
}

/// [`Counters`] of all families at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Attempts to listen for health checks that failed.
    pub health_bind_failures: u64,
    /// Attempts to listen for a site's requests that failed.
    pub site_bind_failures: u64,
}

/// Node ports at the loopback addresses of one family, at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalhostTotals {
    /// Node ports that are listened on now.
    pub listeners: u64,
    /// Attempts to listen on a node port that failed.
    pub bind_failures: u64,
    /// Connections to node ports.
    pub connections: u64,
    /// Those of them whose endpoint could not be reached.
    pub dial_failures: u64,
}

impl Counters {
    /// The numbers now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            health_bind_failures: read(&self.health_bind_failures),
            site_bind_failures: read(&self.site_bind_failures),
        }
    }

    /// The numbers of node ports at loopback addresses of a family now.
    #[must_use]
    pub fn localhost_totals(&self, family: Family) -> LocalhostTotals {
        let localhost = self.localhost(family);
        LocalhostTotals {
            listeners: read(&localhost.listeners),
            bind_failures: read(&localhost.bind_failures),
            connections: read(&localhost.connections),
            dial_failures: read(&localhost.dial_failures),
        }
    }

    pub(super) const fn localhost(&self, family: Family) -> &Localhost {
        match family {
            Family::Ipv4 => &self.localhost_ipv4,
            Family::Ipv6 => &self.localhost_ipv6,
        }
    }
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

pub(super) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
