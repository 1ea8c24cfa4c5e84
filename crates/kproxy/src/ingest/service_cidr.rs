//! `networking.k8s.io/v1` ServiceCIDR.

use svc_planner::object::Change;

use super::{ObjectId, Problem, Report};
use crate::api;

/// The ranges ClusterIPs come from.
#[must_use]
pub fn service_cidr(
    id: &ObjectId,
    api: &api::ServiceCidr<'_>,
    problems: &mut Vec<Problem>,
) -> Change {
    let mut report = Report::new(id, problems);
    let all = api.spec.cidrs.iter().enumerate();
    Change::ServiceCidr {
        name: id.name.clone(),
        cidrs: all
            .filter_map(|(i, text)| report.prefix(format_args!("spec.cidrs[{i}]"), text))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Kind;

    #[test]
    fn ranges_of_both_families() {
        let json = json!({
            "metadata": {"name": "kubernetes"},
            "spec": {"cidrs": ["10.96.0.0/12", "fd00::/108", "10.96.0.0"]}
        });
        let api: api::ServiceCidr<'_> = serde::Deserialize::deserialize(&json).unwrap();
        let id = ObjectId::new(Kind::ServiceCidr, &api.metadata).unwrap();
        let mut problems = Vec::new();
        let change = service_cidr(&id, &api, &mut problems);
        assert!(matches!(change, Change::ServiceCidr { cidrs, .. } if cidrs.len() == 2));
        assert_eq!(problems.len(), 1);
    }
}
