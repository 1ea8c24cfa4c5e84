//! A selection of what `cargo xtask differential` compares with the real kube-proxy.

use anyhow::Result;
use e2e::{
    control_plane::ControlPlane,
    differential::{Campaign, Kproxy, Replaced, scenario_files},
};

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

/// Scenarios in which processes are replaced at each change.
const RESTARTED: [&str; 1] = ["endpoint-changes"];
const TAKEN_OVER: [&str; 1] = ["load-balancer-mode"];

#[test]
fn kube_proxy_decides_the_same() -> Result<()> {
    compare(None, &SELECTION, RANDOM)
}

#[test]
fn kube_proxy_decides_the_same_on_one_api_server() -> Result<()> {
    compare(Some(kproxy(Replaced::Never)), &WATCHED, 1)
}

#[test]
fn restarts_and_take_overs_decide_the_same() -> Result<()> {
    compare(Some(kproxy(Replaced::ByItself)), &RESTARTED, 0)?;
    compare(Some(kproxy(Replaced::ByKubeProxy)), &TAKEN_OVER, 0)
}

fn kproxy(replaced: Replaced) -> Kproxy {
    Kproxy {
        program: env!("CARGO_BIN_EXE_kproxy-under-test").into(),
        replaced,
    }
}

fn compare(kproxy: Option<Kproxy>, selection: &[&str], random: u64) -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    // Where processes are replaced, affinity is lost on kube-proxy's side.
    let replaced = kproxy
        .as_ref()
        .is_some_and(|it| it.replaced != Replaced::Never);
    let long = std::env::var_os("KPROXY_LONG").is_some() && !replaced;
    let (names, random): (&[&str], _) = if long { (&[], 50) } else { (selection, random) };
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut campaign = Campaign::start(kproxy)?;
    campaign.scenarios(&scenario_files(&names)?);
    campaign.random(random, 1);
    campaign.finish(long)
}
