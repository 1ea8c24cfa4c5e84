//! The dependency arrows between our crates, and between the layers of svc-planner, point one way.

mod modules;

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use crate::sh;

/// Crate → our crates it may depend on. Tests, benches and tasks may use everything.
const ALLOWED: &[(&str, &[&str])] = &[
    ("nl-codec", &[]),
    ("nft-batch", &["nl-codec"]),
    ("svc-planner", &["nl-codec"]),
    ("netns-lab", &[]),
    (
        "kproxy",
        &["netns-lab", "nft-batch", "nl-codec", "svc-planner"],
    ),
    ("nft-replay", &["netns-lab", "nft-batch", "nl-codec"]),
    ("nft-selftest", &["netns-lab", "nft-batch", "nl-codec"]),
];

/// Crates that a pure crate must never pull in, at any depth.
const IMPURE: &[&str] = &["libc", "rustix", "nix", "netlink-sys", "tokio", "mio"];

/// Checks direct arrows, and that the pure crates stay pure at any depth.
pub(crate) fn check() -> Result<()> {
    let metadata = sh::metadata()?;
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let ours: Vec<_> = metadata
        .packages
        .iter()
        .filter(|package| metadata.workspace_members.contains(&package.id))
        .collect();
    let mut wrong = Vec::new();
    for package in &ours {
        let Some(allowed) = allowed.get(package.name.as_str()) else {
            continue;
        };
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            let is_ours = ours.iter().any(|other| other.name == name);
            // A dev-dependency adds no arrow for users of the crate.
            if is_ours && dependency.kind.as_deref() != Some("dev") && !allowed.contains(&name) {
                wrong.push(format!("{} must not depend on {name}", package.name));
            }
        }
    }
    for (pure, features) in [
        ("svc-planner", None),
        ("nl-codec", Some("--no-default-features")),
    ] {
        let mut command = sh::cargo(&["tree", "--locked", "--edges", "normal", "--prefix", "none"]);
        command.args(["--package", pure]).args(features);
        let output = command.output()?;
        if !output.status.success() {
            bail!(
                "{} failed: {}",
                sh::shown(&command),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        let tree = String::from_utf8_lossy(&output.stdout);
        for line in tree.lines() {
            let name = line.split(' ').next().unwrap_or_default();
            if IMPURE.contains(&name) {
                wrong.push(format!("{pure} is pure but pulls in {name}"));
            }
        }
    }
    wrong.extend(modules::wrong(&sh::root().join("crates/svc-planner/src"))?);
    if wrong.is_empty() {
        println!("arrows: ok ({} crates)", ours.len());
        return Ok(());
    }
    bail!("{}", wrong.join("\n"));
}
