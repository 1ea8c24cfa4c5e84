//! New flows are spread evenly over the endpoints, however many there are.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{collections::HashMap, thread};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{engine, flood::Flood, objects, ruleset};
use netns_lab::{Evenness, Namespace, Probe, Topology, Transport, Verdict};
use svc_planner::{Config, object::Protocol};

const PORT: u16 = 80;
const COUNTS: [usize; 5] = [1, 2, 3, 7, 100];
/// Flows per endpoint: χ² wants five at least.
const FLOWS: usize = 50;

struct Family {
    node: IpAddr,
    client: IpAddr,
    vip: IpAddr,
    pods: Vec<IpAddr>,
}

fn families() -> Result<[Family; 2]> {
    let pods = |prefix: &str| -> Result<Vec<IpAddr>> {
        (1..=100)
            .map(|number| Ok(format!("{prefix}{number}").parse()?))
            .collect()
    };
    Ok([
        Family {
            node: "192.168.0.2".parse()?,
            client: "10.0.9.1".parse()?,
            vip: "172.30.0.41".parse()?,
            pods: pods("10.0.1.")?,
        },
        Family {
            node: "2001:db8::1".parse()?,
            client: "fd00:10::9:1".parse()?,
            vip: "fd00:10:96::41".parse()?,
            pods: pods("fd00:10::1:")?,
        },
    ])
}

#[test]
fn every_endpoint_gets_its_share() -> Result<()> {
    let families = families()?;
    let topology = Topology::builder()
        .node(families.each_ref().map(|family| family.node))
        .host("client", families.each_ref().map(|family| family.client))
        .host(
            "pods",
            families
                .iter()
                .flat_map(|family| family.pods.iter().copied()),
        )
        .build()?;
    topology.serve("pods", Transport::Udp, PORT)?;
    let mut engine = engine::start(topology.node(), |_| Config::default())?;
    for family in &families {
        let name = if family.vip.is_ipv4() { "four" } else { "six" };
        engine.apply(objects::service(name, family.vip, &[Protocol::Udp], PORT));
        for count in COUNTS {
            let pods = &family.pods[..count];
            engine.apply(objects::slice(name, pods, &[Protocol::Udp], PORT));
            engine::settle(&mut engine)?;
            for from in ["client", "node"] {
                let counts = shares(&topology, from, family.vip, pods)?;
                let evenness = Evenness::of(&counts);
                println!("{count} endpoints, {name}, from {from}: {evenness:?}");
                ensure!(
                    counts.iter().all(|&count| count > 0),
                    "a share of nothing: {counts:?}"
                );
                ensure!(
                    evenness.is_even(),
                    "{count} endpoints, from {from}: {counts:?}"
                );
            }
        }
    }
    Ok(())
}

/// How many flows each endpoint gets.
fn shares(topology: &Topology, from: &str, vip: IpAddr, pods: &[IpAddr]) -> Result<Vec<u64>> {
    let probe = Probe {
        transport: Transport::Udp,
        to: SocketAddr::new(vip, PORT),
    };
    let mut counts = HashMap::<IpAddr, u64>::new();
    for _ in 0..pods.len() * FLOWS {
        match topology.probe(from, probe, Duration::from_secs(10))? {
            Verdict::Answered(answer) if pods.contains(&answer.at.ip()) => {
                *counts.entry(answer.at.ip()).or_default() += 1;
            }
            other => bail!("{other:?}"),
        }
    }
    Ok(pods
        .iter()
        .map(|pod| counts.get(pod).copied().unwrap_or(0))
        .collect())
}

/// As many endpoints as a slice can have.
const MANY: u16 = 1_000;
/// New flows to them, from several addresses of the client and from the one of the node.
const FROM_CLIENT: u64 = 200_000;
const FROM_NODE: u64 = 60_000;
const SOURCES: u16 = 4;

