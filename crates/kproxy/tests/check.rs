//! `kproxy check`: each trouble is made in a namespace and must be named, then cured.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use std::fs;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nft_batch::Batch;
use nl_codec::msg::Family;
use nl_codec::nft::Table;
use nl_codec::nft::table::TableFlags;
use sandbox::{Sandbox, sandboxed};
use serde_json::Value as Json;

#[test]
fn a_node_in_order_has_no_problem() {
    sandboxed(|sandbox| {
        forward();
        let (code, findings) = check(&sandbox);
        assert_eq!(code, 0, "{findings:#}");
        for name in [
            "kernel",
            "features",
            "conntrack",
            "ipv4",
            "forward",
            "bridge",
            "state-dir",
        ] {
            assert_eq!(levels(&findings, name), ["ok"], "{findings:#}");
        }
        assert_eq!(levels(&findings, "table"), ["ok", "ok"], "{findings:#}");
        let text = String::from_utf8(sandbox.kproxy(&["check"]).stdout).unwrap();
        assert!(
            !text.contains("PROBLEM") && text.contains("ok       kernel"),
            "{text}"
        );
    });
}

#[test]
fn a_node_that_does_not_forward_has_one() {
    sandboxed(|sandbox| {
        let (code, findings) = check(&sandbox);
        assert_eq!(
            (code, levels(&findings, "ipv4")),
            (2, vec!["problem"]),
            "{findings:#}"
        );
    });
}

/// Tables of others are named, and are what they were.
#[test]
fn chains_that_drop_by_default_are_named() {
    sandboxed(|mut sandbox| {
        forward();
        let rules = [
            "add table inet host",
            "add chain inet host guard { type filter hook forward priority 5; policy drop; }",
            "add chain inet host in { type filter hook input priority 0; policy drop; }",
            "add table ip other",
            "add chain ip other fine { type filter hook forward priority 0; }",
        ];
        assert!(sandbox.nft(&[&rules.join("; ")]).status.success());
        let generation = sandbox.connection.generation().unwrap();
        let (code, findings) = check(&sandbox);
        assert_eq!(code, 2, "{findings:#}");
        assert_eq!(levels(&findings, "forward"), ["problem"], "{findings:#}");
        let message = message(&findings, "forward");
        assert!(
            message.contains("table inet host, chain guard (priority 5)"),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
        assert_eq!(levels(&findings, "input"), ["note"], "{findings:#}");
        assert_eq!(sandbox.connection.generation().unwrap(), generation);

        assert!(sandbox.nft(&["delete table inet host"]).status.success());
        assert_eq!(check(&sandbox).0, 0);
    });
}

#[test]
fn a_bridge_that_leads_past_the_rules_is_named() {
    sandboxed(|sandbox| {
        forward();
        add_bridge("cni9", "pod9");
        for name in ["iptables", "ip6tables"] {
            let path = format!("/proc/sys/net/bridge/bridge-nf-call-{name}");
            // Without br_netfilter it is off anyway.
            if fs::exists(&path).unwrap() {
                fs::write(path, "0").unwrap();
            }
        }
        let (code, findings) = check(&sandbox);
        assert_eq!(code, 2, "{findings:#}");
        let message = message(&findings, "bridge");
        assert!(
            message.contains("cni9") && message.contains("br_netfilter"),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");

        // A proxy that starts says so, too, once.
        let source = format!("dir:{}", sandbox.path("nothing").display());
        let output = sandbox.kproxy(&["run", "--source", &source]);
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(log.matches("cni9").count(), 1, "{log}");
    });
}

#[test]
fn owners_of_our_tables_are_told() {
    sandboxed(|mut sandbox| {
        forward();
        sandbox.write_web("all.json", "10.1.0.1");
        sandbox.apply(&[]);
        let (code, findings) = check(&sandbox);
        assert_eq!(code, 0, "{findings:#}");
        assert!(
            message(&findings, "table").contains("left by a kproxy"),
            "{findings:#}"
        );

        sandbox.kproxy(&["cleanup"]);
        let foreign = "add table ip kube-proxy; add chain ip kube-proxy services";
        assert!(sandbox.nft(&[foreign]).status.success());
        let (code, findings) = check(&sandbox);
        assert_eq!(code, 0, "{findings:#}");
        assert_eq!(levels(&findings, "table"), ["ok", "note"], "{findings:#}");

        sandbox.kproxy(&["cleanup"]);
        let mut owned = Table::named("kube-proxy");
        owned.flags = Some(TableFlags::OWNER);
        let mut batch = Batch::default();
        batch.add_table(Family::IPV4, &owned).unwrap();
        let outcome = sandbox.connection.commit(&mut batch.seal());
        assert!(
            matches!(outcome, nft_batch::Outcome::Committed(_)),
            "{outcome:?}"
        );
        let (code, findings) = check(&sandbox);
        assert_eq!(code, 2, "{findings:#}");
        assert_eq!(
            levels(&findings, "table"),
            ["ok", "problem"],
            "{findings:#}"
        );
    });
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named() {
    sandboxed(|sandbox| {
        forward();
        let file = sandbox.path("file");
        fs::write(&file, "").unwrap();
        let output = sandbox.kproxy(&["check", "--state-dir", file.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("PROBLEM  state-dir"), "{text}");
    });
}

#[test]
fn a_namespace_that_is_not_there_is_no_finding() {
    sandboxed(|sandbox| {
        let output = sandbox.kproxy(&["check", "--netns", "no-such-namespace"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
    });
}

fn check(sandbox: &Sandbox) -> (i32, Json) {
    let output = sandbox.kproxy(&["check", "-o", "json"]);
    let findings = serde_json::from_slice(&output.stdout);
    let findings = findings.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code().unwrap(), findings)
}

fn of<'a>(findings: &'a Json, check: &'a str) -> impl Iterator<Item = &'a Json> {
    let findings = findings.as_array().unwrap().iter();
    findings.filter(move |it| it["check"] == check)
}

fn levels<'a>(findings: &'a Json, check: &'a str) -> Vec<&'a str> {
    of(findings, check)
        .map(|it| it["level"].as_str().unwrap())
        .collect()
}

/// The last one's message.
fn message<'a>(findings: &'a Json, check: &'a str) -> &'a str {
    of(findings, check).last().unwrap()["message"]
        .as_str()
        .unwrap()
}

fn forward() {
    fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
    if fs::exists("/proc/sys/net/ipv6/conf/all/forwarding").unwrap() {
        fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1").unwrap();
    }
}

/// A bridge with one port, both without addresses.
fn add_bridge(name: &str, port: &str) {
    add_link(name, InfoKind::Bridge, None);
    let bridge = nix::net::if_::if_nametoindex(name).unwrap();
    add_link(port, InfoKind::Veth, Some(bridge));
}

fn add_link(name: &str, kind: InfoKind, bridge: Option<u32>) {
    let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.connect(&SocketAddr::new(0, 0)).unwrap();
    let mut link = LinkMessage::default();
    link.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind)]),
    ];
    link.attributes
        .extend(bridge.map(LinkAttribute::Controller));
    let mut message = NetlinkMessage::from(RouteNetlinkMessage::NewLink(link));
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0).unwrap();
    let (reply, _) = socket.recv_from_full().unwrap();
    let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply).unwrap();
    match reply.payload {
        NetlinkPayload::Error(error) if error.code.is_none() => {}
        other => panic!("{name}: {other:?}"),
    }
}
