//! Where the proxy tells how it is doing.

use core::net::SocketAddr;
use std::sync::Arc;

use crate::conntrack::Reconciler;
use crate::health::Health;
use crate::listeners::{Listeners, Site};
use crate::metrics::Sources;

/// Addresses in the network namespace programmed; `None` is nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteSettings {
    /// /healthz, /livez and /readyz.
    pub healthz: Option<SocketAddr>,
    /// /metrics, /proxyMode and /healthz.
    pub metrics: Option<SocketAddr>,
}

impl SiteSettings {
    pub(super) fn open(&self, listeners: &Listeners, health: Arc<Health>, reconciler: &Reconciler) {
        if let Some(address) = self.healthz {
            listeners.serve(Site {
                address,
                what: "healthz",
                pages: Arc::clone(&health).pages(),
            });
        }
        if let Some(address) = self.metrics {
            let conntrack = reconciler.counters();
            listeners.serve(Site {
                address,
                what: "metrics",
                pages: Sources { health, conntrack }.pages(),
            });
        }
    }
}
