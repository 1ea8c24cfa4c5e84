//! Every set and every chain of both families, with something in it, emptied by somebody.

use core::net::IpAddr;
use core::time::Duration;
use std::process::Command;
use std::sync::mpsc;
use std::time::Instant;

use kproxy::engine::{Engine, GuardOptions};
use kproxy::netns::Netns;
use nft_batch::Connection;
use serde_json::Value as Json;
use smallvec::smallvec;
use svc_planner::Config;
use svc_planner::config::LocalDetector;
use svc_planner::object::{Change, Node, TrafficPolicy};
use svc_planner::plan::Family;
use test_support::in_new_netns;

use crate::bench::{Bench, FAMILIES, listing, nft};
use crate::objects;

const HERE: &str = "node-a";
/// Prefixes: that others edited one of these is answered by building all anew.
const PREFIXES: [&str; 2] = ["service-cidrs", "source-ranges"];
/// Clients come and go without us.
const CLIENTS: &str = "client-affinity";

fn address(family: Family, net: u8, host: u8) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::from([10, net, 0, host]),
        Family::Ipv6 => IpAddr::from([0xfd00, 0, 0, 0, 0, 0, net.into(), host.into()]),
    }
}

fn both(net: u8, host: u8) -> [IpAddr; 2] {
    FAMILIES.map(|(family, _)| address(family, net, host))
}

fn prefix(family: Family, net: u8) -> ipnet::IpNet {
    let length = if family == Family::Ipv4 { 16 } else { 112 };
    ipnet::IpNet::new(address(family, net, 0), length).unwrap()
}

/// A balanced Service of both families with policy Local for what comes from outside. Its endpoints:
/// number and node.
fn balanced(number: u8, affinity: Option<u32>, endpoints: &[(u8, &str)]) -> Vec<Change> {
    let Change::Service(mut service) = objects::service(number.into()) else {
        panic!("a Service");
    };
    service.cluster_ips = both(96, number).into_iter().collect();
    service.load_balancer_ips = both(198, number).into_iter().collect();
    service.source_ranges = FAMILIES.map(|it| prefix(it.0, 203)).into_iter().collect();
    service.external_policy = TrafficPolicy::Local;
    service.ports[0].node_port = 30_000 + u16::from(number);
    service.affinity = affinity;
    let mut changes = vec![Change::Service(service)];
    for (family, suffix) in FAMILIES {
        let Change::EndpointSlice(mut slice) = objects::slice(number.into(), address(family, 1, 1))
        else {
            panic!("a slice");
        };
        slice.name.name = format!("{}-{suffix}", slice.name.name).into();
        let one = slice.endpoints.remove(0);
        slice.endpoints.extend(endpoints.iter().map(|(pod, node)| {
            let mut endpoint = one.clone();
            endpoint.address = address(family, 1, *pod);
            endpoint.node = Some((*node).into());
            endpoint
        }));
        changes.push(Change::EndpointSlice(slice));
    }
    changes
}

/// Something for each set.
fn cluster() -> Vec<Change> {
    let mut changes = vec![
        Change::HostAddresses(both(168, 1).into()),
        Change::Node(Node {
            name: HERE.into(),
            addresses: both(168, 1).into_iter().collect(),
            pod_cidrs: smallvec![],
            zone: None,
            eligible: true,
        }),
        Change::ServiceCidr {
            name: "kubernetes".into(),
            cidrs: FAMILIES.map(|it| prefix(it.0, 96)).into_iter().collect(),
        },
    ];
    changes.extend(balanced(1, None, &[(1, HERE), (2, "other")]));
    changes.extend(balanced(2, Some(600), &[(1, HERE), (2, "other")]));
    changes.extend(balanced(3, None, &[(2, "other")]));
    changes.extend(balanced(4, None, &[]));
    changes
}

/// A guarded engine that has all of it in the kernel.
fn served(family: Family) -> Bench {
    let mut engine = Engine::new(Connection::open().unwrap(), |family| Config {
        node_name: HERE.into(),
        local: LocalDetector::Cidr(prefix(family, 1)),
        ..Config::default()
    });
    engine.adopt(None).unwrap();
    let (woke, woken) = mpsc::channel();
    let wake = move || woke.send(Instant::now()).unwrap_or_default();
    // So many edits are no fight.
    let options = GuardOptions {
        window: Duration::ZERO,
        ..GuardOptions::default()
    };
    engine.guard(&Netns::Current, options, wake).unwrap();
    for change in cluster() {
        engine.apply(change);
    }
    let mut bench = Bench {
        family,
        engine,
        woken,
        intact: Vec::new(),
    };
    bench.sync();
    bench
}

