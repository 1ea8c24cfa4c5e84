//! `v1` Service.

use core::net::IpAddr;

use smallvec::SmallVec;
use svc_planner::object::{Algorithm, Change, Service, ServicePort, TrafficPolicy, Uid};

use super::{ObjectId, Problem, Reason, Report, object_name, parse_rfc3339, port, protocol};
use crate::api;

/// The API server's default of `sessionAffinityConfig.clientIP.timeoutSeconds`.
const DEFAULT_AFFINITY_SECONDS: u32 = 10_800;

/// What a Service means to the planner: the Service, or that it is none of ours (headless,
/// ExternalName, labelled for another proxy, without an address). That it has no ClusterIP makes it
/// headless, not the label of that name, as for kube-proxy 1.37.
#[must_use]
pub fn service(id: &ObjectId, api: &api::Service<'_>, problems: &mut Vec<Problem>) -> Change {
    let mut report = Report::new(id, problems);
    let spec = &api.spec;
    let gone = Change::ServiceGone(object_name(id));
    if spec.kind.as_deref() == Some("ExternalName")
        || api.metadata.labels.service_proxy_name.is_some()
        || spec.cluster_ip.as_deref() == Some("None")
        || spec.cluster_ips.first().is_some_and(|ip| &**ip == "None")
    {
        return gone;
    }
    let cluster_ips = cluster_ips(spec, &mut report);
    if cluster_ips.is_empty() {
        return gone;
    }
    let external_ips = spec
        .external_ips
        .iter()
        .enumerate()
        .filter_map(|(i, ip)| report.address(format_args!("spec.externalIPs[{i}]"), ip))
        .collect();
    let source_ranges: SmallVec<_> = spec
        .load_balancer_source_ranges
        .iter()
        .enumerate()
        .filter_map(|(i, range)| {
            report.prefix(format_args!("spec.loadBalancerSourceRanges[{i}]"), range)
        })
        .collect();
    let mut load_balancer_ips = load_balancer_ips(&api.status, &mut report);
    if source_ranges.is_empty() && !spec.load_balancer_source_ranges.is_empty() {
        // A list of which nothing can be read must not admit everybody.
        report.add("spec.loadBalancerSourceRanges", Reason::NoSourceRange);
        load_balancer_ips.clear();
    }
    let mut policy = |field: &str, value: Option<&str>| match value {
        None | Some("Cluster") => TrafficPolicy::Cluster,
        Some("Local") => TrafficPolicy::Local,
        Some(other) => {
            report.add(field, Reason::unknown_value(other));
            TrafficPolicy::Cluster
        }
    };
    let internal_policy = policy(
        "spec.internalTrafficPolicy",
        spec.internal_traffic_policy.as_deref(),
    );
    let external_policy = policy(
        "spec.externalTrafficPolicy",
        spec.external_traffic_policy.as_deref(),
    );
    let created = api.metadata.creation_timestamp.as_deref().and_then(|text| {
        let time = parse_rfc3339(text);
        if time.is_none() {
            report.add("metadata.creationTimestamp", Reason::Time(text.into()));
        }
        time
    });
    Change::Service(Service {
        name: object_name(id),
        created,
        uid: api.metadata.uid.as_deref().and_then(Uid::parse),
        cluster_ips,
        external_ips,
        load_balancer_ips,
        source_ranges,
        internal_policy,
        external_policy,
        affinity: affinity(spec, &mut report),
        health_check_node_port: if spec.kind.as_deref() == Some("LoadBalancer") {
            optional_port(
                "spec.healthCheckNodePort",
                spec.health_check_node_port,
                &mut report,
            )
        } else {
            0
        },
        algorithm: Algorithm::Random,
        ports: ports(&spec.ports, &mut report),
    })
}

fn cluster_ips(spec: &api::ServiceSpec<'_>, report: &mut Report<'_>) -> SmallVec<[IpAddr; 2]> {
    if spec.cluster_ips.is_empty() {
        return match spec.cluster_ip.as_deref() {
            None | Some("") => {
                report.add("spec.clusterIP", Reason::NoClusterIp);
                SmallVec::new()
            }
            Some(ip) => report.address("spec.clusterIP", ip).into_iter().collect(),
        };
    }
    spec.cluster_ips
        .iter()
        .enumerate()
        .filter_map(|(i, ip)| report.address(format_args!("spec.clusterIPs[{i}]"), ip))
        .collect()
}

