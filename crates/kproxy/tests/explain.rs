//! `kproxy explain`: decisions, exit codes, and that the live table is read alike and by key.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use core::net::SocketAddr;

use kproxy::explain::{LiveState, Question};
use netns_lab::add_address;
use nft_batch::Connection;
use sandbox::{Sandbox, sandboxed, service, slice};
use serde_json::{Value as Json, json};
use svc_planner::fake::Host;
use svc_planner::object::Protocol;

const PODS: &str = "--cluster-cidr=10.244.0.0/16,fd00:244::/64";

/// A Service with two endpoints on two nodes and one that is not ready, a policy of each kind, and a
/// Service without endpoints.
fn write_cluster(sandbox: &Sandbox) {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.2"}]}
    });
    let endpoint = |address: &str, node: &str, ready: bool| json!({"addresses": [address], "nodeName": node, "conditions": {"ready": ready}});
    let mut web = service("web", "10.96.0.10");
    web["spec"]["externalIPs"] = json!(["198.51.100.7"]);
    web["spec"]["ports"][0]["nodePort"] = json!(30080);
    let mut web_slice = slice("web", &[]);
    web_slice["endpoints"] = json!([
        endpoint("10.244.0.1", "node-a", true),
        endpoint("10.244.1.1", "node-b", true),
        endpoint("10.244.2.1", "node-c", false),
    ]);
    let mut far = service("far", "10.96.0.20");
    far["spec"]["internalTrafficPolicy"] = json!("Local");
    let mut far_slice = slice("far", &[]);
    far_slice["endpoints"] = json!([endpoint("10.244.1.2", "node-b", true)]);
    let mut six = service("six", "fd00:96::10");
    six["spec"]["ports"][0]["protocol"] = json!("UDP");
    let mut six_slice = slice("six", &["fd00:244::9"]);
    six_slice["ports"][0]["protocol"] = json!("UDP");
    let cidrs = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.96.0.0/16", "fd00:96::/112"]}
    });
    let idle = service("idle", "10.96.0.99");
    let through = service("through", "10.96.0.30");
    let mut through_slice = slice("through", &["10.96.0.20"]);
    through_slice["ports"][0]["port"] = json!(80);
    let all = [
        node,
        web,
        web_slice,
        far,
        far_slice,
        six,
        six_slice,
        cidrs,
        idle,
        through,
        through_slice,
    ];
    sandbox.write_json("all.json", &all);
}

fn explain(sandbox: &Sandbox, args: &[&str]) -> (i32, Json) {
    let folder = sandbox.folder().to_str().unwrap();
    let common = [
        "explain",
        "-f",
        folder,
        "--node-name=node-a",
        PODS,
        "-o",
        "json",
    ];
    let output = sandbox.kproxy(&[&common, args].concat());
    let code = output.status.code().unwrap();
    assert!(![1, 64].contains(&code), "{output:?}");
    (code, serde_json::from_slice(&output.stdout).unwrap())
}

/// Every kind of end, planned; then the kernel, which must say the same by the same rules.
#[test]
fn planned_and_live_agree() {
    sandboxed(|sandbox| {
        write_cluster(&sandbox);
        add_address("lo", "192.168.0.2".parse().unwrap()).unwrap();
        sandbox.apply(&["--node-name=node-a", PODS, "--wait-deferred"]);
        let cases: [(&str, &str, i32, &str); 13] = [
            (
                "10.244.0.9",
                "10.96.0.10:80/tcp",
                0,
                "ClusterIP of Service default/web:http/TCP",
            ),
            ("203.0.113.9", "198.51.100.7:80", 0, "an external IP"),
            (
                "203.0.113.9",
                "192.168.0.2:30080",
                0,
                "30080 is a node port",
            ),
            ("192.168.0.2", "10.96.0.10:80", 0, "ClusterIP"),
            (
                "10.244.0.9",
                "10.96.0.20:80",
                6,
                "internalTrafficPolicy of Service default/far",
            ),
            (
                "10.244.0.9",
                "10.96.0.30:80",
                6,
                "endpoint 10.96.0.20:80 is itself a ClusterIP of Service default/far:http/TCP: \
                 internalTrafficPolicy is Local",
            ),
            (
                "10.244.0.9",
                "10.96.0.99:80",
                5,
                "no endpoint of Service default/idle",
            ),
            (
                "10.244.0.9",
                "10.96.0.10:81",
                5,
                "default/web (80/TCP), but not with port 81/TCP",
            ),
            ("10.244.0.9", "10.96.7.7:80", 6, "in a ServiceCIDR"),
            ("203.0.113.9", "198.51.100.7:81", 4, "not with port 81/TCP"),
            (
                "203.0.113.9",
                "192.168.0.2:30081",
                4,
                "no Service has node port 30081/TCP",
            ),
            (
                "203.0.113.9",
                "203.0.113.10:1",
                4,
                "no Service has this address",
            ),
            (
                "fd00:1::1",
                "[fd00:96::10]:80/udp",
                0,
                "default/six:http/UDP",
            ),
        ];
        for (from, to, code, why) in cases {
            let args = ["--from", from, "--to", to];
            let (planned_code, planned) = explain(&sandbox, &args);
            assert_eq!(planned_code, code, "{from} -> {to}: {planned:#}");
            assert!(
                planned["why"].as_str().unwrap().contains(why),
                "{planned:#}"
            );
            let (live_code, mut live) = explain(&sandbox, &[&args[..], &["--live"]].concat());
            assert_eq!(live_code, code, "{from} -> {to}: {live:#}");
            assert_eq!(live["state"], "live");
            live["state"] = planned["state"].clone();
            assert_eq!(live, planned, "{from} -> {to}");
        }
    });
}

