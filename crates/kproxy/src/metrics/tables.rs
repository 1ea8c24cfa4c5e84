//! How full the sets and maps are, and how much there is: published by the loop after each sync, read by
//! whoever asks.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use svc_planner::plan::Family;
use svc_planner::{Planner, SetFill, Totals};

use super::PerFamily;
use crate::engine::AffinityFill;
use crate::health::family_label;

/// What was published last of each family.
#[derive(Debug, Clone)]
pub struct Tables(PerFamily<Arc<Mutex<Table>>>);

/// One family's table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// How much there is.
    pub totals: Totals,
    /// How full each set is.
    pub sets: Vec<SetFill>,
    /// Clients remembered, and room for them; `None` where the kernel does not tell (before 6.17).
    pub clients: Option<(u32, u32)>,
}

impl Tables {
    pub(super) fn new(families: &[Family]) -> Self {
        Self(PerFamily::new(families, Arc::default))
    }

    /// What was published last.
    pub fn read(&self) -> impl Iterator<Item = (Family, Table)> + '_ {
        let families = self.0.iter();
        families.map(|(family, table)| (family, lock(table).clone()))
    }

    /// Publishes what is planned. Allocates nothing but the first time.
    pub(super) fn publish(&self, family: Family, planner: &Planner) {
        let Some(table) = self.0.of(family) else {
            return;
        };
        let mut table = lock(table);
        table.totals = planner.totals();
        table.sets.clear();
        table.sets.extend(planner.set_fills());
    }

    /// Publishes what the kernel told about remembered clients.
    pub(super) fn publish_clients(&self, fill: AffinityFill) {
        if let Some(table) = self.0.of(fill.family) {
            lock(table).clients = Some((fill.clients, fill.room));
        }
    }

    pub(super) fn encode(&self, to: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let tables: Vec<_> = self.read().collect();
        no_local(to, &tables)?;
        let mut total = |name: &str, help: &str, of: fn(&Totals) -> usize| {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (family, table) in &tables {
                let labels = [("ip_family", family_label(*family))];
                gauge(of(&table.totals)).encode(metric.encode_family(&labels)?)?;
            }
            Ok::<_, fmt::Error>(())
        };
        total("kproxy_services", "Services with a ClusterIP", |it| {
            it.services
        })?;
        total("kproxy_service_ports", "Their ports", |it| it.ports)?;
        total(
            "kproxy_endpoints",
            "Endpoints in all EndpointSlices",
            |it| it.endpoints,
        )?;
        total(
            "kproxy_classes",
            "Classes: chains that each commit walks",
            |it| it.classes,
        )?;
        total(
            "kproxy_classes_max",
            "As many classes as there may be",
            |it| wide(it.classes_max),
        )?;
        total("kproxy_endpoint_groups", "Groups of endpoints", |it| {
            it.groups
        })?;
        total(
            "kproxy_endpoint_groups_max",
            "As many groups as there may be",
            |it| wide(it.groups_max),
        )?;
        let mut fill = |name: &str, help: &str, of: fn(&SetFill) -> Option<u32>| {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (family, table) in &tables {
                for set in &table.sets {
                    if let Some(number) = of(set) {
                        let labels = [("ip_family", family_label(*family)), ("set", set.set)];
                        ConstGauge::new(number).encode(metric.encode_family(&labels)?)?;
                    }
                }
            }
            Ok::<_, fmt::Error>(())
        };
        fill("kproxy_set_rows", "Rows of a set or map", |it| it.rows)?;
        fill(
            "kproxy_set_rows_max",
            "Rows there is room for; a bigger set replaces one that is full",
            |it| it.room,
        )?;
        fill(
            "kproxy_set_rows_limit",
            "Rows there is room for in the biggest such set: Services that need more are not served",
            |it| it.limit,
        )?;
        let mut clients = |name: &str, help: &str, of: fn((u32, u32)) -> u32| {
            let mut metric = to.encode_descriptor(name, help, None, MetricType::Gauge)?;
            for (family, table) in &tables {
                if let Some(clients) = table.clients {
                    let labels = [("ip_family", family_label(*family))];
                    ConstGauge::new(of(clients)).encode(metric.encode_family(&labels)?)?;
                }
            }
            Ok::<_, fmt::Error>(())
        };
        clients(
            "kproxy_affinity_clients",
            "Clients whose endpoint is remembered",
            |(clients, _)| clients,
        )?;
        clients(
            "kproxy_affinity_clients_max",
            "Clients there is room for: further ones are served, but not remembered",
            |(_, room)| room,
        )
    }
}

/// kube-proxy's, a gauge in spite of its name.
fn no_local(to: &mut DescriptorEncoder<'_>, tables: &[(Family, Table)]) -> fmt::Result {
    let mut metric = to.encode_descriptor(
        "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
        "Service ports of traffic policy Local with endpoints, but none on this node",
        None,
        MetricType::Gauge,
    )?;
    for (family, table) in tables {
        let Totals {
            no_local_internal,
            no_local_external,
            ..
        } = table.totals;
        for (policy, count) in [
            ("internal", no_local_internal),
            ("external", no_local_external),
        ] {
            let labels = [
                ("ip_family", family_label(*family)),
                ("traffic_policy", policy),
            ];
            gauge(count).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

fn gauge(count: usize) -> ConstGauge<u64> {
    ConstGauge::new(u64::try_from(count).unwrap_or(u64::MAX))
}

fn wide(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// Each edit leaves it whole, so poison says nothing.
fn lock(table: &Mutex<Table>) -> MutexGuard<'_, Table> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
