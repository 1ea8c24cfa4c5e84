//! `v1` Node.

use svc_planner::object::{Change, Node};

use super::{ObjectId, Problem, Report};
use crate::api;

/// The own Node as the planner sees it. Addresses: all InternalIPs, then all ExternalIPs.
#[must_use]
pub fn node(id: &ObjectId, api: &api::Node<'_>, problems: &mut Vec<Problem>) -> Change {
    let mut report = Report::new(id, problems);
    let mut addresses = smallvec::SmallVec::new();
    for wanted in ["InternalIP", "ExternalIP"] {
        for (i, entry) in api.status.addresses.iter().enumerate() {
            if entry.kind.as_deref() == Some(wanted) {
                let text = entry.address.as_deref().unwrap_or_default();
                let field = format_args!("status.addresses[{i}].address");
                addresses.extend(report.address(field, text));
            }
        }
    }
    let pod_cidrs = if api.spec.pod_cidrs.is_empty() {
        let single = api.spec.pod_cidr.as_deref().filter(|text| !text.is_empty());
        single
            .and_then(|text| report.prefix("spec.podCIDR", text))
            .into_iter()
            .collect()
    } else {
        let all = api.spec.pod_cidrs.iter().enumerate();
        all.filter_map(|(i, text)| report.prefix(format_args!("spec.podCIDRs[{i}]"), text))
            .collect()
    };
    Change::Node(Node {
        name: id.name.clone(),
        addresses,
        pod_cidrs,
        zone: api.metadata.labels.zone.as_deref().map(Into::into),
        eligible: is_eligible(api),
    })
}

/// Of the cluster autoscaler, on Nodes that it is about to remove, whatever its value and effect.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";

/// As kube-proxy decides it (`ProxyHealthServer.SyncNode`).
fn is_eligible(api: &api::Node<'_>) -> bool {
    let to_be_deleted = |taint: &api::Taint<'_>| taint.key.as_deref() == Some(TO_BE_DELETED);
    api.metadata.deletion_timestamp.is_none() && !api.spec.taints.iter().any(to_be_deleted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Kind;

    #[test]
    fn nodes_that_are_about_to_go_are_not_eligible() {
        let eligible = |metadata, taints| {
            let json = json!({"metadata": metadata, "spec": {"taints": taints}});
            let api: api::Node<'_> = serde::Deserialize::deserialize(&json).unwrap();
            is_eligible(&api)
        };
        let named = json!({"name": "n1"});
        assert!(eligible(named.clone(), json!(null)));
        assert!(eligible(
            named.clone(),
            json!([{"key": "other", "effect": "NoSchedule"}])
        ));
        for effect in ["NoSchedule", "PreferNoSchedule", "NoExecute"] {
            let taint =
                json!([{"key": "a"}, {"key": TO_BE_DELETED, "effect": effect, "value": "9"}]);
            assert!(!eligible(named.clone(), taint), "{effect}");
        }
        let leaving = json!({"name": "n1", "deletionTimestamp": "2026-11-30T12:00:00Z"});
        assert!(!eligible(leaving, json!([])));
    }

    #[test]
    fn internal_addresses_come_first() {
        let json = json!({
            "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}},
            "spec": {"podCIDR": "10.244.1.0/24", "podCIDRs": ["10.244.1.0/24", "fd01::/64"]},
            "status": {"addresses": [
                {"type": "ExternalIP", "address": "192.0.2.1"},
                {"type": "Hostname", "address": "n1"},
                {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalIP", "address": "what"}
            ]}
        });
        let api: api::Node<'_> = serde::Deserialize::deserialize(&json).unwrap();
        let id = ObjectId::new(Kind::Node, &api.metadata).unwrap();
        let mut problems = Vec::new();
        let Change::Node(node) = node(&id, &api, &mut problems) else {
            panic!()
        };
        let addresses: Vec<_> = node.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.0.0.1", "192.0.2.1"]);
        assert_eq!(node.pod_cidrs.len(), 2);
        assert_eq!(node.zone.as_deref(), Some("z1"));
        assert_eq!(problems.len(), 1);
        assert_eq!(
            problems[0].to_string(),
            "Node n1: status.addresses[3].address: \"what\" is not an IP address"
        );
    }
}
