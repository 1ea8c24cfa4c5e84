//! A selection of what `cargo xtask differential` compares with the real kube-proxy.

use std::path::PathBuf;

use anyhow::Result;
use e2e::{
    control_plane::ControlPlane,
    differential::{Campaign, scenario_files},
};
use test_support::skip;

/// Scenarios that between them have every kind of frontend, verdict and source.
const SELECTION: [&str; 4] = [
    "cluster-ip",
    "external-policy",
    "local-policies",
    "masquerade-detector",
];
/// Made-up histories.
const RANDOM: u64 = 2;
/// Scenarios in which both proxies watch the API server: changes of Services, slices, the Node and
/// ServiceCIDRs.
const WATCHED: [&str; 4] = [
    "endpoint-changes",
    "load-balancer-mode",
    "node-changes",
    "service-cidr-later",
];

#[test]
fn kube_proxy_decides_the_same() -> Result<()> {
    compare(None, &SELECTION, RANDOM)
}

#[test]
fn kube_proxy_decides_the_same_on_one_api_server() -> Result<()> {
    let kproxy = env!("CARGO_BIN_EXE_kproxy-under-test");
    compare(Some(kproxy.into()), &WATCHED, 1)
}

fn compare(kproxy: Option<PathBuf>, selection: &[&str], random: u64) -> Result<()> {
    if let Err(missing) = ControlPlane::available() {
        skip(&missing.to_string());
        return Ok(());
    }
    let long = std::env::var_os("KPROXY_LONG").is_some();
    let (names, random): (&[&str], _) = if long { (&[], 50) } else { (selection, random) };
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut campaign = Campaign::start(kproxy)?;
    campaign.scenarios(&scenario_files(&names)?);
    campaign.random(random, 1);
    campaign.finish(long)
}
