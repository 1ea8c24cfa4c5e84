//! What `kproxy explain` says where policies, ranges and states of endpoints meet: planned, and from the
//! kernel. That packets do the same is shown by the scenarios of the end-to-end tests.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use netns_lab::add_address;
use sandbox::{Sandbox, sandboxed, service, slice};
use serde_json::{Value as Json, json};

const NODE: &str = "192.168.0.2";
const POD: &str = "10.244.0.9";
const OUTSIDE: &str = "203.0.113.9";
const NEAR: &str = "10.244.0.1:8080";
const FAR: &str = "10.244.1.1:8080";

fn node() -> Json {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": [{"type": "InternalIP", "address": NODE}]}
    })
}

/// Service `web` at 10.96.0.10, 198.51.100.7, 192.0.2.80 and node port 30080.
fn web(more: impl FnOnce(&mut Json)) -> Json {
    let mut web = service("web", "10.96.0.10");
    web["spec"]["type"] = json!("LoadBalancer");
    web["spec"]["externalIPs"] = json!(["198.51.100.7"]);
    web["spec"]["ports"][0]["nodePort"] = json!(30080);
    web["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.80"}]}});
    more(&mut web["spec"]);
    web
}

/// An endpoint here and one on another node, in these conditions.
fn endpoints(near: Json, far: Json) -> Json {
    let mut slice = slice("web", &[]);
    slice["endpoints"] = json!([
        {"addresses": ["10.244.0.1"], "nodeName": "node-a", "conditions": near},
        {"addresses": ["10.244.1.1"], "nodeName": "node-b", "conditions": far},
    ]);
    slice
}

fn ready() -> Json {
    json!({"ready": true})
}

fn terminating() -> Json {
    json!({"ready": false, "serving": true, "terminating": true})
}

const COMMON: [&str; 2] = ["--node-name=node-a", "--cluster-cidr=10.244.0.0/16"];

fn program(sandbox: &Sandbox, objects: &[Json]) {
    sandbox.write_json("all.json", objects);
    // It may have it already.
    let _ = add_address("lo", NODE.parse().unwrap());
    sandbox.apply(&[&COMMON[..], &["--wait-deferred"]].concat());
}

/// Asks by plan and by kernel, which must say the same: exit code and answer.
fn ask(sandbox: &Sandbox, from: &str, to: &str) -> (i32, Json) {
    let folder = sandbox.folder().to_str().unwrap();
    let args = [
        "explain", "-f", folder, "-o", "json", "--from", from, "--to", to,
    ];
    let [planned, live] = [&[][..], &["--live"]].map(|more| {
        let output = sandbox.kproxy(&[&args[..], &COMMON, more].concat());
        let code = output.status.code().unwrap();
        assert!(![1, 64].contains(&code), "{output:?}");
        let mut answer: Json = serde_json::from_slice(&output.stdout).unwrap();
        answer["state"] = Json::Null;
        (code, answer)
    });
    assert_eq!(planned, live, "{from} -> {to}");
    planned
}

fn chosen(answer: &Json) -> Vec<&str> {
    let endpoints = answer["endpoints"].as_array().unwrap().iter();
    endpoints
        .map(|it| it["endpoint"].as_str().unwrap())
        .collect()
}

fn says(part: &Json, words: &str) {
    assert!(part.to_string().contains(words), "{words:?}: {part:#}");
}

/// They are no address of the node's that serves node ports.
#[test]
fn node_ports_from_localhost() {
    sandboxed(|sandbox| {
        let objects = [node(), web(|_| ()), endpoints(ready(), ready())];
        program(&sandbox, &objects);
        for (from, to) in [("127.0.0.1", "127.0.0.1:30080"), (NODE, "127.0.0.1:30080")] {
            let (code, answer) = ask(&sandbox, from, to);
            assert_eq!(code, 4, "{answer:#}");
            assert_eq!(answer["from_this_node"], true);
            says(&answer["why"], "at loopback addresses are not translated");
        }
        let (code, answer) = ask(&sandbox, "127.0.0.1", "192.168.0.2:30080");
        assert_eq!(code, 0, "{answer:#}");
        assert_eq!(chosen(&answer), [NEAR, FAR]);
        assert_eq!(answer["source"]["masqueraded"], true);
    });
}

