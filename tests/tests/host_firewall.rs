//! Base chains of others beside ours: which see a node port, and which drop what we forward.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use anyhow::{Result, ensure};
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
const NODE: &str = "192.168.0.2";

const MANIFESTS: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-a}
status: {addresses: [{type: InternalIP, address: 192.168.0.2}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  clusterIP: 172.30.0.41
  type: NodePort
  ports: [{name: http, port: 80, nodePort: 30080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-a, namespace: default, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.0.1.1]}]
"#;

/// The recipe of docs/DATAPLANE.md.
const RECIPE: &str = "
table inet host-firewall {
    chain node-ports {
        type filter hook prerouting priority -150; policy accept;
        fib daddr type local ip saddr != 10.0.0.0/8 tcp dport 30000-32767 drop
    }
}";

#[test]
fn host_chains_and_node_ports() -> Result<()> {
    let client: IpAddr = "203.0.113.2".parse()?;
    let friend: IpAddr = "10.0.9.1".parse()?;
    let topology = Topology::builder()
        .node([NODE.parse()?])
        .host("client", [client])
        .host("friend", [friend])
        .host("pod", ["10.0.1.1".parse()?])
        .build()?;
    topology.serve("pod", Transport::Tcp, 8080)?;
    let folder = Folder::new()?;
    let node = NodeSpec {
        name: "node-a".to_owned(),
        addresses: vec![NODE.parse()?],
        ..NodeSpec::default()
    };
    let mut proxy = Proxy::start(topology.node(), folder.path(), &node, Family::Ipv4)?;
    folder.write("all.yaml", MANIFESTS)?;
    proxy.sync()?;
    let node_port = Probe {
        transport: Transport::Tcp,
        to: SocketAddr::new(NODE.parse()?, 30080),
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

    ruleset::load(topology.node(), RECIPE)?;
    ensure!(
        !reaches("client", SILENCE)?,
        "dropped before the translation"
    );
    ensure!(reaches("friend", PATIENCE)?, "who is let in");
    ruleset::load(topology.node(), "delete table inet host-firewall")?;

    // An accept of ours cannot overrule it: `kproxy check` names it.
    let drops = "
        table ip other
        add chain ip other forward { type filter hook forward priority 10; policy drop; }
    ";
    ruleset::load(topology.node(), drops)?;
    ensure!(!reaches("client", SILENCE)?, "dropped by another table");
    let state = folder.path().to_owned();
    let findings = topology
        .node()
        .run(move || check(&Netns::Current, &state))??;
    let named = findings.iter().any(|it| {
        (it.check, it.level) == (Check::Forward, Level::Problem)
            && it.message.contains("table ip other, chain forward")
    });
    ensure!(named, "{findings:?}");
    Ok(())
}
