//! Who may reach a Service's load-balancer addresses.

use std::borrow::Cow;

use ipnet::IpNet;

use crate::model::Model;
use crate::model::service::{Role, Spec};
use crate::model::source_ranges::disjoint;

impl Model {
    /// The sources a Service admits to its load-balancer addresses; `None` admits everybody.
    ///
    /// Where these addresses are bound to the node's own interfaces, connections of the node to
    /// them come from them. If the node is admitted, so are they.
    pub(crate) fn admitted<'s>(&self, spec: &'s Spec) -> Option<Cow<'s, [IpNet]>> {
        let sources = spec.sources.as_deref()?;
        let primary = self.node.addresses.first().map(|ip| ip.ip(self.family));
        let admits_node = primary.is_some_and(|ip| sources.iter().any(|range| range.contains(&ip)));
        if !admits_node {
            return Some(Cow::Borrowed(sources));
        }
        let balancers = spec.addresses.iter();
        let balancers = balancers.filter(|(_, role)| *role == Role::LoadBalancer);
        let balancers = balancers.map(|(address, _)| IpNet::from(address.ip(self.family)));
        let all = sources.iter().copied().chain(balancers).collect();
        Some(Cow::Owned(disjoint(all).into_vec()))
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::object;
    use crate::plan::Family;

    #[test]
    fn an_admitted_node_admits_the_balancers_addresses() {
        let mut model = Model::new(Family::Ipv4, "own".into());
        let spec = Spec::new(
            &object::Service {
                name: object::ObjectName {
                    namespace: "ns".into(),
                    name: "web".into(),
                },
                created: None,
                uid: None,
                cluster_ips: smallvec!["10.96.0.1".parse().unwrap()],
                external_ips: smallvec!["192.0.2.9".parse().unwrap()],
                load_balancer_ips: smallvec![
                    "1.2.3.4".parse().unwrap(),
                    "2001:db8::1".parse().unwrap()
                ],
                source_ranges: smallvec!["192.168.0.0/24".parse().unwrap()],
                internal_policy: object::TrafficPolicy::Cluster,
                external_policy: object::TrafficPolicy::Cluster,
                affinity: None,
                health_check_node_port: 0,
                algorithm: object::Algorithm::Random,
                ports: smallvec![],
            },
            Family::Ipv4,
            true,
        )
        .unwrap();
        let admitted = |model: &Model| -> Vec<String> {
            let sources = model.admitted(&spec).unwrap();
            sources.iter().map(ToString::to_string).collect()
        };
        assert_eq!(admitted(&model), ["192.168.0.0/24"]);
        let node = |ip: &str| {
            object::Change::Node(object::Node {
                name: "own".into(),
                addresses: smallvec!["fd00::1".parse().unwrap(), ip.parse().unwrap()],
                pod_cidrs: smallvec![],
                zone: None,
                eligible: true,
            })
        };
        model.apply(node("192.168.0.2"));
        assert_eq!(admitted(&model), ["1.2.3.4/32", "192.168.0.0/24"]);
        model.apply(node("192.168.1.2"));
        assert_eq!(admitted(&model), ["192.168.0.0/24"]);
    }
}
