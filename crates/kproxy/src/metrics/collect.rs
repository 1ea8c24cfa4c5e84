//! What is read when somebody asks for metrics.

use core::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use svc_planner::plan::Family;

use super::{Skipped, SyncMetrics, build_info, features, process, rejected};
use crate::apiserver::{ApiBoard, RequestFacts, WatchStatus};
use crate::config::FeatureGates;
use crate::family::FAMILIES;
use crate::health::{Health, family_label};
use crate::proxy::FamilyStatus;
use crate::{conntrack, events, listeners};

/// Where the numbers come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The loop's status, and how often it was asked for.
    pub health: Arc<Health>,
    /// What the loop counts.
    pub sync: Arc<SyncMetrics>,
    /// What cuts stale connections.
    pub conntrack: Arc<conntrack::Counters>,
    /// What listens.
    pub listeners: Arc<listeners::Counters>,
    /// What of the objects could not be used.
    pub skipped: Arc<Skipped>,
    /// What became of events; nothing where there is no API server.
    pub events: Option<Arc<events::Counters>>,
    /// Requests to the API server and its watches.
    pub api: Option<(RequestFacts, ApiBoard)>,
    /// Feature gates in force.
    pub gates: FeatureGates,
}

impl Sources {
    /// A registry of all of them.
    #[must_use]
    pub fn registry(self) -> Registry {
        let mut registry = Registry::default();
        self.sync.register(&mut registry);
        build_info::register(&mut registry);
        if let Some((facts, _)) = &self.api {
            facts.register(&mut registry);
        }
        registry.register_collector(Box::new(process::Process));
        registry.register_collector(Box::new(self));
        registry
    }

    fn changes(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let [services, slices] = self.sync.pending();
        let [all_services, all_slices] = self.sync.seen();
        gauge(
            to,
            "kubeproxy_sync_proxy_rules_service_changes_pending",
            "Services whose changes are not in force yet",
            services,
        )?;
        counter(
            to,
            "kubeproxy_sync_proxy_rules_service_changes",
            "Changes of Services that came",
            all_services,
        )?;
        gauge(
            to,
            "kubeproxy_sync_proxy_rules_endpoint_changes_pending",
            "EndpointSlices whose changes are not in force yet",
            slices,
        )?;
        counter(
            to,
            "kubeproxy_sync_proxy_rules_endpoint_changes",
            "Changes of EndpointSlices that came",
            all_slices,
        )
    }

    fn node(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let node = self.health.status().node;
        gauge(
            to,
            "kproxy_node_known",
            "1 once the own Node was seen; nothing is programmed before",
            u64::from(node.known),
        )?;
        gauge(
            to,
            "kproxy_node_eligible",
            "1 while the own Node is there and not about to go: load balancers may send it traffic",
            u64::from(node.eligible),
        )
    }