fn load_balancer_ips(
    status: &api::ServiceStatus<'_>,
    report: &mut Report<'_>,
) -> SmallVec<[IpAddr; 1]> {
    let mut ips = SmallVec::new();
    for (i, ingress) in status.load_balancer.ingress.iter().enumerate() {
        match ingress.ip_mode.as_deref() {
            None | Some("VIP") => {}
            Some("Proxy") => continue,
            Some(other) => {
                report.add(
                    format_args!("status.loadBalancer.ingress[{i}].ipMode"),
                    Reason::unknown_value(other),
                );
                continue;
            }
        }
        // A load balancer known by name only has no address to match.
        let Some(ip) = ingress.ip.as_deref().filter(|ip| !ip.is_empty()) else {
            continue;
        };
        ips.extend(report.address(format_args!("status.loadBalancer.ingress[{i}].ip"), ip));
    }
    ips
}

fn affinity(spec: &api::ServiceSpec<'_>, report: &mut Report<'_>) -> Option<u32> {
    match spec.session_affinity.as_deref() {
        None | Some("None" | "") => None,
        Some("ClientIP") => {
            let seconds = spec.session_affinity_config.client_ip.timeout_seconds;
            Some(seconds.map_or(DEFAULT_AFFINITY_SECONDS, |seconds| {
                match u32::try_from(seconds) {
                    Ok(seconds @ 1..=86_400) => seconds,
                    _ => {
                        report.add(
                            "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                            Reason::OutOfRange(seconds),
                        );
                        DEFAULT_AFFINITY_SECONDS
                    }
                }
            }))
        }
        Some(other) => {
            report.add("spec.sessionAffinity", Reason::unknown_value(other));
            None
        }
    }
}

