//! Our metrics beside the real kube-proxy's: names, types, labels and buckets are the same, or
//! docs/METRICS.md says that we have no such thing.

#[path = "../../crates/kproxy/tests/scraped/mod.rs"]
mod scraped;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, InPlace, InPlaceOptions, KubeProxy, Method, Request, Settings},
    takeover::World,
};
use kproxy::apiserver::ApiBoard;
use kproxy::engine::{Engine, Saver};
use kproxy::health::Health;
use kproxy::metrics::Sources;
use kproxy::netns::Netns;
use kproxy::proxy::{Periods, Proxy};
use netns_lab::Namespace;
use serde_json::json;
use svc_planner::Config;

const DOCUMENT: &str = include_str!("../../docs/METRICS.md");
const REJECTED: &str = "kubeproxy_nftables_localhost_nodeport_rejected_packets_total";
/// How long kube-proxy may take to have told everything.
const PATIENCE: Duration = Duration::from_secs(120);

/// One metric family of a scrape.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
    /// Values of `le`, of all series.
    buckets: BTreeSet<String>,
}

#[test]
fn every_metric_of_kube_proxy_is_ours_or_documented_as_absent() -> Result<()> {
    let Some((control, world, kube_proxy)) = gated_kube_proxy()? else {
        return Ok(());
    };
    // A change with a trigger time, and so a partial sync that is measured from it.
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "measured", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "measured"},
            "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2099-01-01T00:00:00Z"}},
        "addressType": "IPv4", "ports": [{"port": 80}],
        "endpoints": [{"addresses": ["192.0.2.80"]}]
    });
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let made = control
        .client()
        .send_one(&Request::new(Method::Post, path).with(slice))?;
    ensure!(made.is_ok(), "{}", made.message());
    let deadline = Instant::now() + PATIENCE;
    while kube_proxy
        .metric("kubeproxy_network_programming_duration_seconds_count")?
        .is_none()
    {
        ensure!(Instant::now() < deadline, "kube-proxy measured no change");
        // It tells nobody but who asks.
        std::thread::sleep(Duration::from_millis(200));
    }
    let theirs = families(&kube_proxy.metrics()?)?;
    kube_proxy.stop()?;
    ensure!(theirs.len() > 50, "{} families only", theirs.len());

    let ours = families(&ours(world.node())?)?;
    let absent = absent();
    for (name, theirs) in &theirs {
        let excused = absent.iter().any(|pattern| matches(pattern, name));
        let Some(ours) = ours.get(name) else {
            ensure!(excused, "{name} is neither ours nor documented as absent");
            continue;
        };
        ensure!(!excused, "{name} is documented as absent, but there");
        ensure!(
            ours.kind == theirs.kind,
            "{name}: {} or {}",
            ours.kind,
            theirs.kind
        );
        // Families of either may have no series yet.
        if !ours.labels.is_empty() && !theirs.labels.is_empty() {
            ensure!(
                ours.labels == theirs.labels,
                "{name}: {ours:?}, theirs {theirs:?}"
            );
        }
        if !ours.buckets.is_empty() && !theirs.buckets.is_empty() {
            ensure!(
                ours.buckets == theirs.buckets,
                "{name}: {ours:?}, theirs {theirs:?}"
            );
        }
    }
    // What the comparison is for was there to be compared.
    for name in [
        "kubeproxy_sync_full_proxy_rules_duration_seconds",
        "kubeproxy_sync_partial_proxy_rules_duration_seconds",
        "kubeproxy_network_programming_duration_seconds",
    ] {
        let both = [&theirs, &ours].map(|it| it.get(name).is_some_and(|it| it.buckets.len() > 10));
        ensure!(both == [true; 2], "{name}: {both:?}");
    }
    Ok(())
}

/// kube-proxy with that gate, at work on a node of a cluster.
fn gated_kube_proxy() -> Result<Option<(ControlPlane, World, KubeProxy)>> {
    let Some((control, world)) = World::with_cluster()? else {
        return Ok(None);
    };
    let mut kube_proxy = KubeProxy::start(&control, world.node(), gated())?;
    kube_proxy.settle(&control, world.node())?;
    Ok(Some((control, world, kube_proxy)))
}

/// Its settings.
fn gated() -> Settings {
    let mut settings = World::settings();
    let gates = json!({scraped::GATE: true, "AllBeta": true});
    settings.configuration.push(("featureGates", gates));
    settings
}

