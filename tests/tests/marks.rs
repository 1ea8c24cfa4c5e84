//! Of the packet mark only the masquerade bit is touched, and it is clear again when a packet leaves
//! (kubernetes/kubernetes#19983, kubernetes/kubernetes#92035).

use core::{net::IpAddr, time::Duration};

use anyhow::{Result, bail, ensure};
use e2e::{engine, objects, ruleset};
use netns_lab::{Probe, Topology, Transport, Verdict};
use svc_planner::{
    Config,
    object::{Change, Protocol},
};

const PORT: u16 = 80;
const PATIENCE: Duration = Duration::from_secs(10);

struct Family {
    table: &'static str,
    node: &'static str,
    client: &'static str,
    pod: &'static str,
    cluster: &'static str,
    external: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        table: "ip",
        node: "192.168.0.2",
        client: "203.0.113.2",
        pod: "10.0.1.1",
        cluster: "172.30.0.41",
        external: "192.168.99.11",
    },
    Family {
        table: "ip6",
        node: "2001:db8::1",
        client: "2001:db8:cafe::2",
        pod: "fd00:10::1:1",
        cluster: "fd00:10:96::41",
        external: "2001:db8:99::11",
    },
];

/// Marks that somebody else has set, without the bit, and with the bit next to it.
const MARKS: [u32; 2] = [0x00ff_0000, 0xffff_bfff];

#[test]
fn marks_of_others_survive_masquerading() -> Result<()> {
    for family in &FAMILIES {
        for bit in [0, 14, 31] {
            for mark in MARKS.map(|mark| mark & !(1 << bit)) {
                masquerade(family, bit, mark)?;
            }
        }
    }
    Ok(())
}

fn masquerade(family: &Family, bit: u8, mark: u32) -> Result<()> {
    let [node, client, pod, cluster, external] = [
        family.node,
        family.client,
        family.pod,
        family.cluster,
        family.external,
    ]
    .map(|text| text.parse::<IpAddr>());
    let (node, client, pod, external) = (node?, client?, pod?, external?);
    let topology = Topology::builder()
        .node([node])
        .host("client", [client])
        .host("pod", [pod])
        .build()?;
    topology.serve("pod", Transport::Tcp, PORT)?;
    let mut engine = engine::start(topology.node(), |_| Config {
        masquerade_bit: bit,
        ..Config::default()
    })?;
    let service = objects::service("web", cluster?, &[Protocol::Tcp], PORT);
    let Change::Service(mut service) = service else {
        bail!("not a Service");
    };
    service.external_ips.push(external);
    engine.apply(Change::Service(service));
    engine.apply(objects::slice("web", &[pod], &[Protocol::Tcp], PORT));
    engine::settle(&mut engine)?;
    let (table, from, to) = (family.table, topology.interface("client")?, family.pod);
    ruleset::load(
        topology.node(),
        &format!(
            "table {table} others {{
                chain first {{
                    type filter hook prerouting priority -300
                    iifname {from} meta mark set {mark:#x}
                }}
                chain last {{
                    type filter hook postrouting priority 300
                    {table} daddr {to} meta mark {mark:#x} counter comment \"as it was\"
                    {table} daddr {to} meta mark != {mark:#x} counter comment \"changed\"
                }}
            }}"
        ),
    )?;
    let to = (external, PORT).into();
    let transport = Transport::Tcp;
    let verdict = topology.probe("client", Probe { transport, to }, PATIENCE)?;
    let masqueraded = matches!(&verdict, Verdict::Answered(answer) if answer.source.ip() == node);
    ensure!(masqueraded, "{verdict:?}");
    let listed = ruleset::nft(topology.node(), &["list", "table", table, "others"])?;
    let packets = |comment: &str| -> Option<u64> {
        let line = listed.lines().find(|line| line.contains(comment))?;
        let (_, rest) = line.split_once("counter packets ")?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let counted = (packets("as it was"), packets("\"changed\""));
    ensure!(
        counted.0.is_some_and(|count| count > 0) && counted.1 == Some(0),
        "bit {bit}, mark {mark:#x}: {listed}"
    );
    Ok(())
}
