//! What a client counts of its requests: client-go's `rest_client_*`, with its buckets.

use core::fmt;
use core::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

type Labels<const N: usize> = [(&'static str, String); N];
type Histograms = Family<Labels<2>, Histogram, Buckets>;

/// component-base/metrics/prometheus/restclient: `requestLatency` and `rateLimiterLatency`, seconds.
const SECONDS: &[f64] = &[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];
/// The same file: `requestSize` and `responseSize`, bytes.
const BYTES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1_024.0,
    4_096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// Shared by all clones of a client; a clone of this counts in the same place.
#[derive(Debug, Clone)]
pub struct RequestFacts {
    requests: Family<Labels<3>, Counter>,
    durations: Histograms,
    waits: Histograms,
    sent: Histograms,
    received: Histograms,
    credentials: Family<Labels<2>, Counter>,
}

#[derive(Clone)]
struct Buckets(&'static [f64]);

impl fmt::Debug for Buckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Buckets")
    }
}

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

impl Default for RequestFacts {
    fn default() -> Self {
        let histograms = |buckets| Family::new_with_constructor(Buckets(buckets));
        Self {
            requests: Family::default(),
            durations: histograms(SECONDS),
            waits: histograms(SECONDS),
            sent: histograms(BYTES),
            received: histograms(BYTES),
            credentials: Family::default(),
        }
    }
}

impl RequestFacts {
    /// Adds the metrics to a registry, under client-go's names (`_total` is added to counters when
    /// they are printed).
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "Number of HTTP requests, partitioned by status code, method, and host",
            self.requests.clone(),
        );
        registry.register(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host",
            self.durations.clone(),
        );
        registry.register(
            "rest_client_rate_limiter_duration_seconds",
            "Client side rate limiter latency in seconds. Broken down by verb, and host",
            self.waits.clone(),
        );
        registry.register(
            "rest_client_request_size_bytes",
            "Request size in bytes. Broken down by verb and host",
            self.sent.clone(),
        );
        registry.register(
            "rest_client_response_size_bytes",
            "Response size in bytes. Broken down by verb and host",
            self.received.clone(),
        );
        registry.register(
            "rest_client_exec_plugin_call",
            "Number of calls to an exec plugin, partitioned by the type of event encountered (no_error, \
             plugin_execution_error, plugin_not_found_error, client_internal_error) and an optional exit code",
            self.credentials.clone(),
        );
    }

    /// How many requests got an answer, or no answer (`code` is then `<error>`).
    #[must_use]
    pub fn requests(&self, code: &str, method: &str, host: &str) -> u64 {
        self.requests
            .get(&request_labels(code, method, host))
            .map_or(0, |counter| counter.get())
    }

    /// Notes an answer, or none: its `code`, and how long it took.
    pub fn answered(&self, request: &Asked<'_>, code: &str, took: Duration) {
        let labels = request_labels(code, request.method, request.host);
        self.requests.get_or_create(&labels).inc();
        observe(&self.durations, request, took.as_secs_f64());
    }

    /// Notes how long a request waited for its turn.
    pub fn waited(&self, request: &Asked<'_>, time: Duration) {
        observe(&self.waits, request, time.as_secs_f64());
    }

    /// Notes the length of a request's body.
    pub fn sent(&self, request: &Asked<'_>, bytes: usize) {
        observe(&self.sent, request, size(bytes));
    }

    /// Notes the length of an answer's body.
    pub fn received(&self, request: &Asked<'_>, bytes: usize) {
        observe(&self.received, request, size(bytes));
    }

    /// Notes a call of an exec plugin: what came of it, and its exit code.
    pub fn plugin_called(&self, status: &str, code: i32) {
        let labels = [
            ("call_status", status.to_owned()),
            ("code", code.to_string()),
        ];
        self.credentials.get_or_create(&labels).inc();
    }
}

/// Which request.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Host and port.
    pub host: &'a str,
}

fn observe(histograms: &Histograms, request: &Asked<'_>, value: f64) {
    let labels = [
        ("host", request.host.to_owned()),
        ("verb", request.method.to_owned()),
    ];
    histograms.get_or_create(&labels).observe(value);
}

fn request_labels(code: &str, method: &str, host: &str) -> Labels<3> {
    [
        ("code", code.to_owned()),
        ("host", host.to_owned()),
        ("method", method.to_owned()),
    ]
}

fn size(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text;

    use super::*;

    #[test]
    fn names_and_labels_are_those_of_client_go() {
        let facts = RequestFacts::default();
        let asked = Asked {
            method: "GET",
            host: "192.0.2.1:6443",
        };
        facts.waited(&asked, Duration::from_millis(200));
        facts.answered(&asked, "200", Duration::from_millis(3));
        facts.sent(&asked, 0);
        facts.received(&asked, 100);
        facts.plugin_called("no_error", 0);
        assert_eq!(facts.requests("200", "GET", "192.0.2.1:6443"), 1);
        assert_eq!(facts.requests("<error>", "GET", "192.0.2.1:6443"), 0);
        let mut registry = Registry::default();
        facts.register(&mut registry);
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        for line in [
            r#"rest_client_requests_total{code="200",host="192.0.2.1:6443",method="GET"} 1"#,
            r#"rest_client_request_duration_seconds_bucket{le="0.005",host="192.0.2.1:6443",verb="GET"} 1"#,
            r#"rest_client_rate_limiter_duration_seconds_bucket{le="0.1",host="192.0.2.1:6443",verb="GET"} 0"#,
            r#"rest_client_response_size_bytes_sum{host="192.0.2.1:6443",verb="GET"} 100.0"#,
            r#"rest_client_exec_plugin_call_total{call_status="no_error",code="0"} 1"#,
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }
}