#[test]
fn a_rejected_cluster_ip_of_policy_local_is_told_from_one_without_endpoints() {
    sandboxed(|sandbox| {
        write_cluster(&sandbox);
        let ask = |to| {
            let args = [
                "--no-local-endpoint=reject",
                "--from",
                "10.244.0.9",
                "--to",
                to,
            ];
            let (code, answer) = explain(&sandbox, &args);
            (code, answer["why"].as_str().unwrap().to_owned())
        };
        let (code, why) = ask("10.96.0.20:80");
        assert_eq!(code, 5, "{why}");
        assert!(
            why.contains("Local, and no endpoint of it is on this node"),
            "{why}"
        );
        let (code, why) = ask("10.96.0.99:80");
        assert_eq!(code, 5, "{why}");
        assert!(why.contains("no endpoint of Service default/idle"), "{why}");
    });
}

#[test]
fn endpoints_and_sources() {
    sandboxed(|sandbox| {
        write_cluster(&sandbox);
        let (_, pod) = explain(&sandbox, &["--from", "10.244.0.9", "--to", "10.96.0.10:80"]);
        let endpoints = pod["endpoints"].as_array().unwrap();
        assert_eq!(endpoints.len(), 2, "{pod:#}");
        assert_eq!(endpoints[0]["endpoint"], "10.244.0.1:8080");
        assert_eq!(
            (&endpoints[0]["here"], &endpoints[1]["here"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(pod["unused"][0]["endpoint"], "10.244.2.1:8080", "{pod:#}");
        assert_eq!(pod["unused"][0]["why"], "not ready");
        assert_eq!(pod["source"]["masqueraded"], false, "{pod:#}");
        let why = |answer: &Json| answer["source"]["why"].as_str().unwrap().to_owned();
        assert!(why(&pod).contains("in 10.244.0.0/16"), "{}", why(&pod));

        let (_, outside) = explain(
            &sandbox,
            &["--from", "203.0.113.9", "--to", "10.96.0.10:80"],
        );
        assert_eq!(outside["source"]["masqueraded"], true);
        assert!(why(&outside).contains("no pod"), "{}", why(&outside));
        let (_, node_port) = explain(
            &sandbox,
            &["--from", "203.0.113.9", "--to", "192.168.0.2:30080"],
        );
        assert_eq!(node_port["source"]["masqueraded"], true);
        assert!(why(&node_port).contains("replies"), "{}", why(&node_port));

        // An endpoint that asks itself is masqueraded, the other is not.
        let (_, itself) = explain(&sandbox, &["--from", "10.244.0.1", "--to", "10.96.0.10:80"]);
        let endpoints = itself["endpoints"].as_array().unwrap();
        let masqueraded: Vec<_> = endpoints.iter().map(|it| &it["masqueraded"]).collect();
        assert_eq!(masqueraded, [&json!(true), &json!(false)]);
    });
}

/// Source ranges and affinity are told, planned and live.
#[test]
fn restricted_and_sticky_services() {
    sandboxed(|sandbox| {
        let mut web = service("web", "10.96.0.10");
        web["spec"]["type"] = json!("LoadBalancer");
        web["spec"]["loadBalancerSourceRanges"] = json!(["203.0.113.0/24"]);
        web["spec"]["sessionAffinity"] = json!("ClientIP");
        web["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.80"}]}});
        sandbox.write_json(
            "all.json",
            &[web, slice("web", &["10.244.0.1", "10.244.0.2"])],
        );
        sandbox.apply(&["--wait-deferred"]);
        for more in [&[][..], &["--live"]] {
            let ask = |from, to| explain(&sandbox, &[&["--from", from, "--to", to], more].concat());
            let (code, outside) = ask("198.51.100.5", "192.0.2.80:80");
            assert_eq!(code, 6, "{outside:#}");
            let why = outside["why"].as_str().unwrap();
            assert!(
                why.contains("198.51.100.5 is not in the loadBalancerSourceRanges"),
                "{why}"
            );
            assert!(why.contains("default/web"), "{why}");
            let (code, inside) = ask("203.0.113.9", "192.0.2.80:80");
            assert_eq!(code, 0, "{inside:#}");
            assert_eq!(
                inside["endpoints"].as_array().unwrap().len(),
                2,
                "{inside:#}"
            );
            assert!(
                inside["service"]["route"]["group"].as_u64().is_some(),
                "{inside:#}"
            );
            assert_eq!(inside["service"]["affinity"], 10_800, "{inside:#}");
            let notes = inside["notes"].to_string();
            assert!(notes.contains("session affinity"), "{notes}");
        }
    });
}

