//! `kproxy apply` and `kproxy cleanup` on the running kernel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use std::os::unix::fs::symlink;
use std::process::{Output, Stdio};

use sandbox::{sandboxed, service, slice};
use serde_json::{Value as Json, json};

fn operations(summary: &Json) -> u64 {
    let transactions = summary["transactions"].as_array().unwrap().iter();
    transactions
        .map(|it| it["operations"].as_u64().unwrap())
        .sum()
}

fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn rows_read_back_by_key_are_those_of_the_manifests() {
    sandboxed(|mut sandbox| {
        sandbox.write_json(
            "all.json",
            &[
                service("web", "10.96.0.10"),
                slice("web", &["10.1.0.1", "10.1.0.2"]),
                service("six", "fd00::a"),
                slice("six", &["fd01::1"]),
                service("none", "10.96.0.11"),
            ],
        );
        let summary = sandbox.apply(&[]);
        assert_eq!(summary["objects"], 5);
        assert_eq!(summary["problems"], 0);
        let mut endpoints = [0, 1].map(|slot| sandbox.endpoint("10.96.0.10", 80, slot).unwrap());
        endpoints.sort();
        assert_eq!(endpoints, ["10.1.0.1:8080", "10.1.0.2:8080"]);
        let six = sandbox.endpoint("fd00::a", 80, 0);
        assert_eq!(six.as_deref(), Some("[fd01::1]:8080"));
        assert_eq!(sandbox.route("10.96.0.11", 80), None);
        assert_eq!(sandbox.route("10.96.0.10", 81), None);
    });
}

#[test]
fn applying_twice_changes_nothing() {
    sandboxed(|mut sandbox| {
        sandbox.write_json(
            "all.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        assert!(operations(&sandbox.apply(&[])) > 0);
        let generation = sandbox.connection.generation().unwrap();
        let again = sandbox.apply(&[]);
        assert_eq!(again["transactions"], serde_json::json!([]));
        assert_eq!(sandbox.connection.generation().unwrap(), generation);
    });
}

#[test]
fn a_change_costs_operations_for_the_change() {
    sandboxed(|mut sandbox| {
        let mut all = vec![service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])];
        for i in 0..50 {
            all.push(service(&format!("s{i}"), &format!("10.96.1.{i}")));
            all.push(slice(&format!("s{i}"), &["10.2.0.1"]));
        }
        sandbox.write_json("all.json", &all);
        sandbox.apply(&["--wait-deferred"]);
        all[1] = slice("web", &["10.1.0.9"]);
        sandbox.write_json("all.json", &all);
        let summary = sandbox.apply(&[]);
        assert!(operations(&summary) <= 6, "{summary}");
        let endpoint = sandbox.endpoint("10.96.0.10", 80, 0);
        assert_eq!(endpoint.as_deref(), Some("10.1.0.9:8080"));
    });
}

#[test]
fn what_is_gone_from_the_manifests_goes_from_the_kernel() {
    sandboxed(|mut sandbox| {
        let web = [service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])];
        let old = [service("old", "10.96.0.11"), slice("old", &["10.1.0.2"])];
        sandbox.write_json("web.json", &web);
        sandbox.write_json("old.json", &old);
        sandbox.apply(&[]);
        assert!(sandbox.route("10.96.0.11", 80).is_some());
        std::fs::remove_file(sandbox.path("old.json")).unwrap();
        sandbox.apply(&["--wait-deferred"]);
        assert_eq!(sandbox.route("10.96.0.11", 80), None);
        assert!(sandbox.route("10.96.0.10", 80).is_some());
        assert_eq!(
            sandbox.apply(&["--wait-deferred"])["transactions"],
            serde_json::json!([])
        );
    });
}