    fn not_served(to: &mut DescriptorEncoder<'_>, families: &[FamilyStatus]) -> fmt::Result {
        let mut metric = to.encode_descriptor(
            "kproxy_service_ports_not_served",
            "Service ports that are not, or not fully, served; the log names them",
            None,
            MetricType::Gauge,
        )?;
        for status in families {
            for (reason, count) in status.not_served.iter() {
                let count = u64::try_from(count).unwrap_or(u64::MAX);
                let labels = [
                    ("ip_family", family_label(status.family)),
                    ("reason", reason),
                ];
                ConstGauge::new(count).encode(metric.encode_family(&labels)?)?;
            }
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
            "kproxy_foreign_edits_missed",
            "Times that events of such may have been missed, so that all was compared",
            |it| it.interference.losses,
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
            "kproxy_rows_compared",
            "Rows compared with the kernel's by walks over all of them",
            |it| it.interference.compared,
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
        let contended = |it: &FamilyStatus| it.interference.contended_since.is_some();
        gauges(
            to,
            "kproxy_contended",
            "1 while somebody keeps changing the table back",
            families
                .iter()
                .map(|it| (it.family, u64::from(contended(it)))),
        )
    }

    fn conntrack(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut counter = |name, help, of: fn(&conntrack::Totals) -> u64| {
            let numbers = FAMILIES.map(|family| (family, of(&self.conntrack.of(family))));
            counters(to, name, help, numbers)
        };
        counter(
            "kubeproxy_conntrack_reconciler_deleted_entries",
            "Stale connections cut",
            |it| it.deleted,
        )?;
        counter(
            "kproxy_conntrack_entries_seen",
            "Connections looked at",
            |it| it.seen,
        )?;
        counter(
            "kproxy_conntrack_entries_not_deleted",
            "Stale connections that the kernel refused to cut",
            |it| it.not_deleted,
        )?;
        counter(
            "kproxy_conntrack_failures",
            "Searches for stale connections that did not come to their end",
            |it| it.failures,
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
                core::time::Duration::MAX => f64::INFINITY,
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

    fn listeners(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let localhost = FAMILIES.map(|it| (it, self.listeners.localhost_totals(it)));
        gauges(
            to,
            "kubeproxy_nftables_localhost_nodeport_listeners",
            "Node ports listened on at loopback addresses",
            localhost.map(|(family, it)| (family, it.listeners)),
        )?;
        counters(
            to,
            "kubeproxy_nftables_localhost_nodeport_listener_creation_failures",
            "Attempts to listen on a node port at a loopback address that failed",
            localhost.map(|(family, it)| (family, it.bind_failures)),
        )?;
        counters(
            to,
            "kproxy_localhost_nodeport_connections",
            "Connections to node ports at loopback addresses",
            localhost.map(|(family, it)| (family, it.connections)),
        )?;
        counters(
            to,
            "kproxy_localhost_nodeport_dial_failures",
            "Those of them whose endpoint could not be reached",
            localhost.map(|(family, it)| (family, it.dial_failures)),
        )?;
        let totals = self.listeners.totals();
        let mut failures = to.encode_descriptor(
            "kproxy_listen_failures",
            "Attempts to listen that failed: for health checks of Services, or for the pages",
            None,
            MetricType::Counter,
        )?;
        for (what, count) in [
            ("health_check_node_port", totals.health_bind_failures),
            ("page", totals.site_bind_failures),
        ] {
            ConstCounter::new(count).encode(failures.encode_family(&[("what", what)])?)?;
        }
        Ok(())
    }

    fn leftovers(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = to.encode_descriptor(
            "kproxy_leftovers",
            "1 for what kube-proxy's other modes left and cannot be removed: it may take packets before us",
            None,
            MetricType::Gauge,
        )?;
        for left in self.health.leftovers().read() {
            let family = left.what.family().map_or("", family_label);
            let labels = [("ip_family", family), ("what", left.what.label())];
            ConstGauge::new(1_u32).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }

    fn events(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = to.encode_descriptor(
            "kproxy_events",
            "Kubernetes Events by what became of them",
            None,
            MetricType::Counter,
        )?;
        let Some(events) = &self.events else {
            return Ok(());
        };
        let totals = events.totals();
        for (outcome, count) in [
            ("created", totals.created),
            ("known", totals.known),
            ("failed", totals.failed),
            ("dropped", totals.dropped),
            ("withdrawn", totals.withdrawn),
        ] {
            ConstCounter::new(count).encode(metric.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }

    fn watches(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let watches = self.api.as_ref().map(|(_, board)| board.snapshot());
        let watches = watches.unwrap_or_default();
        let mut gauge = |name: &str, help: &str, of: fn(&WatchStatus) -> u64| {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for watch in &watches {
                let labels = [("kind", watch.kind.name())];
                ConstGauge::new(of(watch)).encode(metric.encode_family(&labels)?)?;
            }
            Ok::<_, fmt::Error>(())
        };
        gauge(
            "kproxy_watch_objects",
            "Objects that the API server holds",
            |it| u64::try_from(it.objects).unwrap_or(u64::MAX),
        )?;
        gauge(
            "kproxy_watch_synced",
            "1 once all objects that there were have been received",
            |it| u64::from(it.synced || it.absent),
        )?;
        gauge(
            "kproxy_watch_failing",
            "1 while the API server cannot be asked for them, or does not answer as it should",
            |it| u64::from(it.last_error.is_some()),
        )?;
        let mut counter = |name: &str, help: &str, of: fn(&WatchStatus) -> u64| {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
            for watch in &watches {
                let labels = [("kind", watch.kind.name())];
                ConstCounter::new(of(watch)).encode(metric.encode_family(&labels)?)?;
            }
            Ok::<_, fmt::Error>(())
        };
        counter(
            "kproxy_watch_objects_received",
            "Objects received, each time",
            |it| it.received,
        )?;
        counter(
            "kproxy_watch_objects_unreadable",
            "Objects that could not be read",
            |it| it.unreadable,
        )?;
        counter(
            "kproxy_watch_lists",
            "Times that all objects were received",
            |it| it.lists,
        )?;
        counter("kproxy_watch_requests", "Requests for a watch", |it| {
            it.watches
        })?;
        counter(
            "kproxy_watch_errors",
            "Times that something went wrong",
            |it| it.errors,
        )
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
        self.changes(&mut encoder)?;
        self.node(&mut encoder)?;
        Self::not_served(&mut encoder, &families)?;
        self.sync.tables().encode(&mut encoder)?;
        Self::interference(&mut encoder, &families)?;
        self.conntrack(&mut encoder)?;
        self.listeners(&mut encoder)?;
        if self.gates.localhost_node_ports() {
            rejected::encode(&mut encoder)?;
        }
        features::encode(&self.gates, &mut encoder)?;
        self.skipped.encode(&mut encoder)?;
        self.leftovers(&mut encoder)?;
        self.events(&mut encoder)?;
        self.watches(&mut encoder)?;
        self.replies(&mut encoder)
    }
}

pub(super) fn counter(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    number: u64,
) -> fmt::Result {
    let metric = to.encode_descriptor(name, help, None, MetricType::Counter)?;
    ConstCounter::new(number).encode(metric)
}

pub(super) fn gauge(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    number: u64,
) -> fmt::Result {
    let metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(number).encode(metric)
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
        ConstCounter::new(number).encode(of_family(&mut metric, family)?)?;
    }
    Ok(())
}

fn gauges(
    to: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    numbers: impl IntoIterator<Item = (Family, u64)>,
) -> fmt::Result {
    let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (family, number) in numbers {
        ConstGauge::new(number).encode(of_family(&mut metric, family)?)?;
    }
    Ok(())
}

const LABELS: [[(&str, &str); 1]; 2] = [[("ip_family", "IPv4")], [("ip_family", "IPv6")]];

fn of_family<'m>(
    metric: &'m mut MetricEncoder<'_>,
    family: Family,
) -> Result<MetricEncoder<'m>, fmt::Error> {
    metric.encode_family(match family {
        Family::Ipv4 => &LABELS[0],
        Family::Ipv6 => &LABELS[1],
    })
}
