//! New flows are spread evenly over the endpoints, however many there are.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::collections::HashMap;

use anyhow::{Result, bail, ensure};
use e2e::{engine, objects};
use kproxy::lab::{Evenness, Probe, Topology, Transport, Verdict};
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