#[test]
fn bad_manifests_cost_only_themselves_and_are_named() {
    sandboxed(|mut sandbox| {
        sandbox.write_json(
            "a-good.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        sandbox.write(
            "b-bad.yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: wrong}\nspec: {clusterIP: 10.96.0.300, ports: [{port: 80}]}\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {name: shape}\nspec: {ports: 5}\n\
             ---\n{]\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {name: zeros}\nspec: {clusterIP: 10.96.000.012, ports: [{port: 80}]}\n",
        );
        sandbox.write("c-broken.json", "{\"apiVersion\": \"v1\", \"kind\": ");
        let folder = sandbox.folder().to_str().unwrap().to_owned();
        let output = sandbox.kproxy(&["apply", "-f", &folder]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let lines = lines(&output);
        let bad = sandbox.path("b-bad.yaml").display().to_string();
        for expected in [
            format!(
                "{bad}: document 1: error: Service default/wrong: spec.clusterIP: \"10.96.0.300\" is not an IP address"
            ),
            format!("{bad}: document 2: error: Service shape: spec.ports: invalid type"),
            format!("{bad}: document 3: error: line 11, column 1: "),
            format!(
                "{bad}: document 4: warning: Service default/zeros: spec.clusterIP: \"10.96.000.012\" has leading zeros; read as decimal: 10.96.0.12"
            ),
            format!(
                "{}: document 1: error: line 1, column",
                sandbox.path("c-broken.json").display()
            ),
        ] {
            let found = lines
                .iter()
                .filter(|line| line.starts_with(&expected))
                .count();
            assert_eq!(found, 1, "{expected}\nin {lines:#?}");
        }
        assert_eq!(lines.len(), 5, "{lines:#?}");
        let endpoint = sandbox.endpoint("10.96.0.10", 80, 0);
        assert_eq!(endpoint.as_deref(), Some("10.1.0.1:8080"));
    });
}

#[test]
fn input_that_cannot_be_read_at_all_removes_nothing() {
    sandboxed(|mut sandbox| {
        sandbox.write_json(
            "all.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        sandbox.apply(&[]);
        let empty = sandbox.path("empty");
        std::fs::write(&empty, " \n").unwrap();
        let empty = empty.to_str().unwrap().to_owned();
        // Standard input is empty, as when the program before the pipe failed.
        for (input, reason) in [
            ("/no/such/file", "No such file"),
            (&*empty, "there is nothing in it"),
            ("-", "there is nothing in it"),
        ] {
            for command in ["apply", "plan"] {
                let mut command = sandbox.command(&[command, "-f", input]);
                let output = command.stdin(Stdio::null()).output().unwrap();
                assert_eq!(output.status.code(), Some(1), "{output:?}");
                let lines = lines(&output);
                assert_eq!(lines.len(), 1, "{lines:#?}");
                let named = lines[0].starts_with(&format!("kproxy: {input}: {reason}"));
                assert!(
                    named && lines[0].ends_with("nothing was changed"),
                    "{lines:#?}"
                );
                assert!(sandbox.route("10.96.0.10", 80).is_some(), "{input}");
            }
        }
        // Nothing said in so many words is an order.
        let list = sandbox.path("list");
        std::fs::write(
            &list,
            r#"{"apiVersion": "v1", "kind": "List", "items": []}"#,
        )
        .unwrap();
        let output = sandbox.kproxy(&["apply", "-f", list.to_str().unwrap()]);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(sandbox.route("10.96.0.10", 80), None);
    });
}

#[test]
fn lists_may_hold_lists_and_links_that_lead_nowhere_are_named() {
    sandboxed(|mut sandbox| {
        let bare = |mut object: Json| {
            let fields = object.as_object_mut().unwrap();
            fields.remove("apiVersion");
            fields.remove("kind");
            object
        };
        let web = bare(service("web", "10.96.0.10"));
        let slices = bare(slice("web", &["10.1.0.1"]));
        let lists = format!(
            r#"{{"kind": "List", "apiVersion": "v1", "items": [
                {{"kind": "ServiceList", "apiVersion": "v1", "items": [{web}]}},
                {{"kind": "EndpointSliceList", "apiVersion": "discovery.k8s.io/v1",
                  "items": [{slices}]}}]}}"#
        );
        sandbox.write("lists.json", &lists);
        assert_eq!(sandbox.apply(&[])["objects"], 2);
        // JSON with a comment in front is YAML.
        let yaml = std::fs::read_to_string(sandbox.path("lists.json")).unwrap();
        std::fs::remove_file(sandbox.path("lists.json")).unwrap();
        sandbox.write("lists.yaml", &format!("# YAML\n{yaml}"));
        let again = sandbox.apply(&[]);
        assert_eq!(again["objects"], 2);
        assert_eq!(again["transactions"], json!([]));
        let endpoint = sandbox.endpoint("10.96.0.10", 80, 0);
        assert_eq!(endpoint.as_deref(), Some("10.1.0.1:8080"));

        symlink("/no/such/file", sandbox.path("link.yaml")).unwrap();
        let folder = sandbox.folder().to_str().unwrap().to_owned();
        let output = sandbox.kproxy(&["apply", "-f", &folder]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let expected = format!(
            "{}: error: No such file",
            sandbox.path("link.yaml").display()
        );
        let lines = lines(&output);
        assert!(
            lines.len() == 1 && lines[0].starts_with(&expected),
            "{lines:#?}"
        );
        // The same is said where nothing would change.
        let output = sandbox.kproxy(&["plan", "-f", &folder]);
        assert_eq!(output.status.code(), Some(3), "{output:?}");
    });
}

