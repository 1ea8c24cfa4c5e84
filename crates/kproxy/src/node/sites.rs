//! Where the proxy tells how it is doing.

use core::net::SocketAddr;
use std::sync::Arc;

use crate::config::{Configz, FeatureGates};
use crate::listeners::{Listeners, Site};
use crate::metrics::{ConfigPage, MetricsSite, Sources};
use crate::statusz::{self, Audience};

/// Addresses in the network namespace programmed; `None` is nowhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SiteSettings {
    /// /healthz, /livez and /readyz.
    pub healthz: Option<SocketAddr>,
    /// /metrics, /proxyMode and /healthz.
    pub metrics: Option<SocketAddr>,
    /// What /configz shows there.
    pub configuration: Option<Configz>,
    /// Who may look at /statusz there.
    pub statusz: Audience,
    /// Feature gates in force, for a metric.
    pub gates: FeatureGates,
}

impl SiteSettings {
    pub(super) fn open(&self, listeners: &Listeners, sources: Sources, status: statusz::Sources) {
        if let Some(address) = self.healthz {
            listeners.serve(Site {
                address,
                what: "healthz",
                event: "FailedToStartProxierHealthcheck",
                pages: Arc::clone(&sources.health).pages(),
            });
        }
        if let Some(address) = self.metrics {
            let configuration = self.configuration.clone();
            listeners.serve(Site {
                address,
                what: "metrics",
                event: "FailedToStartMetricServer",
                pages: MetricsSite {
                    configuration: configuration
                        .map(|shown| -> ConfigPage { Arc::new(move || shown.text()) }),
                    more: Some(statusz::pages(status, self.statusz)),
                    ..MetricsSite::new(sources.registry())
                }
                .pages(),
            });
        }
    }
}
