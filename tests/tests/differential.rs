//! A selection of what `cargo xtask differential` compares with the real kube-proxy.

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

#[test]
fn kube_proxy_decides_the_same() -> Result<()> {
    if let Err(missing) = ControlPlane::available() {
        skip(&missing.to_string());
        return Ok(());
    }
    let long = std::env::var_os("KPROXY_LONG").is_some();
    let (names, random): (&[&str], _) = if long {
        (&[], 50)
    } else {
        (&SELECTION, RANDOM)
    };
    let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
    let mut campaign = Campaign::start(None)?;
    campaign.scenarios(&scenario_files(&names)?);
    campaign.random(random, 1);
    campaign.finish(long)
}