/// Counts, by address, and swallows what arrives.
const ARRIVALS: &str = "table inet arrivals {
    set v4 { type ipv4_addr; size 65535; flags dynamic; counter; }
    set v6 { type ipv6_addr; size 65535; flags dynamic; counter; }
    chain arriving { type filter hook prerouting priority -300;
        udp dport 80 update @v4 { ip daddr } drop;
        udp dport 80 update @v6 { ip6 daddr } drop;
    };
}";

fn arrivals(namespace: &Namespace, set: &str) -> Result<HashMap<IpAddr, u64>> {
    let listed = ruleset::nft(namespace, &["-j", "list", "set", "inet", "arrivals", set])?;
    let listed: serde_json::Value = serde_json::from_str(&listed)?;
    let items = listed["nftables"].as_array().into_iter().flatten();
    items
        .filter_map(|item| item["set"]["elem"].as_array())
        .flatten()
        .map(|row| {
            let address = row["elem"]["val"].as_str().context("no address")?;
            let count = row["elem"]["counter"]["packets"].as_u64();
            Ok((address.parse()?, count.context("no counter")?))
        })
        .collect()
}

#[test]
fn each_of_a_thousand_endpoints_gets_its_share() -> Result<()> {
    let address = |set: &str, net: u8, number: u16| {
        let [high, low] = number.to_be_bytes();
        match set {
            "v4" => IpAddr::from([10, net, high, low]),
            _ => IpAddr::from([0xfd00, 0x10, 0, 0, 0, 0, net.into(), number]),
        }
    };
    let both = |net: u8, number: u16| ["v4", "v6"].map(|set| address(set, net, number));
    let topology = Topology::builder()
        .node(both(168, 1))
        .host("client", (1..=SOURCES).flat_map(|number| both(9, number)))
        .host("pods", (1..=MANY).flat_map(|number| both(1, number)))
        .build()?;
    let pods = topology.host("pods")?.namespace();
    ruleset::load(pods, ARRIVALS)?;
    let mut engine = engine::start(topology.node(), |_| Config::default())?;
    for set in ["v4", "v6"] {
        let vip = address(set, 96, 1);
        let endpoints: Vec<_> = (1..=MANY).map(|number| address(set, 1, number)).collect();
        engine.apply(objects::service(set, vip, &[Protocol::Udp], PORT));
        engine.apply(objects::slice(set, &endpoints, &[Protocol::Udp], PORT));
        engine::settle(&mut engine)?;
        let client: Vec<_> = (1..=SOURCES)
            .map(|number| address(set, 9, number))
            .collect();
        let ways = [
            (topology.host("client")?.namespace(), client, FROM_CLIENT),
            (topology.node(), vec![address(set, 168, 1)], FROM_NODE),
        ];
        let mut before = HashMap::new();
        for (namespace, sources, flows) in ways {
            let to = vec![SocketAddr::new(vip, PORT)];
            let flood = Flood::start(namespace.handle(), sources, to, flows, 0)?;
            while !flood.is_over() {
                thread::yield_now();
            }
            let sent = flood.finish()?;
            let arrived = arrivals(pods, set)?;
            let count = |counts: &HashMap<_, u64>, pod| counts.get(pod).copied().unwrap_or(0);
            let counts: Vec<_> = endpoints
                .iter()
                .map(|pod| count(&arrived, pod) - count(&before, pod))
                .collect();
            before = arrived;
            ensure!(
                (sent.flows, counts.iter().sum()) == (flows, flows),
                "{sent:?}, {} arrived",
                counts.iter().sum::<u64>()
            );
            let evenness = Evenness::of(&counts);
            println!("{MANY} endpoints, {set}, {flows} flows: {evenness:?}");
            ensure!(
                counts.iter().all(|&count| count > 0),
                "a share of nothing: {counts:?}"
            );
            ensure!(evenness.is_even(), "{evenness:?}: {counts:?}");
        }
    }
    Ok(())
}
