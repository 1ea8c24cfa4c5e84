//! What is answered at `--metrics-bind-address`.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use hyper::{Response, StatusCode};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, prometheus_text, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::process;
use crate::health::{not_found, response};
use crate::listeners::{Ask, Pages};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const JSON: &str = "application/json";
const TEXT: &str = "text/plain; charset=utf-8";

/// The configuration in force, as `/configz` shows it: JSON of an object that has it under the name of
/// its API group.
pub type ConfigPage = Arc<dyn Fn() -> String + Send + Sync>;

/// What is told there.
pub struct Site {
    /// `/metrics`.
    pub registry: Registry,
    /// `/configz`, if there is a configuration to show.
    pub configuration: Option<ConfigPage>,
    /// What else there is.
    pub more: Option<Pages>,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Site")
            .field("registry", &self.registry)
            .finish_non_exhaustive()
    }
}

impl Site {
    /// Metrics alone.
    #[must_use]
    pub const fn new(registry: Registry) -> Self {
        Self {
            registry,
            configuration: None,
            more: None,
        }
    }

    /// The pages.
    #[must_use]
    pub fn pages(self) -> Pages {
        let Self {
            registry,
            configuration,
            more,
        } = self;
        let indicators = indicators();
        Arc::new(move |ask| match (ask.path, &configuration, &more) {
            ("/metrics", ..) => metrics(&registry, ask).into(),
            ("/metrics/slis", ..) => metrics(&indicators, ask).into(),
            ("/healthz", ..) => response(StatusCode::OK, TEXT, healthz(ask.query)).into(),
            ("/healthz/ping", ..) => response(StatusCode::OK, TEXT, "ok".to_owned()).into(),
            ("/proxyMode", ..) => response(StatusCode::OK, TEXT, "nftables".to_owned()).into(),
            ("/configz", Some(configuration), _) => {
                response(StatusCode::OK, JSON, configuration()).into()
            }
            (_, _, Some(more)) => more(ask),
            _ => not_found().into(),
        })
    }
}

/// Kubernetes' components have one check by default, `ping`, and name it if asked (`?verbose`).
fn healthz(query: &str) -> String {
    let is_verbose = |parameter: &str| parameter.split('=').next() == Some("verbose");
    let answer = if query.split('&').any(is_verbose) {
        "[+]ping ok\nhealthz check passed\n"
    } else {
        "ok"
    };
    answer.to_owned()
}

/// In Prometheus' own form, as kube-proxy: to a Prometheus too, which ranks OpenMetrics higher. There
/// `le="1"` is `le="1.0"`, so series of a node would change their names with its proxy. Whoever takes
/// nothing else gets it.
fn metrics(registry: &Registry, ask: &Ask<'_>) -> Response<String> {
    let mut body = String::new();
    let (kind, encoded) = if insists_on_open_metrics(ask.accept) {
        (OPEN_METRICS, text::encode(&mut body, registry))
    } else {
        let encoded = prometheus_text::encode(&mut body, registry);
        (prometheus_text::CONTENT_TYPE, encoded)
    };
    match encoded {
        Ok(()) => response(StatusCode::OK, kind, body),
        Err(error) => response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string()),
    }
}

/// Whether an `Accept` header admits OpenMetrics and no plain text.
fn insists_on_open_metrics(accept: &str) -> bool {
    let mut insists = false;
    for range in accept.split(',') {
        let mut parameters = range.split(';').map(str::trim);
        let kind = parameters.next().unwrap_or_default();
        let mut known = true;
        for (name, value) in parameters.filter_map(|parameter| parameter.split_once('=')) {
            known &= match (name.trim(), value.trim()) {
                ("q", value) => value.parse::<f32>().is_ok_and(|quality| quality > 0.0),
                ("version", version) => matches!(version, "1.0.0" | "0.0.1"),
                _ => true,
            };
        }
        match kind {
            "application/openmetrics-text" => insists |= known,
            // Whichever version: the one that there is will do.
            "text/plain" | "text/*" | "*/*" => return false,
            _ => {}
        }
    }
    insists
}

/// Service level indicators: kube-proxy has one check, which always succeeds, and is counted when it is
/// asked for.
fn indicators() -> Registry {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Ping::default()));
    registry
}

#[derive(Debug, Default)]
struct Ping(AtomicU64);

impl Collector for Ping {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let count = self.0.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let labels = [("name", "ping"), ("type", "healthz")];
        let mut metric = encoder.encode_descriptor(
            "kubernetes_healthcheck",
            "1 if the check succeeded last",
            None,
            MetricType::Gauge,
        )?;
        ConstGauge::new(1_u32).encode(metric.encode_family(&labels)?)?;
        let labels = [("name", "ping"), ("status", "success"), ("type", "healthz")];
        let mut metric = encoder.encode_descriptor(
            "kubernetes_healthchecks",
            "Checks by their outcome",
            None,
            MetricType::Counter,
        )?;
        ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
        process::start_time(&mut encoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_asked_for() {
        for (accept, expected) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("application/openmetrics-text", true),
            ("application/openmetrics-text; version=1.0.0; q=0.5", true),
            ("application/openmetrics-text; version=9.0.0", false),
            ("application/openmetrics-text; q=0", false),
            ("text/html, application/openmetrics-text", true),
            // Prometheus 2 and 3.
            (
                "application/openmetrics-text;version=1.0.0,\
                 application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
                false,
            ),
            (
                "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                 text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,\
                 */*;q=0.1",
                false,
            ),
            ("application/vnd.google.protobuf;q=0.9, text/plain", false),
        ] {
            assert_eq!(insists_on_open_metrics(accept), expected, "{accept}");
        }
    }
}