fn ports(ports: &[api::ServicePort<'_>], report: &mut Report<'_>) -> SmallVec<[ServicePort; 2]> {
    ports
        .iter()
        .enumerate()
        .filter_map(|(i, api)| {
            let number = match api.port {
                Some(number) => port(number),
                None => Err(Reason::Missing),
            };
            let number = report.check(format_args!("spec.ports[{i}].port"), number)?;
            let protocol = report.check(
                format_args!("spec.ports[{i}].protocol"),
                protocol(api.protocol.as_ref()),
            )?;
            Some(ServicePort {
                name: api.name.as_deref().unwrap_or_default().into(),
                protocol,
                port: number,
                node_port: optional_port(
                    format_args!("spec.ports[{i}].nodePort"),
                    api.node_port,
                    report,
                ),
            })
        })
        .collect()
}

/// A port that may be absent or 0, both meaning none.
fn optional_port(
    field: impl core::fmt::Display,
    number: Option<i64>,
    report: &mut Report<'_>,
) -> u16 {
    match number {
        None | Some(0) => 0,
        Some(number) => report.check(field, port(number)).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::Kind;

    fn ingest(json: &serde_json::Value) -> (Change, Vec<String>) {
        let api: api::Service<'_> = serde::Deserialize::deserialize(json).unwrap();
        let id = ObjectId::new(Kind::Service, &api.metadata).unwrap();
        let mut problems = Vec::new();
        let change = service(&id, &api, &mut problems);
        (change, problems.iter().map(ToString::to_string).collect())
    }

    fn served(json: &serde_json::Value) -> (Service, Vec<String>) {
        match ingest(json) {
            (Change::Service(service), problems) => (service, problems),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn full_service() {
        let (service, problems) = served(&json!({
            "metadata": {"name": "web", "namespace": "shop",
                         "creationTimestamp": "2024-05-01T10:20:30Z"},
            "spec": {
                "type": "LoadBalancer",
                "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00::a"],
                "externalIPs": ["192.0.2.1"],
                "loadBalancerSourceRanges": [" 203.0.113.0/25"],
                "internalTrafficPolicy": "Local", "externalTrafficPolicy": "Local",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 60}},
                "healthCheckNodePort": 32000,
                "ports": [
                    {"name": "http", "port": 80, "targetPort": "web", "nodePort": 30080},
                    {"name": "dns", "port": 53, "protocol": "UDP"}
                ]
            },
            "status": {"loadBalancer": {"ingress": [
                {"ip": "198.51.100.7"}, {"ip": "198.51.100.8", "ipMode": "Proxy"},
                {"hostname": "lb.example"}
            ]}}
        }));
        assert_eq!(problems, Vec::<String>::new());
        assert_eq!(service.created, Some(1_714_558_830));
        assert_eq!(service.cluster_ips.len(), 2);
        assert_eq!(
            service.load_balancer_ips.as_slice(),
            ["198.51.100.7".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(service.source_ranges[0].to_string(), "203.0.113.0/25");
        assert_eq!(service.internal_policy, TrafficPolicy::Local);
        assert_eq!(service.external_policy, TrafficPolicy::Local);
        assert_eq!(service.affinity, Some(60));
        assert_eq!(service.health_check_node_port, 32000);
        assert_eq!(service.ports[0].node_port, 30080);
        assert_eq!(
            service.ports[1].protocol,
            svc_planner::object::Protocol::Udp
        );
    }

    #[test]
    fn not_ours() {
        let mut labelled = json!({
            "metadata": {"name": "a", "labels": {"service.kubernetes.io/service-proxy-name": ""}},
            "spec": {"clusterIP": "10.96.0.1"}
        });
        for json in [
            json!({"metadata": {"name": "a"}, "spec": {"clusterIP": "None"}}),
            json!({"metadata": {"name": "a"}, "spec": {"clusterIPs": ["None"]}}),
            json!({"metadata": {"name": "a"}, "spec": {"type": "ExternalName"}}),
            labelled.clone(),
        ] {
            let (change, problems) = ingest(&json);
            assert!(matches!(change, Change::ServiceGone(_)), "{json}");
            assert!(problems.is_empty(), "{problems:?}");
        }
        labelled["metadata"]["labels"] = json!({"service.kubernetes.io/headless": ""});
        assert!(matches!(ingest(&labelled).0, Change::Service(_)));
        labelled["metadata"]["labels"] = json!(null);
        assert!(matches!(ingest(&labelled).0, Change::Service(_)));
    }

    #[test]
    fn bad_fields_cost_only_themselves() {
        let (service, problems) = served(&json!({
            "metadata": {"name": "web"},
            "spec": {
                "clusterIPs": ["10.96.011.012", "nonsense"],
                "externalIPs": ["1.2.3.4", "host.example"],
                "loadBalancerSourceRanges": ["10.0.0.0"],
                "internalTrafficPolicy": "Nearby",
                "sessionAffinity": "ClientIP",
                "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": -1}},
                "ports": [{"port": 80}, {"port": 0}, {"port": 70000}, {"name": "x"},
                          {"port": 81, "protocol": "ICMP"}, {"port": 82, "nodePort": 99999}]
            }
        }));
        assert_eq!(
            service.cluster_ips.as_slice(),
            ["10.96.11.12".parse::<IpAddr>().unwrap()]
        );
        assert_eq!(service.external_ips.len(), 1);
        assert_eq!(service.affinity, Some(10_800));
        let ports: Vec<_> = service
            .ports
            .iter()
            .map(|port| (port.port, port.node_port))
            .collect();
        assert_eq!(ports, [(80, 0), (82, 0)]);
        assert_eq!(
            problems,
            [
                "Service default/web: spec.clusterIPs[0]: \"10.96.011.012\" has leading zeros; read as decimal: 10.96.11.12",
                "Service default/web: spec.clusterIPs[1]: \"nonsense\" is not an IP address",
                "Service default/web: spec.externalIPs[1]: \"host.example\" is not an IP address",
                "Service default/web: spec.loadBalancerSourceRanges[0]: \"10.0.0.0\" is not an IP prefix (address/length)",
                "Service default/web: spec.loadBalancerSourceRanges: no range can be read, load-balancer addresses are not served",
                "Service default/web: spec.internalTrafficPolicy: \"Nearby\" is not known",
                "Service default/web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: -1 is out of range",
                "Service default/web: spec.ports[1].port: 0 is not a port (1 to 65535)",
                "Service default/web: spec.ports[2].port: 70000 is not a port (1 to 65535)",
                "Service default/web: spec.ports[3].port: missing",
                "Service default/web: spec.ports[4].protocol: \"ICMP\" is not known",
                "Service default/web: spec.ports[5].nodePort: 99999 is not a port (1 to 65535)",
            ]
        );
    }

    #[test]
    fn without_an_address_it_is_not_served_and_says_so() {
        let (change, problems) =
            ingest(&json!({"metadata": {"name": "a"}, "spec": {"ports": null}}));
        assert!(matches!(change, Change::ServiceGone(_)));
        assert_eq!(problems.len(), 1);
    }
}
