//! What a table may hold for kube-proxy to be able to take it over (kubernetes/kubernetes,
//! pkg/proxy/nftables/proxier.go): a full sync adds its sets and refills its base chains, whatever
//! is there, and deletes what looks like its own leftovers.

use svc_planner::plan::{DataType, Hook, KeyType, Set, Transaction};

/// kube-proxy's sets and maps. Adding one that is there with another type fails the whole sync.
const SETS: [(&str, KeyType, DataType); 9] = [
    ("cluster-ips", KeyType::Address, DataType::None),
    ("nodeport-ips", KeyType::Address, DataType::None),
    ("hairpin-connections", KeyType::Hairpin, DataType::None),
    ("service-ips", KeyType::Frontend, DataType::Verdict),
    ("service-nodeports", KeyType::NodePort, DataType::Verdict),
    ("no-endpoint-services", KeyType::Frontend, DataType::Verdict),
    (
        "no-endpoint-nodeports",
        KeyType::NodePort,
        DataType::Verdict,
    ),
    ("firewall-ips", KeyType::Frontend, DataType::Verdict),
    (
        "localhost-nodeport-reject-ports",
        KeyType::NodePort,
        DataType::Verdict,
    ),
];
/// kube-proxy's base chains, the only ones that it empties and so the only ones there may be.
const BASE_CHAINS: [(&str, Hook, i32); 8] = [
    ("filter-prerouting-pre-dnat", Hook::Prerouting, -110),
    ("filter-output-pre-dnat", Hook::Output, -110),
    ("filter-input", Hook::Input, 0),
    ("filter-forward", Hook::Forward, 0),
    ("filter-output", Hook::Output, 0),
    ("nat-prerouting", Hook::Prerouting, -100),
    ("nat-output", Hook::Output, -100),
    ("nat-postrouting", Hook::Postrouting, 100),
];

/// Checks all that a transaction creates.
pub(crate) fn check(transaction: &Transaction) {
    transaction.add_sets.iter().for_each(check_set);
    for chain in &transaction.add_chains {
        // It deletes chains with a slash in the name, and while ours lead there it cannot.
        assert!(!chain.name.contains('/'), "chain {}", chain.name);
        if let Some(base) = chain.base {
            let known = BASE_CHAINS.contains(&(&*chain.name, base.hook, base.priority));
            assert!(known, "base chain {}: {base:?}", chain.name);
        }
    }
}

fn check_set(set: &Set) {
    // It deletes sets of that name, and while ours use one it cannot.
    assert!(!set.name.starts_with("affinity-"), "set {}", set.name);
    let namesake = SETS.iter().find(|(name, ..)| *name == &*set.name);
    if let Some((name, key, data)) = namesake {
        assert_eq!((set.key, set.data), (*key, *data), "set {name}");
        assert!(!set.interval && !set.dynamic, "flags of set {name}");
        assert_eq!(set.size, None, "kube-proxy could not fill set {name}");
    }
}

#[cfg(test)]
mod tests {
    use svc_planner::plan::Family;

    use super::*;

    fn set(name: &str) -> Set {
        Set {
            name: name.into(),
            key: KeyType::Address,
            data: DataType::None,
            interval: false,
            dynamic: false,
            size: None,
        }
    }

    #[test]
    fn sets_that_kube_proxy_cannot_use_are_found() {
        check_set(&set("cluster-ips"));
        for wrong in [
            set("service-ips"),
            set("affinity-x"),
            Set {
                size: Some(1536),
                ..set("cluster-ips")
            },
        ] {
            let transaction = Transaction {
                add_sets: vec![wrong],
                ..Transaction::new(Family::Ipv4)
            };
            std::panic::catch_unwind(|| check(&transaction)).unwrap_err();
        }
    }
}
