//! Both forms of an object give the same change, and no bytes whatsoever harm.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use svc_planner::object::Change;

use super::schema;
use crate::api::Kind;
use crate::apiserver::decode::{Decoder, Encoding, Form, Item};
use crate::ingest::{self, ObjectId};
use crate::manifest::Object;

/// What a body tells: changes and problems, as text; and whether it came to its end.
fn told(kind: Kind, encoding: Encoding, form: Form, pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let mut decoder = Decoder::new(kind, encoding, form);
    let mut told = Vec::new();
    for piece in pieces {
        let pushed = decoder.push(piece, |item| told.push(describe(kind, &item)));
        if let Err(error) = pushed {
            told.push(error.to_string());
            return (told, false);
        }
    }
    let complete = decoder.finish().is_ok();
    (told, complete)
}

fn describe(kind: Kind, item: &Item<'_>) -> String {
    match item {
        Item::Object(object) => ingested(kind, object),
        Item::Deleted(object) => format!("gone: {}", ingested(kind, object)),
        other => format!("{other:?}"),
    }
}

fn ingested(kind: Kind, object: &Object<'_>) -> String {
    let metadata = object.metadata().unwrap();
    let Some(id) = ObjectId::new(kind, metadata) else {
        return "no name".to_owned();
    };
    let mut problems = Vec::new();
    let change: Change = match object {
        Object::Service(api) => ingest::service(&id, api, &mut problems),
        Object::EndpointSlice(api) => ingest::endpoint_slice(&id, api, &mut problems),
        Object::Node(api) => ingest::node(&id, api, &mut problems),
        Object::ServiceCidr(api) => ingest::service_cidr(&id, api, &mut problems),
        other => panic!("{other:?}"),
    };
    let version = metadata.resource_version.as_deref();
    let trigger = metadata.annotations.last_change_trigger_time.as_deref();
    format!(
        "{change:?} {problems:?} {version:?} {trigger:?} {:?}",
        metadata.uid.as_deref()
    )
}

fn word() -> impl Strategy<Value = String> {
    prop_oneof![3 => "[a-z]{1,8}", 1 => Just("ä€\u{1f600}\"\\".to_owned())]
}

fn maybe<T: core::fmt::Debug + Clone + Into<Json> + 'static>(
    strategy: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Json> {
    prop_oneof![1 => Just(Json::Null), 3 => strategy.prop_map(Into::into)]
}

fn some_of(words: &'static [&'static str]) -> impl Strategy<Value = Json> {
    maybe(prop::sample::select(words).prop_map(str::to_owned))
}

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(|it| core::net::Ipv4Addr::from(it).to_string()),
        any::<[u8; 16]>().prop_map(|it| core::net::Ipv6Addr::from(it).to_string()),
        Just("010.0.0.1".to_owned()),
        word(),
    ]
}

fn addresses() -> impl Strategy<Value = Json> {
    maybe(prop::collection::vec(address(), 0..3))
}

fn metadata() -> impl Strategy<Value = Json> {
    let labels = [
        "kubernetes.io/service-name",
        "service.kubernetes.io/service-proxy-name",
        "service.kubernetes.io/headless",
        "topology.kubernetes.io/zone",
        "app",
    ];
    let labels = prop::collection::btree_map(
        prop_oneof![8 => Just(labels[0]), 1 => prop::sample::select(labels.to_vec())],
        prop_oneof![5 => word(), 1 => Just(String::new())],
        0..3,
    );
    let times = prop::sample::select(vec!["2024-05-01T10:20:30Z", "1970-01-01T00:00:01Z"]);
    (
        word(),
        maybe(word()),
        maybe(1..10_000_u32),
        labels,
        maybe(times.prop_map(str::to_owned)),
    )
        .prop_map(|(name, namespace, version, labels, created)| {
            let version = version.as_u64().map(|version| version.to_string());
            json!({"name": name, "namespace": namespace, "uid": "u-1", "resourceVersion": version,
                "generation": 7, "labels": labels, "creationTimestamp": created, "deletionTimestamp": created,
                "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "t", "x": "y"},
                "finalizers": ["a"]})
        })
}

