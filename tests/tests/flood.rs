//! The flood used by the race tests reaches what rules say, and all of it is accounted for.

use core::net::{IpAddr, SocketAddr};

use anyhow::Result;
use e2e::{
    flood::{Flood, arrivals, count_arrivals},
    ruleset,
};
use netns_lab::{SINK, Topology};

#[test]
fn every_flow_is_new_and_counted_where_it_arrives() -> Result<()> {
    let sources: [Vec<IpAddr>; 2] = [
        vec!["203.0.113.2".parse()?, "203.0.113.3".parse()?],
        vec!["2001:db8:cafe::2".parse()?, "2001:db8:cafe::3".parse()?],
    ];
    let pods: [[IpAddr; 2]; 2] = [
        ["10.0.1.1".parse()?, "10.0.1.2".parse()?],
        ["fd00::1".parse()?, "fd00::2".parse()?],
    ];
    let nodes: [IpAddr; 2] = ["192.168.0.2".parse()?, "2001:db8::1".parse()?];
    let topology = Topology::builder()
        .node(nodes)
        .host("client", sources.iter().flatten().copied())
        .host("pod-1", pods.map(|family| family[0]))
        .host("pod-2", pods.map(|family| family[1]))
        .build()?;
    let watched = ["pod-1", "pod-2", SINK];
    for host in watched {
        count_arrivals(topology.host(host)?.namespace())?;
    }
    let counts = || -> Result<[u64; 3]> {
        let mut counts = [0; 3];
        for (count, host) in counts.iter_mut().zip(watched) {
            *count = arrivals(topology.host(host)?.namespace())?;
        }
        Ok(counts)
    };
    let rules: String = [
        ("ip", "172.30.0.41", pods[0]),
        ("ip6", "fd00:10:96::41", pods[1]),
    ]
    .into_iter()
    .flat_map(|(family, vip, pods)| {
        [("prerouting", family, vip, pods), ("output", family, vip, pods)]
    })
    .map(|(hook, family, vip, [one, two])| {
        format!(
            "table {family} t {{ chain {hook} {{ type nat hook {hook} priority -100;
               {family} daddr {vip} udp dport 80 dnat to numgen random mod 2 map {{ 0 : {one}, 1 : {two} }}
             }}; }}\n"
        )
    })
    .collect();
    ruleset::load(topology.node(), &rules)?;
    let mut before = counts()?;
    for (family, vip) in ["172.30.0.41", "fd00:10:96::41"].into_iter().enumerate() {
        let (served, unserved) = (
            SocketAddr::new(vip.parse()?, 80),
            SocketAddr::new(vip.parse()?, 81),
        );
        for (namespace, sources) in [
            (
                topology.host("client")?.namespace(),
                sources[family].clone(),
            ),
            (topology.node(), vec![nodes[family]]),
        ] {
            let flood = Flood::start(
                namespace.handle(),
                sources,
                vec![served, unserved],
                10_000,
                0,
            )?;
            while !flood.is_over() {
                std::thread::yield_now();
            }
            let sent = flood.finish()?;
            let after = counts()?;
            let [one, two, sink] = [0, 1, 2].map(|host| after[host] - before[host]);
            assert_eq!((sent.flows, sent.refused), (10_000, 0));
            assert_eq!((one + two, sink), (5_000, 5_000));
            // Only the first packet of a flow is balanced: so many on either side means new flows.
            assert!(one > 2_000 && two > 2_000, "{one} and {two}");
            before = after;
            println!("{:?} a flow", sent.time / 10_000);
        }
    }
    Ok(())
}
