//! Base chains of others beside ours: which see a node port, and which drop what we forward.

use core::{net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    folder::Folder,
    proxy::Proxy,
    ruleset,
    scenario::{Family, NodeSpec},
};
use kproxy::{
    check::{Check, Level, check},
    netns::Netns,
};
use netns_lab::{Probe, Topology, Transport, Verdict};

const PATIENCE: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_millis(300);
/// Addresses of one family.
struct Net {
    family: Family,
    node: &'static str,
    client: &'static str,
    /// Whom the recipe lets in.
    friend: &'static str,
    pod: &'static str,
    cluster_ip: &'static str,
}

const NETS: [Net; 2] = [
    Net {
        family: Family::Ipv4,
        node: "192.168.0.2",
        client: "203.0.113.2",
        friend: "10.0.9.1",
        pod: "10.0.1.1",
        cluster_ip: "172.30.0.41",
    },
    Net {
        family: Family::Ipv6,
        node: "2001:db8::2",
        client: "2001:db8:1::2",
        friend: "fd00:10:9::1",
        pod: "fd00:10:1::1",
        cluster_ip: "fd00:96::41",
    },
];

impl Net {
    fn manifests(&self) -> String {
        let Self {
            node,
            pod,
            cluster_ip,
            ..
        } = self;
        let address_type = match self.family {
            Family::Ipv4 => "IPv4",
            Family::Ipv6 => "IPv6",
        };
        format!(
            "
apiVersion: v1
kind: Node
metadata: {{name: node-a}}
status: {{addresses: [{{type: InternalIP, address: '{node}'}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default}}
spec:
  clusterIP: '{cluster_ip}'
  type: NodePort
  ports: [{{name: http, port: 80, nodePort: 30080}}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-a, namespace: default, labels: {{kubernetes.io/service-name: web}}}}
addressType: {address_type}
ports: [{{name: http, port: 8080}}]
endpoints: [{{addresses: ['{pod}']}}]
"
        )
    }

    /// The table of somebody who drops what is forwarded.
    fn drops(&self) -> (&'static str, &'static str) {
        match self.family {
            Family::Ipv4 => ("ip", "table ip other, chain forward"),
            Family::Ipv6 => ("ip6", "table ip6 other, chain forward"),
        }
    }
}

/// The recipe of docs/DATAPLANE.md, as it stands there.
fn recipe() -> Result<&'static str> {
    let text = include_str!("../../docs/DATAPLANE.md");
    let from = text.split_once("node ports, come before");
    let block = from.and_then(|(_, it)| it.split_once("```text\n")?.1.split_once("```"));
    Ok(block.context("no recipe for node ports")?.0)
}

#[test]
fn host_chains_and_node_ports() -> Result<()> {
    NETS.iter().try_for_each(beside)
}

fn beside(net: &Net) -> Result<()> {
    let topology = Topology::builder()
        .node([net.node.parse()?])
        .host("client", [net.client.parse()?])
        .host("friend", [net.friend.parse()?])
        .host("pod", [net.pod.parse()?])
        .build()?;
    topology.serve("pod", Transport::Tcp, 8080)?;
    let folder = Folder::new()?;
    let node = NodeSpec {
        name: "node-a".to_owned(),
        addresses: vec![net.node.parse()?],
        ..NodeSpec::default()
    };
    let mut proxy = Proxy::start(topology.node(), folder.path(), &node, net.family)?;
    folder.write("all.yaml", &net.manifests())?;
    proxy.sync()?;
    let node_port = Probe {
        transport: Transport::Tcp,
        to: SocketAddr::new(net.node.parse()?, 30080),
    };
    let reaches = |from: &str, patience| -> Result<bool> {
        Ok(match topology.probe(from, node_port, patience)? {
            Verdict::Answered(_) => true,
            Verdict::Silent => false,
            other => anyhow::bail!("{other:?}"),
        })
    };
    ensure!(reaches("client", PATIENCE)?, "nothing is in the way");

    // It comes after the translation and sees a forwarded packet, if anything.
    let too_late = "
        table inet late
        add chain inet late in { type filter hook input priority 0; }
        add rule inet late in tcp dport 30080 drop
    ";
    ruleset::load(topology.node(), too_late)?;
    ensure!(
        reaches("client", PATIENCE)?,
        "an input chain sees no node port"
    );

    ruleset::load(topology.node(), recipe()?)?;
    ensure!(
        !reaches("client", SILENCE)?,
        "dropped before the translation"
    );
    ensure!(reaches("friend", PATIENCE)?, "who is let in");
    ruleset::load(topology.node(), "delete table inet host-firewall")?;

    // An accept of ours cannot overrule it: `kproxy check` names it.
    let (family, place) = net.drops();
    let drops = format!(
        "
        table {family} other
        add chain {family} other forward {{ type filter hook forward priority 10; policy drop; }}
    "
    );
    ruleset::load(topology.node(), &drops)?;
    ensure!(!reaches("client", SILENCE)?, "dropped by another table");
    let state = folder.path().to_owned();
    let findings = topology
        .node()
        .run(move || check(&Netns::Current, &state))??;
    let named = findings.iter().any(|it| {
        (it.check, it.level) == (Check::Forward, Level::Problem) && it.message.contains(place)
    });
    ensure!(named, "{findings:?}");
    Ok(())
}