/// internalTrafficPolicy is for the ClusterIP alone.
#[test]
fn external_addresses_do_not_heed_the_internal_policy() {
    sandboxed(|sandbox| {
        let local = |spec: &mut Json| spec["internalTrafficPolicy"] = json!("Local");
        let far_only = [
            node(),
            web(local),
            endpoints(json!({"ready": false}), ready()),
        ];
        program(&sandbox, &far_only);
        for (from, to) in [
            (POD, "198.51.100.7:80"),
            (OUTSIDE, "198.51.100.7:80"),
            (NODE, "192.0.2.80:80"),
            (OUTSIDE, "192.168.0.2:30080"),
        ] {
            let (code, answer) = ask(&sandbox, from, to);
            assert_eq!((code, chosen(&answer)), (0, vec![FAR]), "{answer:#}");
            assert_eq!(answer["service"]["policy"], "Cluster", "{answer:#}");
            assert_eq!(answer["source"]["masqueraded"], true, "{answer:#}");
            says(&answer["unused"][0]["why"], "not ready");
        }
        let (code, answer) = ask(&sandbox, POD, "10.96.0.10:80");
        assert_eq!(code, 6, "{answer:#}");
        says(
            &answer["why"],
            "internalTrafficPolicy of Service default/web",
        );
    });
}

/// Who comes from outside has to make do with the endpoint here that is about to end; pods and the node
/// reach the one that is ready.
#[test]
fn a_terminating_endpoint_is_the_last_resort() {
    sandboxed(|sandbox| {
        let local = |spec: &mut Json| spec["externalTrafficPolicy"] = json!("Local");
        let objects = [node(), web(local), endpoints(terminating(), ready())];
        program(&sandbox, &objects);
        for to in ["192.0.2.80:80", "198.51.100.7:80", "192.168.0.2:30080"] {
            let (code, answer) = ask(&sandbox, OUTSIDE, to);
            assert_eq!((code, chosen(&answer)), (0, vec![NEAR]), "{answer:#}");
            let endpoint = &answer["endpoints"][0];
            assert_eq!(
                (&endpoint["terminating"], &endpoint["here"]),
                (&json!(true), &json!(true))
            );
            assert_eq!(answer["source"]["masqueraded"], false, "{answer:#}");
            says(
                &answer["unused"][0]["why"],
                "on another node, and the policy is Local",
            );

            for (from, masqueraded) in [(POD, false), (NODE, true)] {
                let (code, answer) = ask(&sandbox, from, to);
                assert_eq!((code, chosen(&answer)), (0, vec![FAR]), "{answer:#}");
                assert_eq!(answer["source"]["masqueraded"], masqueraded, "{answer:#}");
                assert_eq!(answer["unused"][0]["why"], "terminating");
                says(&answer["notes"], "reach every endpoint");
            }
        }
    });
}

/// Endpoints for another zone are not said to be left out for the policy.
#[test]
fn topology_is_what_leaves_out_endpoints_on_the_shortcut() {
    sandboxed(|sandbox| {
        let local = |spec: &mut Json| spec["externalTrafficPolicy"] = json!("Local");
        let mut node = node();
        node["metadata"]["labels"] = json!({"topology.kubernetes.io/zone": "one"});
        let mut slice = endpoints(ready(), ready());
        for (index, zone) in ["one", "two"].into_iter().enumerate() {
            slice["endpoints"][index]["hints"] = json!({"forZones": [{"name": zone}]});
        }
        let objects = [node, web(local), slice];
        program(&sandbox, &objects);
        let (code, answer) = ask(&sandbox, POD, "192.0.2.80:80");
        assert_eq!((code, chosen(&answer)), (0, vec![NEAR]), "{answer:#}");
        says(&answer["unused"][0]["why"], "topology hints");
        let (_, answer) = ask(&sandbox, OUTSIDE, "192.0.2.80:80");
        says(&answer["unused"][0]["why"], "the policy is Local");
    });
}

/// Pods and the node need to be in the ranges like everybody.
#[test]
fn source_ranges_hold_for_pods_and_the_node() {
    for (ranges, codes) in [
        (
            &["203.0.113.0/24", "192.168.0.0/24"][..],
            [(OUTSIDE, 0), (NODE, 0), (POD, 6)],
        ),
        (&["10.244.0.0/16"], [(OUTSIDE, 6), (NODE, 6), (POD, 0)]),
    ] {
        sandboxed(move |sandbox| {
            let spec = |spec: &mut Json| spec["loadBalancerSourceRanges"] = json!(ranges);
            let objects = [node(), web(spec), endpoints(ready(), ready())];
            program(&sandbox, &objects);
            for (from, code) in codes {
                let (got, answer) = ask(&sandbox, from, "192.0.2.80:80");
                assert_eq!(got, code, "{ranges:?}: {answer:#}");
                if code == 6 {
                    let words = format!("{from} is not in the loadBalancerSourceRanges");
                    says(&answer["why"], &words);
                    says(&answer["unused"][0]["why"], "does not get that far");
                }
                // For other addresses of the Service there are none.
                let (got, answer) = ask(&sandbox, from, "198.51.100.7:80");
                assert_eq!(got, 0, "{answer:#}");
            }
        });
    }
}