/// Objects, as nft lists them.
fn listed(what: &[&str]) -> Vec<Json> {
    let mut command = Command::new("nft");
    let output = command.args(["-j", "list"]).args(what).output().unwrap();
    assert!(output.status.success(), "{what:?}: {output:?}");
    let mut listed: Json = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(listed["nftables"].take()).unwrap()
}

/// Kind and name of each set with rows in it, and the names of those without.
fn sets(family: &str) -> (Vec<(String, String)>, Vec<String>) {
    let (mut filled, mut empty) = (Vec::new(), Vec::new());
    for object in listed(&["table", family, "kube-proxy"]) {
        for kind in ["set", "map"] {
            let Some(name) = object[kind]["name"].as_str() else {
                continue;
            };
            match object[kind]["elem"].as_array() {
                Some(rows) if !rows.is_empty() => filled.push((kind.into(), name.into())),
                _ => empty.push(name.into()),
            }
        }
    }
    (filled, empty)
}

#[test]
fn whatever_set_is_emptied_is_filled_again() {
    for (family, name) in FAMILIES {
        in_new_netns(move || {
            let mut bench = served(family);
            let (filled, empty) = sets(name);
            assert_eq!(empty, [CLIENTS], "{name}");
            let intact = FAMILIES.map(|(_, family)| listing(family));
            let (prefixes, others): (Vec<_>, Vec<_>) = filled
                .into_iter()
                .partition(|(_, set)| PREFIXES.contains(&set.as_str()));
            assert_eq!(prefixes.len(), PREFIXES.len());
            for (kind, set) in others {
                let before = bench.engine.interference(family).rows;
                nft(&format!("flush {kind} {name} kube-proxy {set}"));
                bench.recover();
                let now = FAMILIES.map(|(_, family)| listing(family));
                assert!(now == intact, "{name} {set}: {now:#?}");
                let seen = bench.engine.interference(family);
                assert!(seen.rows > before, "{name} {set}: {seen:?}");
                assert_eq!(seen.rebuilds, 0, "{name} {set}");
            }
            // The sets have other names from then on.
            let flushed = prefixes[0].1.as_str();
            nft(&format!("flush set {name} kube-proxy {flushed}"));
            bench.recover();
            assert_eq!(bench.engine.interference(family).rebuilds, 1);
            let rebuilt = listed(&["set", name, "kube-proxy", &format!("{flushed}-1")]);
            let rows = rebuilt.iter().find_map(|it| it["set"]["elem"].as_array());
            assert!(rows.is_some_and(|it| !it.is_empty()), "{rebuilt:#?}");
            let [four, six] = FAMILIES.map(|(it, _)| bench.engine.interference(it).edits > 0);
            assert_eq!((four, six), (name == "ip", name == "ip6"));
        });
    }
}

#[test]
fn whatever_chain_is_emptied_is_filled_again() {
    for (family, name) in FAMILIES {
        in_new_netns(move || {
            let mut bench = served(family);
            let intact = FAMILIES.map(|(_, family)| listing(family));
            let mut chains: Vec<_> = listed(&["table", name, "kube-proxy"])
                .iter()
                .filter_map(|it| Some(it["rule"]["chain"].as_str()?.to_owned()))
                .collect();
            chains.dedup();
            // The base chains, those that they jump to, and those of classes.
            assert!(chains.len() > 8 + 6 + 6, "{chains:?}");
            for chain in chains {
                let before = bench.engine.interference(family).mends;
                nft(&format!("flush chain {name} kube-proxy {chain}"));
                bench.recover();
                let now = FAMILIES.map(|(_, family)| listing(family));
                assert!(now == intact, "{name} {chain}: {now:#?}");
                let seen = bench.engine.interference(family);
                assert_eq!((seen.mends, seen.rows), (before + 1, 0), "{name} {chain}");
                assert_eq!(seen.rebuilds, 0, "{name} {chain}");
            }
        });
    }
}
