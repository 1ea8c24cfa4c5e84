//! `discovery.k8s.io/v1` EndpointSlice.

use core::net::IpAddr;

use smallvec::SmallVec;
use svc_planner::object::{Change, Endpoint, EndpointSlice, SlicePort, UnixNanos};

use super::{ObjectId, Problem, Reason, Report, object_name, parse_rfc3339_nanos, port, protocol};
use crate::api;

/// What an EndpointSlice means to the planner: the slice, or that it is none of ours (no Service
/// label, host names, headless).
#[must_use]
pub fn endpoint_slice(
    id: &ObjectId,
    api: &api::EndpointSlice<'_>,
    problems: &mut Vec<Problem>,
) -> Change {
    let mut report = Report::new(id, problems);
    let gone = Change::EndpointSliceGone(object_name(id));
    let labels = &api.metadata.labels;
    let service = labels.service_name.as_deref().unwrap_or_default();
    // The label of another proxy counts on the Service alone, as for kube-proxy 1.37.
    if service.is_empty() || labels.headless.is_some() {
        return gone;
    }
    let declared = match api.address_type.as_deref() {
        Some(declared @ ("IPv4" | "IPv6")) => declared,
        Some("FQDN") => return gone,
        other => {
            let reason = other.map_or(Reason::Missing, Reason::unknown_value);
            report.add("addressType", reason);
            return gone;
        }
    };
    let ports = ports(&api.ports, &mut report);
    let endpoints = api
        .endpoints
        .iter()
        .enumerate()
        .filter_map(|(i, endpoint)| self::endpoint(i, endpoint, declared, &mut report))
        .collect();
    Change::EndpointSlice(EndpointSlice {
        name: object_name(id),
        service: service.into(),
        triggers: trigger(api),
        ports,
        endpoints,
    })
}

/// When what the slice tells happened. A time that cannot be read is none, as for kube-proxy: nothing
/// but a measurement is lost.
fn trigger(api: &api::EndpointSlice<'_>) -> SmallVec<[UnixNanos; 1]> {
    let text = api.metadata.annotations.last_change_trigger_time.as_deref();
    text.and_then(parse_rfc3339_nanos).into_iter().collect()
}