/// Node ports at loopback addresses, by what becomes of them.
#[test]
fn loopback_addresses() {
    sandboxed(|sandbox| {
        write_cluster(&sandbox);
        let args = ["--from", "127.0.0.1", "--to", "127.0.0.1:30080"];
        let (code, answer) = explain(&sandbox, &args);
        assert_eq!(
            (code, &answer["from_this_node"]),
            (4, &json!(true)),
            "{answer:#}"
        );
        let gate = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true";
        let (code, answer) = explain(&sandbox, &[&args[..], &[gate]].concat());
        assert_eq!(code, 5, "{answer:#}");
        let why = answer["why"].as_str().unwrap();
        assert!(why.contains("not served at loopback addresses"), "{why}");
        let named = [gate, "--nodeport-addresses=primary,localhost"];
        let (code, answer) = explain(&sandbox, &[&args[..], &named].concat());
        assert_eq!(code, 4, "{answer:#}");
    });
}

#[test]
fn text_says_the_same() {
    sandboxed(|sandbox| {
        write_cluster(&sandbox);
        let folder = sandbox.folder().to_str().unwrap();
        let args = ["explain", "-f", folder, "--node-name=node-a", PODS];
        let args = [
            &args[..],
            &["--from", "10.244.0.1", "--to", "10.96.0.10:80"],
        ]
        .concat();
        let text = String::from_utf8(sandbox.kproxy(&args).stdout).unwrap();
        for part in [
            "tcp 10.244.0.1 -> 10.96.0.10:80: goes to one of 2 endpoints",
            "Service     default/web:http/TCP",
            "internalTrafficPolicy Cluster",
            "50.0 %  10.244.1.1:8080  node-b",
            "hairpin",
            "Not used    10.244.2.1:8080  node-c: not ready",
            "@services has 10.96.0.10 . tcp . 80: class",
            "dnat ip to",
        ] {
            assert!(text.contains(part), "{part:?} is missing:\n{text}");
        }
    });
}

/// A table that somebody edited is not guessed at, and one that is not there is said to be so.
#[test]
fn what_is_not_ours_is_named() {
    sandboxed(|sandbox| {
        let live = [
            "explain",
            "--live",
            "--from",
            "10.0.0.1",
            "--to",
            "10.96.0.10:80",
        ];
        let output = sandbox.kproxy(&live);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains("there is no table ip kube-proxy"), "{error}");

        sandbox.write_web("all.json", "10.244.0.1");
        sandbox.apply(&[]);
        let output = sandbox.kproxy(&live);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("for want of manifests"), "{text}");

        let rule = ["insert", "rule", "ip", "kube-proxy", "services", "log"];
        assert!(sandbox.nft(&rule).status.success());
        let output = sandbox.kproxy(&live);
        assert_eq!(output.status.code(), Some(1));
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            error.contains("chain services") && error.contains("log"),
            "{error}"
        );
    });
}

#[test]
fn arguments() {
    sandboxed(|sandbox| {
        for wrong in [
            &["explain", "--from", "10.0.0.1", "--to", "10.96.0.10:80"][..],
            &[
                "explain",
                "--live",
                "--from",
                "10.0.0.1",
                "--to",
                "10.96.0.10",
            ],
            &[
                "explain",
                "--live",
                "--from",
                "somewhere",
                "--to",
                "10.96.0.10:80",
            ],
        ] {
            assert_eq!(sandbox.kproxy(wrong).status.code(), Some(64), "{wrong:?}");
        }
        let mixed = [
            "explain",
            "--live",
            "--from",
            "fd00::1",
            "--to",
            "10.96.0.10:80",
        ];
        let output = sandbox.kproxy(&mixed);
        assert_eq!(output.status.code(), Some(1));
        assert!(
            String::from_utf8(output.stderr)
                .unwrap()
                .contains("families")
        );
    });
}

/// How much is read does not depend on how much there is.
#[test]
fn rows_are_read_by_key() {
    sandboxed(|sandbox| {
        let reads = |count: u8| {
            let objects: Vec<_> = (0..count)
                .flat_map(|it| {
                    let name = format!("web-{it}");
                    let address = format!("10.244.0.{it}");
                    [
                        service(&name, &format!("10.96.1.{it}")),
                        slice(&name, &[&address]),
                    ]
                })
                .collect();
            sandbox.write_json("all.json", &objects);
            sandbox.apply(&["--wait-deferred"]);
            let question = Question {
                from: [10, 0, 0, 1].into(),
                from_port: None,
                to: SocketAddr::from(([10, 96, 1, 0], 80)),
                protocol: Protocol::Tcp,
                interface: None,
            };
            let host = Host::default();
            let mut connection = Connection::open().unwrap();
            let state = LiveState::read(&mut connection, &question.packet(&host), &host);
            state.unwrap().reads
        };
        assert_eq!(reads(1), reads(250));
    });
}
