//! The reader of the API server against a real one.

use anyhow::{Result, ensure};
use e2e::{
    control_plane::{ControlPlane, Method, Relay, Request, namespace_request},
    folder::Folder,
    reading::Reading,
};
use kproxy::apiserver::{JSON, PROTOBUF};
use netns_lab::Namespace;
use serde_json::{Value as Json, json};
use svc_planner::object::{Change, Service};

const RELAYED: &str = "127.0.0.1:16443";
fn service(ip: &str, port: u16) -> Json {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "externalIPs": ["192.0.2.9"],
            "sessionAffinity": "ClientIP", "ports": [{"name": "http", "port": port}]}})
}

fn slice() -> Json {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
        "endpoints": [{"addresses": ["10.1.0.1"], "nodeName": "node-a", "conditions": {"ready": true},
            "hints": {"forZones": [{"name": "z"}]}}]})
}

fn objects() -> [(&'static str, Json); 5] {
    let headless = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "headless", "namespace": "shop"},
        "spec": {"clusterIP": "None", "ports": [{"port": 1}]}});
    let foreign = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "foreign", "namespace": "shop",
            "labels": {"service.kubernetes.io/service-proxy-name": "other"}},
        "spec": {"ports": [{"port": 1}]}});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}});
    [
        (
            "/api/v1/namespaces/shop/services",
            service("172.30.0.9", 80),
        ),
        ("/api/v1/namespaces/shop/services", headless),
        ("/api/v1/namespaces/shop/services", foreign),
        (
            "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices",
            slice(),
        ),
        ("/api/v1/nodes", node),
    ]
}

fn send(control: &ControlPlane, requests: &[Request]) -> Result<()> {
    for response in control.client().send(requests)? {
        ensure!(response.is_ok(), "{}", response.message());
    }
    Ok(())
}

fn is_web(change: &Change, port: u16) -> bool {
    matches!(change, Change::Service(Service { name, ports, .. })
        if &*name.name == "web" && ports[0].port == port)
}

/// What was read first of what [`objects`] made, sorted.
fn of_shop(changes: &[Change]) -> Vec<String> {
    let ours = changes.iter().filter_map(|change| match change {
        // The server sets the time.
        Change::Service(service) if &*service.name.namespace == "shop" => Some(format!(
            "{:?}",
            Service {
                created: service.created.map(|_| 0),
                ..service.clone()
            }
        )),
        Change::EndpointSlice(slice) if &*slice.name.namespace == "shop" => {
            Some(format!("{slice:?}"))
        }
        Change::Node(_) | Change::ServiceCidr { .. } => Some(format!("{change:?}")),
        _ => None,
    });
    let mut ours: Vec<_> = ours.collect();
    ours.sort();
    ours
}

#[test]
fn lists_and_watches_tell_the_same_in_protobuf_and_json() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let creations = objects().map(|(path, it)| Request::new(Method::Post, path).with(it));
    send(&control, &[namespace_request("shop")])?;
    send(&control, &creations)?;
    let namespace = Namespace::new("reader")?;
    let folder = Folder::new()?;
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, ControlPlane::kubeconfig(RELAYED).to_string())?;
    let relay = Relay::start(
        (&namespace, RELAYED.parse()?),
        (control.namespace(), "127.0.0.1:6443".parse()?),
    )?;

    let mut readings = [PROTOBUF, JSON]
        .map(|it| Reading::start(&namespace, kubeconfig.clone(), it))
        .into_iter()
        .collect::<Result<Vec<_>>>()?;
    let [protobuf, json] = [of_shop(&readings[0].first), of_shop(&readings[1].first)];
    assert_eq!(protobuf, json);
    // A Service, a slice, the Node, and the ServiceCIDR that the server made.
    assert_eq!(protobuf.len(), 4, "{protobuf:#?}");
    for reading in &readings {
        // One streaming list for each kind, and each was accepted.
        assert_eq!(reading.facts.requests("200", "GET", RELAYED), 4);
        assert!(
            reading
                .board
                .snapshot()
                .iter()
                .all(|it| it.watches == 1 && it.lists == 1)
        );
    }

    let path = "/api/v1/namespaces/shop/services/web";
    send(
        &control,
        &[Request::new(Method::Put, path).with(service("172.30.0.9", 81))],
    )?;
    let slice = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices/web-1";
    send(&control, &[Request::new(Method::Delete, slice)])?;
    for reading in &mut readings {
        let gone =
            |it: &Change| matches!(it, Change::EndpointSliceGone(name) if &*name.name == "web-1");
        let mut seen = reading.until(gone)?;
        if !seen.iter().any(|it| is_web(it, 81)) {
            seen = reading.until(|it| is_web(it, 81))?;
        }
        assert!(
            seen.iter().all(|it| !matches!(it, Change::ServiceGone(_))),
            "{seen:?}"
        );
    }

    // Its caches gone, the server has no use for our versions (410): all is listed again, what was
    // deleted meanwhile is found out, and what is as it was is not told.
    let held = relay.cut();
    let deletion = Request::new(Method::Delete, path);
    let creation = Request::new(Method::Post, creations[3].path.as_str()).with(self::slice());
    send(&control, &[deletion, creation])?;
    control.restart_api()?;
    drop(held);
    for reading in &mut readings {
        let mut seen =
            reading.until(|it| matches!(it, Change::ServiceGone(name) if &*name.name == "web"))?;
        let back = |it: &Change| matches!(it, Change::EndpointSlice(slice) if &*slice.name.name == "web-1");
        if !seen.iter().any(back) {
            seen.extend(reading.until(back)?);
        }
        let gone = seen
            .iter()
            .filter(|it| matches!(it, Change::ServiceGone(_)));
        assert_eq!(gone.count(), 1, "{seen:?}");
        assert!(reading.board.snapshot().iter().any(|it| it.lists == 2));
    }
    Ok(())
}