fn endpoint(
    i: usize,
    api: &api::Endpoint<'_>,
    declared: &str,
    report: &mut Report<'_>,
) -> Option<Endpoint> {
    // All addresses of an endpoint are interchangeable; kube-proxy, too, uses the first alone.
    let Some(text) = api.addresses.first() else {
        report.add(format_args!("endpoints[{i}].addresses"), Reason::Missing);
        return None;
    };
    let field = format_args!("endpoints[{i}].addresses[0]");
    let address = report.address(field, text)?;
    let family = match address {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    if family != declared {
        report.add(
            field,
            Reason::OtherFamily {
                value: address.to_string().into(),
                declared: declared.into(),
            },
        );
        return None;
    }
    Some(Endpoint {
        address,
        ready: api.conditions.ready.unwrap_or(true),
        serving: api.conditions.serving.unwrap_or(true),
        terminating: api.conditions.terminating.unwrap_or(false),
        node: api.node_name.as_deref().map(Into::into),
        zone_hints: hints(&api.hints.for_zones),
        node_hints: hints(&api.hints.for_nodes),
        weight: 1,
    })
}

fn hints(hints: &[api::TopologyHint<'_>]) -> SmallVec<[Box<str>; 1]> {
    hints
        .iter()
        .filter_map(|hint| hint.name.as_deref().map(Into::into))
        .collect()
}

fn ports(ports: &[api::EndpointPort<'_>], report: &mut Report<'_>) -> SmallVec<[SlicePort; 2]> {
    ports
        .iter()
        .enumerate()
        .filter_map(|(i, api)| {
            // Legal, and of no use to a proxy: no number, or 0.
            let number = api.port.filter(|number| *number != 0)?;
            let number = report.check(format_args!("ports[{i}].port"), port(number))?;
            let protocol = report.check(
                format_args!("ports[{i}].protocol"),
                protocol(api.protocol.as_ref()),
            )?;
            Some(SlicePort {
                name: api.name.as_deref().unwrap_or_default().into(),
                protocol,
                port: number,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use svc_planner::object::Protocol;

    use super::*;
    use crate::api::Kind;

    fn ingest(json: &serde_json::Value) -> (Change, Vec<String>) {
        let api: api::EndpointSlice<'_> = serde::Deserialize::deserialize(json).unwrap();
        let id = ObjectId::new(Kind::EndpointSlice, &api.metadata).unwrap();
        let mut problems = Vec::new();
        let change = endpoint_slice(&id, &api, &mut problems);
        (change, problems.iter().map(ToString::to_string).collect())
    }

    fn slice(body: serde_json::Value) -> serde_json::Value {
        let mut json = json!({
            "metadata": {"name": "web-x1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4",
        });
        json.as_object_mut()
            .unwrap()
            .extend(body.as_object().unwrap().clone());
        json
    }

    #[test]
    fn nulls_mean_the_defaults() {
        let (change, problems) = ingest(&slice(json!({
            "ports": [{"name": null, "port": 8080, "protocol": null}, {"name": "all", "port": null}],
            "endpoints": [
                {"addresses": ["010.0.0.1", "10.0.0.99"], "conditions": null},
                {"addresses": ["10.0.0.2"],
                 "conditions": {"ready": false, "serving": null, "terminating": true},
                 "nodeName": "n1", "hints": {"forZones": [{"name": "z1"}]}}
            ]
        })));
        let Change::EndpointSlice(slice) = change else {
            panic!("{change:?}")
        };
        assert_eq!(
            slice.ports.as_slice(),
            [SlicePort {
                name: "".into(),
                protocol: Protocol::Tcp,
                port: 8080
            }]
        );
        let [first, second] = slice.endpoints.as_slice() else {
            panic!("{slice:?}")
        };
        assert_eq!(first.address.to_string(), "10.0.0.1");
        assert!(first.ready && first.serving && !first.terminating);
        assert!(!second.ready && second.serving && second.terminating);
        assert_eq!(second.node.as_deref(), Some("n1"));
        assert_eq!(&*second.zone_hints[0], "z1");
        assert_eq!(problems.len(), 1, "{problems:?}");
    }

    #[test]
    fn ports_and_endpoints_may_be_null() {
        let (change, problems) = ingest(&slice(json!({"ports": null, "endpoints": null})));
        assert!(matches!(change, Change::EndpointSlice(slice) if slice.endpoints.is_empty()));
        assert!(problems.is_empty());
    }

    #[test]
    fn the_trigger_time_is_read() {
        let triggers = |annotation: &str| {
            let mut json = slice(json!({}));
            json["metadata"]["annotations"] = json!({
                "endpoints.kubernetes.io/last-change-trigger-time": annotation, "other": "x"});
            let (change, problems) = ingest(&json);
            assert!(problems.is_empty());
            match change {
                Change::EndpointSlice(slice) => slice.triggers.to_vec(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(
            triggers("2024-05-01T10:20:30.25Z"),
            [1_714_558_830_250_000_000]
        );
        assert!(triggers("yesterday").is_empty());
    }

    #[test]
    fn not_ours() {
        let mut unlabelled = slice(json!({}));
        unlabelled["metadata"]["labels"] = json!({"app": "web"});
        for json in [unlabelled, slice(json!({"addressType": "FQDN"}))] {
            let (change, problems) = ingest(&json);
            assert!(matches!(change, Change::EndpointSliceGone(_)));
            assert!(problems.is_empty());
        }
    }

    #[test]
    fn bad_endpoints_cost_only_themselves() {
        let (change, problems) = ingest(&slice(json!({
            "endpoints": [{"addresses": []}, {"addresses": ["fd00::1"]}, {"addresses": ["x"]},
                          {"addresses": ["10.0.0.3"]}],
            "ports": [{"port": -1}, {"port": 53, "protocol": "DNS"}]
        })));
        let Change::EndpointSlice(slice) = change else {
            panic!("{change:?}")
        };
        assert_eq!(slice.endpoints.len(), 1);
        assert_eq!(
            problems,
            [
                "EndpointSlice default/web-x1: ports[0].port: -1 is not a port (1 to 65535)",
                "EndpointSlice default/web-x1: ports[1].protocol: \"DNS\" is not known",
                "EndpointSlice default/web-x1: endpoints[0].addresses: missing",
                "EndpointSlice default/web-x1: endpoints[1].addresses[0]: fd00::1 is not an IPv4 address",
                "EndpointSlice default/web-x1: endpoints[2].addresses[0]: \"x\" is not an IP address",
            ]
        );
    }

    #[test]
    fn unknown_address_type_is_reported() {
        let (change, problems) = ingest(&slice(json!({"addressType": "IPX"})));
        assert!(matches!(change, Change::EndpointSliceGone(_)));
        assert_eq!(problems.len(), 1);
    }
}
