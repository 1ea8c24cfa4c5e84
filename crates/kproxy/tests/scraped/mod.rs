//! A scrape of metrics without a program around them.
#![allow(clippy::panic, reason = "in tests a panic is a verdict")]

use core::time::Duration;

use kproxy::apiserver::{Asked, RequestFacts};
use kproxy::config::FeatureGates;
use kproxy::listeners::{Ask, Reply};
use kproxy::metrics::{MetricsSite, Sources};

/// The gate that has metrics of its own.
pub(crate) const GATE: &str = "KubeProxyNFTablesLocalhostNodePorts";

/// A page of the site.
pub(crate) fn page(sources: Sources, path: &str, accept: &str) -> String {
    let pages = MetricsSite::new(sources.registry()).pages();
    let ask = Ask {
        path,
        query: "",
        accept,
        is_local: true,
    };
    match pages(&ask) {
        Reply::Now(response) => response.into_body(),
        Reply::Later(_) => panic!("{path} is not told at once"),
    }
}

/// With that on whose metrics are there only then.
pub(crate) fn gates() -> FeatureGates {
    let mut gates = FeatureGates::default();
    gates.set(GATE, true);
    gates
}

/// Facts of one request: before the first one there are no series.
pub(crate) fn requests() -> RequestFacts {
    let facts = RequestFacts::default();
    let asked = Asked {
        method: "GET",
        host: "192.0.2.1:6443",
    };
    facts.waited(&asked, Duration::ZERO);
    facts.answered(&asked, "200", Duration::from_millis(3));
    facts.sent(&asked, 0);
    facts.received(&asked, 100);
    facts.plugin_called("no_error", 0);
    facts
}
