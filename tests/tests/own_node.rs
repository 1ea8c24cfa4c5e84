//! The own Node is deleted from the real API server and made anew, with other addresses, other pod CIDRs
//! and in another zone. While it is gone, what was last known of it is in force, and changes go on, but load
//! balancers are told to pass by; then what is new of it is in force. Nobody's requests and connections
//! notice.

use core::{
    fmt::Write as _,
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    control_plane::{ControlPlane, InPlace, InPlaceOptions},
    differential::{Cluster, TrialStep},
    requests::{PODS, under_requests},
};
use netns_lab::{Probe, Topology, Transport, Verdict};
use serde_json::{Value as Json, json};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const PORT: u16 = 80;
const NODE_PORT: u16 = 30_080;
/// Of each family, as all addresses here.
const VIPS: [&str; 2] = ["172.30.0.41", "fd00:10:96::41"];
const CLIENT: [&str; 2] = ["10.0.9.1", "fd00:10::9:1"];
const TRIES: usize = 5;
const PATIENCE: Duration = Duration::from_secs(10);
/// Requests answered between two events.
const BETWEEN: usize = 24;

/// What a Node says.
struct Facts {
    addresses: [&'static str; 2],
    pod_cidrs: [&'static str; 2],
    zone: &'static str,
    /// Whether the client is one of its pods.
    has_client: bool,
}

const BEFORE: Facts = Facts {
    addresses: ["192.168.0.2", "2001:db8::2"],
    pod_cidrs: ["10.0.9.0/24", "fd00:10::9:0/112"],
    zone: "one",
    has_client: true,
};
const AFTER: Facts = Facts {
    addresses: ["192.168.0.3", "2001:db8::3"],
    pod_cidrs: ["10.0.8.0/24", "fd00:10::8:0/112"],
    zone: "two",
    has_client: false,
};

impl Facts {
    fn manifest(&self) -> String {
        let [four, six] = self.addresses;
        let [pods4, pods6] = self.pod_cidrs;
        let zone = self.zone;
        format!(
            "apiVersion: v1
kind: Node
metadata: {{name: node-a, labels: {{topology.kubernetes.io/zone: {zone}}}}}
spec: {{podCIDR: {pods4}, podCIDRs: [{pods4}, \"{pods6}\"]}}
status:
  addresses: [{{type: InternalIP, address: {four}}}, {{type: InternalIP, address: \"{six}\"}}]
"
        )
    }
}

/// A Service whose endpoints are for one zone each: the pods of these numbers.
fn service(zones: [(&str, usize); 2]) -> Result<String> {
    let [four, six] = VIPS;
    let mut text = format!(
        "apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default}}
spec:
  type: NodePort
  clusterIP: {four}
  clusterIPs: [{four}, \"{six}\"]
  ipFamilyPolicy: RequireDualStack
  ports:
    - {{name: tcp, protocol: TCP, port: {PORT}, nodePort: {NODE_PORT}}}
    - {{name: udp, protocol: UDP, port: {PORT}, nodePort: {NODE_PORT}}}
"
    );
    for (index, family) in ["IPv4", "IPv6"].into_iter().enumerate() {
        let endpoints = zones.map(|(zone, number)| {
            let address = pod(number)[index].clone();
            format!("{{addresses: [\"{address}\"], hints: {{forZones: [{{name: {zone}}}]}}}}")
        });
        let endpoints = endpoints.join(", ");
        write!(
            text,
            "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-{index}
  namespace: default
  labels: {{kubernetes.io/service-name: web}}
addressType: {family}
ports: [{{name: tcp, protocol: TCP, port: {PORT}}}, {{name: udp, protocol: UDP, port: {PORT}}}]
endpoints: [{endpoints}]
"
        )?;
    }
    Ok(text)
}

/// Addresses of the pod of this number, from 1 up.
fn pod(number: usize) -> [String; 2] {
    [format!("10.0.1.{number}"), format!("fd00:10::1:{number}")]
}

fn topology() -> Result<Topology> {
    let mut addresses = Vec::new();
    for facts in [BEFORE, AFTER] {
        for address in facts.addresses {
            addresses.push(address.parse()?);
        }
    }
    let client = CLIENT.map(str::parse).into_iter();
    let client: Vec<_> = client.collect::<Result<_, _>>()?;
    let mut builder = Topology::builder().node(addresses).host("client", client);
    for (number, name) in (1..).zip(PODS) {
        let addresses = pod(number).map(|it| it.parse()).into_iter();
        builder = builder.host(name, addresses.collect::<Result<Vec<_>, _>>()?);
    }
    let topology = builder.build()?;
    for name in PODS {
        topology.serve(name, Transport::Tcp, PORT)?;
        topology.serve(name, Transport::Udp, PORT)?;
    }
    Ok(topology)
}

fn at(address: &str, port: u16) -> Result<SocketAddr> {
    Ok(SocketAddr::new(address.parse()?, port))
}

/// New connections are led to `pod`, and what else packets show is as `facts` say; the addresses of `other`
/// serve no node port.
fn check(topology: &Topology, facts: &Facts, other: &Facts, pod: &str) -> Result<()> {
    let probe = |to| -> Result<Verdict> {
        let transport = Transport::Tcp;
        Ok(topology.probe("client", Probe { transport, to }, PATIENCE)?)
    };
    for family in 0..2 {
        for _ in 0..TRIES {
            for to in [
                at(VIPS[family], PORT)?,
                at(facts.addresses[family], NODE_PORT)?,
            ] {
                let verdict = probe(to)?;
                let Verdict::Answered(answer) = &verdict else {
                    bail!("{to}: {verdict:?}");
                };
                ensure!(&*answer.by == pod, "{to}: reached {}, not {pod}", answer.by);
                if to.port() == PORT {
                    let is_client = answer.source.ip() == CLIENT[family].parse::<IpAddr>()?;
                    ensure!(is_client == facts.has_client, "{to}: {answer:?}");
                }
            }
        }
        let to = at(other.addresses[family], NODE_PORT)?;
        let verdict = probe(to)?;
        ensure!(verdict == Verdict::Reset, "{to}: {verdict:?}");
    }
    Ok(())
}

/// What `/healthz` says of the node, if somebody answers.
fn is_eligible(kproxy: &InPlace) -> Option<bool> {
    let page = kproxy.health("/healthz").ok()?;
    let (_, body) = page.text.split_once("\r\n\r\n")?;
    let body: Json = serde_json::from_str(body).ok()?;
    let eligible = body["nodeEligible"].as_bool()?;
    (page.code == if eligible { 200 } else { 503 }).then_some(eligible)
}

fn written(file: &str, text: String) -> TrialStep {
    TrialStep {
        write: BTreeMap::from([(file.to_owned(), text)]),
        ..TrialStep::default()
    }
}

#[test]
fn a_node_that_is_deleted_and_made_anew() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let (control, topology) = (ControlPlane::start()?, topology()?);
    let mut cluster = Cluster::new(&control);
    cluster.apply(&written("node.yaml", BEFORE.manifest()))?;
    cluster.apply(&written("web.yaml", service([("one", 1), ("two", 2)])?))?;
    let options = InPlaceOptions {
        node_name: "node-a".to_owned(),
        configuration: vec![
            ("detectLocalMode", json!("NodeCIDR")),
            ("nodePortAddresses", json!(["primary"])),
        ],
        flags: vec!["--seccomp=kill".to_owned()],
        ..InPlaceOptions::default()
    };
    let mut kproxy = InPlace::start(&control, topology.node(), Path::new(KPROXY), &options)?;
    let mut until = |facts: &Facts, other: &Facts, pod: &str, eligible: bool| -> Result<()> {
        kproxy.until(&format!("eligible: {eligible}"), |it| {
            Ok(is_eligible(it) == Some(eligible))
        })?;
        let mut wrong = None;
        let so = kproxy.until(&format!("{pod} serves"), |_| {
            wrong = check(&topology, facts, other, pod).err();
            Ok(wrong.is_none())
        });
        so.with_context(|| format!("{wrong:?}"))
    };
    until(&BEFORE, &AFTER, "pod-1", true)?;

    let mut connections = Vec::new();
    for (vip, address) in VIPS.into_iter().zip(BEFORE.addresses) {
        for (from, to) in [
            ("client", at(vip, PORT)?),
            ("node", at(vip, PORT)?),
            ("client", at(address, NODE_PORT)?),
        ] {
            let connection = topology.connect(from, to, PATIENCE)?;
            connections.push((format!("{from} to {to}"), connection));
        }
    }
    let mut still_there = || -> Result<()> {
        for (name, connection) in &mut connections {
            connection
                .echo(b"still there?", PATIENCE)
                .with_context(|| name.clone())?;
        }
        Ok(())
    };
    let [four, six] = VIPS;
    under_requests(&topology, at(four, PORT)?, |requests4| {
        under_requests(&topology, at(six, PORT)?, |requests6| {
            let more = || [requests4, requests6].map(|it| it.more(BETWEEN));
            more();
            cluster.apply(&TrialStep {
                remove: vec!["node.yaml".to_owned()],
                ..TrialStep::default()
            })?;
            until(&BEFORE, &AFTER, "pod-1", false).context("without a Node")?;
            still_there()?;
            more();
            cluster.apply(&written("web.yaml", service([("one", 3), ("two", 2)])?))?;
            until(&BEFORE, &AFTER, "pod-3", false).context("a change without a Node")?;
            more();
            cluster.apply(&written("node.yaml", AFTER.manifest()))?;
            until(&AFTER, &BEFORE, "pod-2", true).context("another Node")?;
            still_there()?;
            more();
            Ok(())
        })?;
        Ok(())
    })?;
    let status = kproxy.stop()?;
    ensure!(status.success(), "{status}");
    Ok(())
}