/// Both count the same packets, and say the same of their gates.
#[test]
fn rejected_packets_and_gates_are_told_as_kube_proxy_tells_them() -> Result<()> {
    let Some((control, world, kube_proxy)) = gated_kube_proxy()? else {
        return Ok(());
    };
    refused(&world)?;
    let theirs = kube_proxy.metrics()?;
    kube_proxy.stop()?;
    let options = InPlaceOptions {
        node_name: "node-a".to_owned(),
        configuration: gated().configuration,
        ..InPlaceOptions::default()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_kproxy-under-test"));
    let mut kproxy = InPlace::start(&control, world.node(), program, &options)?;
    kproxy.until_ready(200)?;
    refused(&world)?;
    let ours = kproxy.metrics("/metrics")?.text;
    // A first segment may be sent twice.
    let rejected = |page: &str| -> BTreeMap<String, bool> {
        let lines = page.lines().filter_map(|line| line.strip_prefix(REJECTED));
        let series = lines.filter_map(|line| line.rsplit_once(' '));
        let any = |count: &str| count.parse::<f64>().is_ok_and(|count| count > 0.0);
        series
            .map(|(labels, count)| (labels.to_owned(), any(count)))
            .collect()
    };
    let (counted, theirs_counted) = (rejected(&ours), rejected(&theirs));
    let tcp = "{ip_family=\"IPv4\",protocol=\"TCP\"}";
    ensure!(counted.get(tcp) == Some(&true), "{counted:?}");
    ensure!(
        counted == theirs_counted,
        "{counted:?}, theirs {theirs_counted:?}"
    );
    let gates: Vec<_> = ours
        .lines()
        .filter(|line| line.starts_with("kubernetes_feature_enabled{"))
        .collect();
    ensure!(gates.len() >= 5, "{gates:?}");
    for gate in gates {
        ensure!(
            theirs.lines().any(|line| line == gate),
            "not kube-proxy's: {gate}"
        );
    }
    ensure!(kproxy.stop()?.success());
    Ok(())
}

/// Somebody on the node connects to a node port at a loopback address, and is refused.
fn refused(world: &World) -> Result<()> {
    let connected = world.node().run(|| TcpStream::connect("127.0.0.1:30084"))?;
    let error = connected.err().context("somebody listens")?;
    ensure!(error.kind() == ErrorKind::ConnectionRefused, "{error}");
    Ok(())
}

/// What a loop tells that has programmed nothing but its table.
fn ours(node: &Namespace) -> Result<String> {
    node.run(|| {
        let engine = Engine::open(&Netns::Current, |_| Config::default())?;
        let clock = engine.clock();
        let mut proxy = Proxy::new(engine, Saver::new(None), Periods::default());
        proxy.sync();
        let patience = Duration::from_secs(60);
        let sources = Sources {
            health: Arc::new(Health::new(proxy.board(), clock, patience)),
            sync: proxy.metrics(),
            conntrack: Arc::default(),
            listeners: Arc::default(),
            skipped: Arc::default(),
            events: None,
            api: Some((scraped::requests(), ApiBoard::default())),
            gates: scraped::gates(),
        };
        Ok(scraped::page(sources, "/metrics", ""))
    })?
}

fn families(scrape: &str) -> Result<BTreeMap<String, Family>> {
    let mut families = BTreeMap::<String, Family>::new();
    let mut name = String::new();
    for line in scrape.lines() {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            let (family, kind) = line.split_once(' ').context("a type")?;
            name = family.to_owned();
            families.entry(name.clone()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#')
            && let Some((series, labels)) = line.split_once('{')
            && series.starts_with(&name)
        {
            let family = families.get_mut(&name).context("a family")?;
            let (labels, _) = labels.rsplit_once('}').context("labels")?;
            for label in labels.split("\",").filter(|label| !label.is_empty()) {
                let (label, value) = label.split_once("=\"").context("a label")?;
                if label == "le" {
                    family
                        .buckets
                        .insert(value.trim_end_matches('"').to_owned());
                } else {
                    family.labels.insert(label.to_owned());
                }
            }
        }
    }
    Ok(families)
}

/// Names, and beginnings of names, that the document says we have not.
fn absent() -> Vec<&'static str> {
    let (_, after) = DOCUMENT.split_once("\n## Absent").unwrap_or_default();
    let (table, _) = after.split_once("\n## ").unwrap_or((after, ""));
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    cells
        .flat_map(|cell| cell.split(','))
        .map(|name| name.trim().trim_matches('`'))
        .collect()
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == pattern,
    }
}