#[test]
fn a_foreign_table_of_our_name_is_taken_over() {
    sandboxed(|mut sandbox| {
        let foreign = "
            table ip kube-proxy {
                map service-ips {
                    type ipv4_addr . inet_proto . inet_service : verdict
                    elements = { 10.96.0.10 . tcp . 80 : goto service-x }
                }
                set cluster-ips { type ipv4_addr; flags interval; elements = { 10.96.0.0/16 }; }
                chain service-x { meta l4proto tcp dnat to 10.9.9.9:9; }
                chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
                chain nat-prerouting { type nat hook prerouting priority -90; jump services; }
                chain filter-input { type filter hook input priority 0; policy drop; }
            }
            table ip other { chain c { accept; }; }
            ";
        let script = sandbox.path("foreign.nft");
        std::fs::write(&script, foreign).unwrap();
        let loaded = sandbox.nft(&["-f", script.to_str().unwrap()]);
        assert!(loaded.status.success(), "{loaded:?}");
        sandbox.write_json(
            "all.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        sandbox.apply(&["--wait-deferred"]);
        let endpoint = sandbox.endpoint("10.96.0.10", 80, 0);
        assert_eq!(endpoint.as_deref(), Some("10.1.0.1:8080"));
        let listed = sandbox.nft(&["list", "ruleset"]);
        let text = String::from_utf8(listed.stdout).unwrap();
        assert!(
            !text.contains("service-x") && !text.contains("9.9.9"),
            "{text}"
        );
        assert!(!text.contains("policy drop"), "{text}");
        assert!(text.contains("table ip other"), "{text}");
        assert_eq!(
            sandbox.apply(&["--wait-deferred"])["transactions"],
            serde_json::json!([])
        );
    });
}

#[test]
fn a_damaged_table_is_repaired() {
    sandboxed(|mut sandbox| {
        sandbox.write_json(
            "all.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        for damage in [
            "flush chain ip kube-proxy services",
            "flush map ip kube-proxy endpoints",
            "delete table ip kube-proxy",
        ] {
            sandbox.apply(&["--wait-deferred"]);
            let endpoints = sandbox.set(svc_planner::plan::Family::Ipv4, "endpoints");
            let damage = damage.replace("endpoints", &endpoints);
            let done = sandbox.nft(&damage.split(' ').collect::<Vec<_>>());
            assert!(done.status.success(), "{done:?}");
            assert!(
                operations(&sandbox.apply(&["--wait-deferred"])) > 0,
                "{damage}"
            );
            let endpoint = sandbox.endpoint("10.96.0.10", 80, 0);
            assert_eq!(endpoint.as_deref(), Some("10.1.0.1:8080"), "{damage}");
            let chain = sandbox.nft(&["list", "chain", "ip", "kube-proxy", "services"]);
            assert!(
                String::from_utf8_lossy(&chain.stdout).contains("vmap"),
                "{damage}"
            );
        }
    });
}

#[test]
fn cleanup_removes_ours_and_nothing_else_and_can_be_repeated() {
    sandboxed(|sandbox| {
        // With nobody's tools: whatever would be asked for is not there.
        let tools = tempfile::tempdir().unwrap();
        let cleaned = || {
            let mut command = sandbox.command(&["cleanup"]);
            let output = command.env("PATH", tools.path()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            assert!(
                output.stdout.is_empty() && output.stderr.is_empty(),
                "{output:?}"
            );
            let listed = sandbox.nft(&["list", "tables"]);
            String::from_utf8(listed.stdout).unwrap()
        };
        assert_eq!(cleaned(), "", "nothing is there, and nothing is said");
        // Names like ours, and ours in another family.
        let mut others = String::new();
        for other in [
            "ip kube-proxy-2",
            "ip kube",
            "inet kube-proxy",
            "arp kube-proxy",
        ] {
            let table = [&["add", "table"][..], &other.split(' ').collect::<Vec<_>>()].concat();
            let made = sandbox.nft(&table);
            assert!(made.status.success(), "{made:?}");
            others += &format!("table {other}\n");
        }
        sandbox.write_json(
            "all.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        sandbox.apply(&[]);
        for _ in 0..2 {
            assert_eq!(cleaned(), others);
        }
    });
}

#[test]
fn it_lists_in_nft_as_text_and_json() {
    sandboxed(|mut sandbox| {
        sandbox.write_json(
            "all.json",
            &[
                service("web", "10.96.0.10"),
                slice("web", &["10.1.0.1", "10.1.0.2"]),
                service("six", "fd00::a"),
                slice("six", &["fd01::1"]),
            ],
        );
        sandbox.apply(&["--cluster-cidr", "10.244.0.0/16,fd10::/56"]);
        let group = sandbox.route("10.96.0.10", 80).unwrap().group();
        for nft in test_support::nft::versions() {
            let text = nft.run(&["list", "ruleset"]).unwrap();
            let json = nft.run(&["-j", "list", "ruleset"]).unwrap();
            for output in [&text, &json] {
                assert!(output.status.success(), "{}: {output:?}", nft.version);
                assert!(output.stderr.is_empty(), "{}: {output:?}", nft.version);
            }
            let text = String::from_utf8(text.stdout).unwrap();
            assert!(
                text.contains("10.96.0.10 . tcp . 80 : "),
                "{}: {text}",
                nft.version
            );
            // Group and slot in the host's order, not swapped.
            let slot = format!("0:{group:x} . 0x00000001 : 10.1.0.");
            assert!(text.contains(&slot), "{}: no {slot} in {text}", nft.version);
            serde_json::from_slice::<Json>(&json.stdout).unwrap();
        }
    });
}