fn service() -> impl Strategy<Value = Json> {
    let port = (
        maybe(word()),
        some_of(&["TCP", "UDP", "SCTP", "X"]),
        -1..70_000_i32,
        maybe(0..70_000_i32),
    )
        .prop_map(|(name, protocol, port, node_port)| {
            json!({"name": name, "protocol": protocol, "port": port, "nodePort": node_port,
                "targetPort": 8080, "appProtocol": "h2c"})
        });
    let ingress = (maybe(address()), some_of(&["VIP", "Proxy", "X"]))
        .prop_map(|(ip, mode)| json!({"ip": ip, "ipMode": mode, "hostname": "lb.example"}));
    let policy = || some_of(&["Cluster", "Local", "X"]);
    let first = (
        some_of(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
        maybe(address()),
        addresses(),
        addresses(),
        addresses(),
        prop::collection::vec(port, 0..3),
    );
    let second = (
        policy(),
        policy(),
        some_of(&["None", "ClientIP", "X"]),
        maybe(-1..100_000_i32),
        maybe(0..70_000_i32),
        prop::collection::vec(ingress, 0..3),
    );
    (metadata(), first, second).prop_map(|(metadata, first, second)| {
        let (kind, ip, ips, external, ranges, ports) = first;
        let (internal, external_policy, affinity, timeout, health, ingress) = second;
        json!({"metadata": metadata, "spec": {
            "type": kind, "clusterIP": ip, "clusterIPs": ips, "externalIPs": external,
            "loadBalancerSourceRanges": ranges, "ports": ports, "selector": {"app": "web"},
            "internalTrafficPolicy": internal, "externalTrafficPolicy": external_policy,
            "sessionAffinity": affinity, "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": timeout}},
            "healthCheckNodePort": health, "publishNotReadyAddresses": true, "ipFamilies": ["IPv4"],
        }, "status": {"loadBalancer": {"ingress": ingress}}})
    })
}

fn slice() -> impl Strategy<Value = Json> {
    let port = (
        maybe(word()),
        some_of(&["TCP", "UDP", "X"]),
        maybe(-1..70_000_i32),
    )
        .prop_map(
            |(name, protocol, port)| json!({"name": name, "protocol": protocol, "port": port}),
        );
    let hints = || prop::collection::vec(word().prop_map(|it| json!({"name": it})), 0..3);
    let condition = || maybe(any::<bool>());
    let endpoint = (
        prop::collection::vec(address(), 0..3),
        (condition(), condition(), condition()),
        maybe(word()),
        (hints(), hints()),
    )
        .prop_map(
            |(addresses, (ready, serving, terminating), node, (zones, nodes))| {
                json!({"addresses": addresses, "nodeName": node, "zone": "z", "hostname": "h",
                "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
                "targetRef": {"kind": "Pod", "name": "p"},
                "hints": {"forZones": zones, "forNodes": nodes}})
            },
        );
    (
        metadata(),
        some_of(&["IPv4", "IPv6", "FQDN", "X"]),
        prop::collection::vec(endpoint, 0..4),
        prop::collection::vec(port, 0..3),
    )
        .prop_map(|(metadata, family, endpoints, ports)| {
            json!({"metadata": metadata, "addressType": family, "endpoints": endpoints, "ports": ports})
        })
}

fn node() -> impl Strategy<Value = Json> {
    let kinds = || some_of(&["InternalIP", "ExternalIP", "Hostname"]);
    let entry = (kinds(), maybe(address()))
        .prop_map(|(kind, address)| json!({"type": kind, "address": address}));
    (
        metadata(),
        maybe(address()),
        addresses(),
        prop::collection::vec(entry, 0..4),
        prop::collection::vec(some_of(&["ToBeDeletedByClusterAutoscaler", "x"]), 0..3),
    )
        .prop_map(|(metadata, cidr, cidrs, addresses, keys)| {
            let taints: Vec<_> = keys
                .iter()
                .map(|key| json!({"key": key, "effect": "x"}))
                .collect();
            json!({"metadata": metadata,
                "spec": {"podCIDR": cidr, "podCIDRs": cidrs, "taints": taints},
                "status": {"addresses": addresses, "phase": "x"}})
        })
}

fn cidr() -> impl Strategy<Value = Json> {
    (metadata(), addresses())
        .prop_map(|(metadata, cidrs)| json!({"metadata": metadata, "spec": {"cidrs": cidrs}}))
}

fn any_object() -> impl Strategy<Value = (Kind, Json)> {
    prop_oneof![
        service().prop_map(|it| (Kind::Service, it)),
        slice().prop_map(|it| (Kind::EndpointSlice, it)),
        node().prop_map(|it| (Kind::Node, it)),
        cidr().prop_map(|it| (Kind::ServiceCidr, it)),
    ]
}

