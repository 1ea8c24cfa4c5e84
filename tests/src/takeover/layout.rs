//! Chains and sets of the tables, as nft shows them.

use anyhow::{Result, ensure};
use kproxy::engine::TABLE;
use netns_lab::Namespace;
use serde_json::{Value as Json, json};

use crate::ruleset;

/// The only base chains that kube-proxy empties, and so the only ones there may be: others would
/// go on judging packets by rules that nobody keeps up. Name, type, hook, priority.
const BASE_CHAINS: [(&str, &str, &str, i64); 8] = [
    ("filter-prerouting-pre-dnat", "filter", "prerouting", -110),
    ("filter-output-pre-dnat", "filter", "output", -110),
    ("filter-input", "filter", "input", 0),
    ("filter-forward", "filter", "forward", 0),
    ("filter-output", "filter", "output", 0),
    ("nat-prerouting", "nat", "prerouting", -100),
    ("nat-output", "nat", "output", -100),
    ("nat-postrouting", "nat", "postrouting", 100),
];
/// kube-proxy's sets and maps; those that we have as well must be the same.
const SETS: [&str; 9] = [
    "cluster-ips",
    "nodeport-ips",
    "hairpin-connections",
    "service-ips",
    "service-nodeports",
    "no-endpoint-services",
    "no-endpoint-nodeports",
    "firewall-ips",
    "localhost-nodeport-reject-ports",
];

/// What `nft -j list ruleset` shows, without rules.
#[derive(Debug)]
pub struct Layout {
    chains: Vec<Json>,
    /// Sets and maps.
    sets: Vec<Json>,
}

impl Layout {
    /// Reads the tables `kube-proxy` of a namespace.
    ///
    /// # Errors
    /// When nft fails.
    pub fn read(namespace: &Namespace) -> Result<Self> {
        // Elements are left out: there are listings enough that have them.
        let text = ruleset::nft(namespace, &["-j", "-t", "list", "ruleset"])?;
        let parsed: Json = serde_json::from_str(&text)?;
        let mut layout = Self {
            chains: Vec::new(),
            sets: Vec::new(),
        };
        for object in parsed["nftables"].as_array().into_iter().flatten() {
            for kind in ["chain", "set", "map"] {
                let list = match kind {
                    "chain" => &mut layout.chains,
                    _ => &mut layout.sets,
                };
                list.extend(
                    Some(&object[kind])
                        .filter(|it| it["table"] == TABLE)
                        .cloned(),
                );
            }
        }
        Ok(layout)
    }

    /// Whether there is nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.sets.is_empty()
    }

    /// Names that only kube-proxy gives; and what is missing of ours.
    #[must_use]
    pub fn foreign(&self) -> Vec<String> {
        let ours_too = ["nodeport-ips", "hairpin-connections"];
        let sets = self.sets.iter().map(name).filter(|name| {
            name.starts_with("affinity-") || (SETS.contains(name) && !ours_too.contains(name))
        });
        let chains = self.chains.iter();
        let chains = chains.filter(|chain| {
            let base = BASE_CHAINS.iter().any(|(base, ..)| *base == name(chain));
            name(chain).contains('/')
                || name(chain) == "mark-for-masquerade"
                || (!chain["hook"].is_null() && !base)
        });
        let mut found: Vec<_> = sets.chain(chains.map(name)).map(str::to_owned).collect();
        for family in ["ip", "ip6"] {
            let has = |wanted: &str| {
                self.sets
                    .iter()
                    .any(|set| set["family"] == family && name(set).starts_with(wanted))
            };
            if !has("endpoints") {
                found.push(format!("no table of ours in family {family}"));
            }
        }
        found
    }

    /// Whether kube-proxy can take the tables over.
    ///
    /// # Errors
    /// What is in its way.
    pub fn check(&self) -> Result<()> {
        for family in ["ip", "ip6"] {
            let chains = self.chains.iter().filter(|chain| chain["family"] == family);
            let mut bases: Vec<_> = chains
                .filter(|chain| !chain["hook"].is_null())
                .map(|chain| json!([chain["name"], chain["type"], chain["hook"], chain["prio"]]))
                .map(|chain| chain.to_string())
                .collect();
            bases.sort();
            let mut wanted = BASE_CHAINS.map(|chain| json!(chain).to_string());
            wanted.sort();
            ensure!(bases == wanted, "base chains of {family}: {bases:?}");
            let address = if family == "ip" {
                "ipv4_addr"
            } else {
                "ipv6_addr"
            };
            for set in self.sets.iter().filter(|set| set["family"] == family) {
                check_set(set, address)?;
            }
        }
        for chain in &self.chains {
            ensure!(!name(chain).contains('/'), "chain {}", name(chain));
        }
        Ok(())
    }
}

fn name(object: &Json) -> &str {
    object["name"].as_str().unwrap_or_default()
}

fn check_set(set: &Json, address: &str) -> Result<()> {
    let name = name(set);
    ensure!(!name.starts_with("affinity-"), "set {name}");
    if !SETS.contains(&name) {
        return Ok(());
    }
    let frontend = json!([address, "inet_proto", "inet_service"]);
    let (key, data) = match name {
        "cluster-ips" | "nodeport-ips" => (json!(address), Json::Null),
        "hairpin-connections" => (
            json!([address, address, "inet_proto", "inet_service"]),
            Json::Null,
        ),
        "service-ips" | "no-endpoint-services" | "firewall-ips" => (frontend, json!("verdict")),
        _ => (json!(["inet_proto", "inet_service"]), json!("verdict")),
    };
    ensure!(
        (&set["type"], &set["map"]) == (&key, &data)
            && set["flags"].is_null()
            && set["size"].is_null(),
        "not kube-proxy's set: {set}"
    );
    Ok(())
}
