//! Numbers about the proxy: the pages of `--metrics-bind-address`.
//!
//! What kube-proxy has a name for has that name (`kubeproxy_…`); what only this program counts is
//! named `kproxy_…`. `/metrics` is in the OpenMetrics text form, which Prometheus reads.

use core::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use hyper::StatusCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use svc_planner::plan::Family;

use crate::conntrack;
use crate::engine::FAMILIES;
use crate::health::{Health, family_label, response};
use crate::listeners::Pages;
use crate::proxy::FamilyStatus;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";

/// Where the numbers come from. They are read when somebody asks for them.
#[derive(Debug)]
pub struct Sources {
    /// The loop.
    pub health: Arc<Health>,
    /// What cuts stale connections.
    pub conntrack: Arc<conntrack::Counters>,
}

impl Sources {
    /// The pages.
    #[must_use]
    pub fn pages(self) -> Pages {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self));
        Arc::new(move |path| match path {
            "/metrics" => {
                let mut body = String::new();
                match text::encode(&mut body, &registry) {
                    Ok(()) => response(StatusCode::OK, OPEN_METRICS, body),
                    Err(error) => {
                        response(StatusCode::INTERNAL_SERVER_ERROR, TEXT, error.to_string())
                    }
                }
            }
            "/healthz" => response(StatusCode::OK, TEXT, "ok".to_owned()),
            "/proxyMode" => response(StatusCode::OK, TEXT, "nftables".to_owned()),
            _ => response(
                StatusCode::NOT_FOUND,
                TEXT,
                "404 page not found\n".to_owned(),
            ),
        })
    }

    fn sync(&self, to: &mut DescriptorEncoder<'_>, families: &[FamilyStatus]) -> fmt::Result {
        let mut last = to.encode_descriptor(
            "kubeproxy_sync_proxy_rules_last_timestamp_seconds",
            "When last the kernel held all that was wanted",
            None,
            MetricType::Gauge,
        )?;
        for status in families {
            if let Some(time) = status.last_success {
                let since = self.health.time_of_day(time).duration_since(UNIX_EPOCH);
                let seconds = since.unwrap_or_default().as_secs_f64();
                gauge(&mut last, status.family, seconds)?;
            }
        }
        counters(
            to,
            "kubeproxy_sync_proxy_rules_nftables_sync_failures",
            "Times that a family could not be programmed",
            families.iter().map(|it| (it.family, it.all_failures)),
        )?;
        let mut not_served = to.encode_descriptor(
            "kproxy_service_ports_not_served",
            "Service ports that are not, or not fully, served; the log names them",
            None,
            MetricType::Gauge,
        )?;
        for status in families {
            let count = u32::try_from(status.not_served).unwrap_or(u32::MAX);
            gauge(&mut not_served, status.family, f64::from(count))?;
        }
        Ok(())
    }

    fn interference(to: &mut DescriptorEncoder<'_>, families: &[FamilyStatus]) -> fmt::Result {
        let mut counter = |name, help, number: fn(&FamilyStatus) -> u64| {
            let numbers = families.iter().map(|it| (it.family, number(it)));
            counters(to, name, help, numbers)
        };
        counter(
            "kproxy_foreign_edits",
            "Transactions of others that changed the table",
            |it| it.interference.edits,
        )?;
        counter(
            "kproxy_foreign_edits_mended",
            "Times that chains and rules were put back in place",
            |it| it.interference.mends,
        )?;
        counter(
            "kproxy_foreign_edits_mended_rows",
            "Rows put right one by one",
            |it| it.interference.rows,
        )?;
        counter(
            "kproxy_table_rebuilds",
            "Times that the table was made anew",
            |it| it.interference.rebuilds,
        )?;
        counter(
            "kproxy_foreign_edits_contended",
            "Times that somebody kept changing the table back",
            |it| it.interference.fights,
        )?;
        let mut contended = to.encode_descriptor(
            "kproxy_contended",
            "1 while somebody keeps changing the table back",
            None,
            MetricType::Gauge,
        )?;
        for status in families {
            let now = status.interference.contended_since.is_some();
            gauge(&mut contended, status.family, f64::from(u8::from(now)))?;
        }
        Ok(())
    }

    fn conntrack(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let deleted = FAMILIES.map(|family| (family, self.conntrack.of(family).deleted));
        counters(
            to,
            "kubeproxy_conntrack_reconciler_deleted_entries",
            "Stale connections cut",
            deleted,
        )?;
        let mut durations = to.encode_descriptor(
            "kubeproxy_conntrack_reconciler_sync_duration_seconds",
            "Time spent on a search for stale connections",
            None,
            MetricType::Histogram,
        )?;
        for family in FAMILIES {
            let times = self.conntrack.times(family);
            let count = times.iter().map(|(_, count)| count).sum();
            let limit = |limit: core::time::Duration| match limit {
                core::time::Duration::MAX => f64::MAX,
                limit => limit.as_secs_f64(),
            };
            let buckets: Vec<_> = times
                .iter()
                .map(|(it, count)| (limit(*it), *count))
                .collect();
            let sum = self.conntrack.of(family).busy.as_secs_f64();
            let labels = [("ip_family", family_label(family))];
            let mut histogram = durations.encode_family(&labels)?;
            histogram.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }

    fn replies(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (page, codes) in self.health.replies() {
            let name = format!("kubeproxy_proxy_{page}");
            let help = format!("Answers to /{page}");
            let mut metric = to.encode_descriptor(&name, &help, None, MetricType::Counter)?;
            for (code, count) in codes {
                let labels = [("code", u32::from(code))];
                ConstCounter::new(count).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

impl Collector for Sources {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let families = self.health.status().families;
        self.sync(&mut encoder, &families)?;
        Self::interference(&mut encoder, &families)?;
        self.conntrack(&mut encoder)?;
        self.replies(&mut encoder)
    }
}

/// A counter of each family; `_total` is appended to its name.
fn counters(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    numbers: impl IntoIterator<Item = (Family, u64)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    for (family, number) in numbers {
        let labels = [("ip_family", family_label(family))];
        ConstCounter::new(number).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}

fn gauge(metric: &mut MetricEncoder<'_>, family: Family, number: f64) -> fmt::Result {
    let labels = [("ip_family", family_label(family))];
    ConstGauge::new(number).encode(metric.encode_family(&labels)?)
}