/// JSON leaves out what has no value.
fn without_nulls(json: &Json) -> Json {
    match json {
        Json::Object(fields) => {
            let kept = fields.iter().filter(|(_, value)| !value.is_null());
            Json::Object(
                kept.map(|(name, value)| (name.clone(), without_nulls(value)))
                    .collect(),
            )
        }
        Json::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

fn watch_frame(frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).unwrap();
    [&length.to_be_bytes(), frame].concat()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_watch_tells_the_same_in_both_forms(
        (kind, object) in any_object(),
        event in prop::sample::select(vec!["ADDED", "MODIFIED", "DELETED"]),
        size in 1..200_usize,
    ) {
        let object = without_nulls(&object);
        let json = format!("{}\n", json!({"type": event, "object": object})).into_bytes();
        let protobuf = watch_frame(&schema::event(event, &schema::enveloped(kind, &object)));
        let from_json = told(kind, Encoding::Json, Form::Watch, &[&json]);
        prop_assert_eq!(from_json.0.len(), 1);
        prop_assert!(from_json.1);
        prop_assert_eq!(&told(kind, Encoding::Protobuf, Form::Watch, &[&protobuf]), &from_json);
        let pieces: Vec<_> = protobuf.chunks(size).collect();
        prop_assert_eq!(&told(kind, Encoding::Protobuf, Form::Watch, &pieces), &from_json);
        let pieces: Vec<_> = json.chunks(size).collect();
        prop_assert_eq!(&told(kind, Encoding::Json, Form::Watch, &pieces), &from_json);
    }

    #[test]
    fn a_list_tells_the_same_in_both_forms(
        objects in prop::collection::vec(service(), 0..4),
        size in 1..200_usize,
    ) {
        let kind = Kind::Service;
        let objects: Vec<_> = objects.iter().map(without_nulls).collect();
        let json = json!({"kind": "ServiceList", "metadata": {"resourceVersion": "9"}, "items": objects});
        let json = json.to_string().into_bytes();
        let protobuf = schema::list(kind, "9", "", &objects);
        let from_json = told(kind, Encoding::Json, Form::List, &[&json]);
        prop_assert_eq!(from_json.0.len(), objects.len());
        prop_assert!(from_json.1);
        for pieces in [vec![&protobuf[..]], protobuf.chunks(size).collect()] {
            prop_assert_eq!(&told(kind, Encoding::Protobuf, Form::List, &pieces), &from_json);
        }
        // Cut anywhere, it is no whole list; behind it come two empty fields of two bytes each.
        let cut = &protobuf[..(protobuf.len() - 5) * size / 200];
        prop_assert!(!told(kind, Encoding::Protobuf, Form::List, &[cut]).1);
    }

    #[test]
    fn no_bytes_harm(
        (kind, object) in any_object(),
        place in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut list = schema::list(kind, "9", "", &[without_nulls(&object)]);
        let place = place.index(list.len());
        list[place] = byte;
        let _ = told(kind, Encoding::Protobuf, Form::List, &[&list]);
        let _ = told(kind, Encoding::Protobuf, Form::Watch, &[&list]);
        let _ = told(kind, Encoding::Json, Form::List, &[&list]);
    }
}

#[test]
fn bookmarks_and_errors_are_read() {
    let kind = Kind::Service;
    let bookmark = json!({"metadata": {"resourceVersion": "12",
        "annotations": {"k8s.io/initial-events-end": "true"}}});
    let frame = watch_frame(&schema::event(
        "BOOKMARK",
        &schema::enveloped(kind, &bookmark),
    ));
    let json = json!({"type": "BOOKMARK", "object": bookmark}).to_string();
    let expected = r#"Bookmark { version: "12", initial_events_end: true }"#;
    assert_eq!(
        told(kind, Encoding::Protobuf, Form::Watch, &[&frame]).0,
        [expected]
    );
    assert_eq!(
        told(kind, Encoding::Json, Form::Watch, &[json.as_bytes()]).0,
        [expected]
    );

    let status = json!({"code": 410, "reason": "Expired", "message": "too old", "status": "Failure",
        "details": {"retryAfterSeconds": 3}});
    let frame = watch_frame(&schema::event("ERROR", &schema::status(&status)));
    let json = json!({"type": "ERROR", "object": status}).to_string();
    let [protobuf, json] = [
        told(kind, Encoding::Protobuf, Form::Watch, &[&frame]).0,
        told(kind, Encoding::Json, Form::Watch, &[json.as_bytes()]).0,
    ];
    assert_eq!(protobuf, json);
    assert!(
        protobuf[0].contains("410") && protobuf[0].contains("3s"),
        "{protobuf:?}"
    );
}

#[test]
fn an_object_that_cannot_be_read_is_named() {
    let object =
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"ports": [{"port": 1}]}});
    let mut bytes = schema::object(Kind::Service, &object);
    // Field 2 again, as a number.
    bytes.extend([0x10, 0x01]);
    let mut decoder = Decoder::new(Kind::Service, Encoding::Protobuf, Form::List);
    let list = schema::list_of("ServiceList", "1", "", &[bytes]);
    let mut told = Vec::new();
    decoder
        .push(&list, |item| match item {
            Item::Unreadable(it) => told.push(it.to_string()),
            other => panic!("{other:?}"),
        })
        .unwrap();
    assert_eq!(told, ["Service shop/web: field 2 has another type"]);
    assert!(decoder.finish().is_ok());
}
