//! docs/METRICS.md against what the program says.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod faulty;
mod scraped;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use faulty::{add, node, with_engine};
use kproxy::apiserver::ApiBoard;
use kproxy::engine::Saver;
use kproxy::health::Health;
use kproxy::metrics::Sources;
use kproxy::proxy::{Periods, Proxy};

const DOCUMENT: &str = include_str!("../../../docs/METRICS.md");
/// Not ours to rename: kube-proxy's gauge that ends like a counter.
const ODD: &str = "kubeproxy_sync_proxy_rules_no_local_endpoints_total";

/// What the document says of a metric.
#[derive(Debug, Default, PartialEq, Eq)]
struct Family {
    kind: String,
    labels: BTreeSet<String>,
}

#[test]
fn every_metric_is_in_the_document_as_it_is() {
    let told = families(&scrape(""));
    let documented = documented();
    for (name, family) in &told {
        let line = documented
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in docs/METRICS.md"));
        assert_eq!(family.kind, line.kind, "{name}");
        // Some have no series yet.
        assert!(
            family.labels.is_subset(&line.labels),
            "{name}: {family:?} {line:?}"
        );
    }
    for name in documented.keys() {
        assert!(told.contains_key(name), "{name} is not told");
    }
}

#[test]
fn promtool_finds_nothing_else_to_say() {
    for page in ["", "/slis"] {
        let scrape = scrape(page);
        let Some(program) = test_support::promtool::program() else {
            test_support::skip("promtool (cargo xtask test fetches it)");
            return;
        };
        let mut promtool = Command::new(program);
        promtool
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped());
        let mut promtool = promtool.spawn().unwrap();
        promtool
            .stdin
            .take()
            .unwrap()
            .write_all(scrape.as_bytes())
            .unwrap();
        let output = promtool.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let others: Vec<_> = said.lines().filter(|line| !line.starts_with(ODD)).collect();
        assert!(others.is_empty(), "{others:?}");
    }
}

#[test]
fn both_forms_tell_the_same() {
    let plain = scrape("");
    let open = ask("/metrics", "application/openmetrics-text;version=1.0.0");
    assert!(open.ends_with("# EOF\n"));
    // Only their counters are named in another way.
    let names = |text: &str| -> BTreeSet<String> {
        let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
        types
            .map(|line| {
                let (name, kind) = line.split_once(' ').unwrap();
                match kind {
                    "counter" => name.strip_suffix("_total").unwrap_or(name).to_owned(),
                    _ => name.to_owned(),
                }
            })
            .collect()
    };
    assert_eq!(names(&plain), names(&open));
    assert!(plain.contains(",le=\"0.001\"}") && plain.contains(",le=\"+Inf\"}"));
    assert!(
        plain.contains("network_programming_duration_seconds_bucket{ip_family=\"IPv4\",le=\"1\"}")
    );
}

fn scrape(page: &str) -> String {
    ask(&format!("/metrics{page}"), "")
}

/// Asks a loop that has programmed two Services.
fn ask(path: &str, accept: &str) -> String {
    let (path, accept) = (path.to_owned(), accept.to_owned());
    let (sender, answer) = std::sync::mpsc::channel();
    with_engine(move |engine| {
        let mut proxy = Proxy::new(engine, Saver::new(None), Periods::default());
        proxy.apply(node(&["192.0.2.1", "2001:db8::1"]));
        add(proxy.engine(), 2);
        proxy.sync();
        let clock = proxy.engine().clock();
        let patience = Duration::from_secs(60);
        let sources = Sources {
            health: Arc::new(Health::new(proxy.board(), clock, patience)),
            sync: proxy.metrics(),
            conntrack: Arc::default(),
            listeners: Arc::default(),
            skipped: Arc::default(),
            events: Some(Arc::default()),
            api: Some((scraped::requests(), ApiBoard::default())),
            gates: scraped::gates(),
        };
        let page = scraped::page(sources, &path, &accept);
        sender.send(page).unwrap();
    });
    answer.recv().unwrap()
}

/// Families of a scrape, with the labels of their series.
fn families(scrape: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    let mut name = String::new();
    for line in scrape.lines() {
        if let Some(line) = line.strip_prefix("# TYPE ") {
            let (family, kind) = line.split_once(' ').unwrap();
            name = family.to_owned();
            families.entry(name.clone()).or_default().kind = kind.to_owned();
        } else if !line.starts_with('#')
            && let Some((_, labels)) = line.split_once('{')
        {
            let (labels, _) = labels.rsplit_once('}').unwrap();
            let labels = labels
                .split("\",")
                .map(|label| label.split('=').next().unwrap());
            let family = families.get_mut(&name).unwrap();
            family
                .labels
                .extend(labels.filter(|it| *it != "le").map(str::to_owned));
        }
    }
    families
}

/// Rows of the first two tables.
fn documented() -> BTreeMap<String, Family> {
    let (present, _) = DOCUMENT.split_once("\n## Absent").unwrap();
    let rows = present.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let labels = cells[3]
            .split(',')
            .map(str::trim)
            .filter(|it| !it.is_empty());
        let family = Family {
            kind: cells[2].to_owned(),
            labels: labels.map(str::to_owned).collect(),
        };
        (cells[1].trim_matches('`').to_owned(), family)
    })
    .collect()
}
