//! What the API server has to send and answer, for kproxy and for the real kube-proxy: the first list,
//! updates of a large slice, and many clients whose versions it knows no more. `cargo xtask bench api`.

use anyhow::{Result, ensure};
use clap::Parser;
use e2e::{
    control_plane::{
        Carried, ControlPlane, KubeProxy, Method, Relay, Request, Settings, namespace_request,
    },
    folder::Folder,
    reading::Reading,
};
use kproxy::apiserver::PROTOBUF;
use netns_lab::Namespace;
use serde_json::{Value as Json, json};
use svc_planner::{
    object::Change,
    plan::{Family, Key},
};

#[derive(Parser)]
#[command(about = "Bytes and requests of kproxy beside those of the real kube-proxy (as root)")]
struct Cli {
    /// Services, each with a slice of ten endpoints
    #[arg(long, default_value_t = 500)]
    services: u16,
    /// Updates of a slice of 1,000 endpoints
    #[arg(long, default_value_t = 1_000)]
    updates: u16,
    /// Clients of kproxy's kind that are told "410 Gone" at once
    #[arg(long, default_value_t = 100)]
    clients: u16,
    /// The same of kube-proxy's
    #[arg(long, default_value_t = 10)]
    kube_proxies: u16,
    /// Print figures but do not fail when a bound is missed
    #[arg(long)]
    no_bounds: bool,
}

const SERVER: &str = "127.0.0.1:6443";
const RELAYED: &str = "127.0.0.1:16443";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices";
const LARGE: &str = "large-1";
/// kproxy may take so much of what kube-proxy takes.
const BOUND: f64 = 1.1;

/// What was sent and asked, by all clients together.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    carried: Carried,
    /// Whole numbers.
    requests: f64,
}

impl Traffic {
    fn since(self, before: Self) -> Self {
        Self {
            carried: Carried {
                sent: self.carried.sent - before.carried.sent,
                received: self.carried.received - before.carried.received,
                connections: self.carried.connections - before.carried.connections,
            },
            requests: self.requests - before.requests,
        }
    }

    fn bytes(self) -> f64 {
        (self.carried.sent + self.carried.received) as f64
    }
}

/// Clients of one kind.
trait Clients {
    fn count(&self) -> usize;
    fn traffic(&self) -> Result<Traffic>;
    /// Until all have received what was written before the marker.
    fn wait_for(&mut self, marker: &[(Family, Key); 2]) -> Result<()>;
    fn relays(&self) -> Vec<&Relay>;
}

struct Readers {
    readings: Vec<Reading>,
    relay: Relay,
    _namespace: Namespace,
    _folder: Folder,
}

impl Readers {
    fn start(control: &ControlPlane, count: u16) -> Result<Self> {
        let namespace = Namespace::new("readers")?;
        let folder = Folder::new()?;
        let kubeconfig = folder.path().join("kubeconfig");
        std::fs::write(&kubeconfig, ControlPlane::kubeconfig(RELAYED).to_string())?;
        let relay = Relay::start(
            (&namespace, RELAYED.parse()?),
            (control.namespace(), SERVER.parse()?),
        )?;
        let start = |_| Reading::start(&namespace, kubeconfig.clone(), PROTOBUF);
        Ok(Self {
            readings: (0..count).map(start).collect::<Result<_>>()?,
            relay,
            _namespace: namespace,
            _folder: folder,
        })
    }
}

impl Clients for Readers {
    fn count(&self) -> usize {
        self.readings.len()
    }

    fn traffic(&self) -> Result<Traffic> {
        let asked = |reading: &Reading| {
            let codes = ["200", "410", "429", "500", "503", "504", "<error>"];
            codes
                .map(|code| reading.facts.requests(code, "GET", RELAYED))
                .iter()
                .sum::<u64>()
        };
        Ok(Traffic {
            carried: self.relay.carried(),
            requests: self.readings.iter().map(asked).sum::<u64>() as f64,
        })
    }

    fn wait_for(&mut self, marker: &[(Family, Key); 2]) -> Result<()> {
        let [(_, Key::Frontend { port, .. }), _] = marker else {
            anyhow::bail!("the marker has no frontend");
        };
        for reading in &mut self.readings {
            reading.until(|change| {
                matches!(change, Change::Service(it) if &*it.name.name == "marker" && it.ports[0].port == *port)
            })?;
        }
        Ok(())
    }

    fn relays(&self) -> Vec<&Relay> {
        vec![&self.relay]
    }
}

struct KubeProxies(Vec<(KubeProxy, Namespace)>);

impl KubeProxies {
    fn start(control: &ControlPlane, count: u16) -> Result<Self> {
        let start = |number| {
            let namespace = Namespace::new(&format!("kube-proxy {number}"))?;
            let settings = Settings {
                node_name: "node-a".to_owned(),
                ..Settings::default()
            };
            let proxy = KubeProxy::start(control, &namespace, settings)?;
            Ok((proxy, namespace))
        };
        (0..count).map(start).collect::<Result<_>>().map(Self)
    }
}

impl Clients for KubeProxies {
    fn count(&self) -> usize {
        self.0.len()
    }

    fn traffic(&self) -> Result<Traffic> {
        let mut sum = Traffic::default();
        for (proxy, _) in &self.0 {
            let carried = proxy.relay().carried();
            sum.carried.sent += carried.sent;
            sum.carried.received += carried.received;
            sum.carried.connections += carried.connections;
            for code in ["200", "410", "429", "500", "503", "504", "<error>"] {
                let name = format!(
                    "rest_client_requests_total{{code=\"{code}\",host=\"{RELAYED}\",method=\"GET\"}}"
                );
                sum.requests += proxy.metric(&name)?.unwrap_or_default();
            }
        }
        Ok(sum)
    }

    fn wait_for(&mut self, marker: &[(Family, Key); 2]) -> Result<()> {
        for (proxy, namespace) in &mut self.0 {
            proxy.wait_for(marker, namespace)?;
        }
        Ok(())
    }

    fn relays(&self) -> Vec<&Relay> {
        self.0.iter().map(|(proxy, _)| proxy.relay()).collect()
    }
}

fn main() -> Result<()> {
    let cli = Cli::parse();
    let control = ControlPlane::start()?;
    fill(&control, cli.services)?;
    println!("{} Services × 10 endpoints, and one of 1,000", cli.services);

    let mut one = (
        KubeProxies::start(&control, 1)?,
        Readers::start(&control, 1)?,
    );
    let first = [first(&control, &mut one.0)?, first(&control, &mut one.1)?];
    let mut missed = report("first list", first, [1, 1]);
    let updates = [
        updates(&control, &mut one.0, cli.updates, 1)?,
        updates(&control, &mut one.1, cli.updates, 2)?,
    ];
    missed.extend(report(
        &format!("{} updates of 1,000 endpoints", cli.updates),
        updates,
        [1, 1],
    ));
    drop(one);

    let mut theirs = KubeProxies::start(&control, cli.kube_proxies)?;
    let of_theirs = gone(&control, &mut theirs)?;
    let counts = [theirs.count(), usize::from(cli.clients)];
    drop(theirs);
    let mut ours = Readers::start(&control, cli.clients)?;
    let of_ours = gone(&control, &mut ours)?;
    missed.extend(report("410 Gone at once", [of_theirs, of_ours], counts));
    ensure!(
        missed.is_empty() || cli.no_bounds,
        "missed: {}",
        missed.join(", ")
    );
    Ok(())
}

/// Prints kube-proxy's and kproxy's figures, for each client.
fn report(what: &str, [theirs, ours]: [Traffic; 2], clients: [usize; 2]) -> Vec<String> {
    let each = |number: f64, clients: usize| number / clients as f64;
    let mut missed = Vec::new();
    let bytes = ("bytes", theirs.bytes(), ours.bytes());
    let requests = ("requests", theirs.requests, ours.requests);
    println!(
        "{what}, {} kube-proxies and {} kproxies",
        clients[0], clients[1]
    );
    for (figure, theirs, ours) in [bytes, requests] {
        let (theirs, ours) = (each(theirs, clients[0]), each(ours, clients[1]));
        // Where nobody asks for anything both take the same.
        let ratio = if ours == theirs { 1.0 } else { ours / theirs };
        let held = ratio <= BOUND;
        println!(
            "  {figure} a client: kube-proxy {theirs:.1}, kproxy {ours:.1}; {ratio:.3} of it (bound ≤ {BOUND}{})",
            if held { "" } else { ", MISSED" }
        );
        if !held {
            missed.push(format!("{what}: {figure} {ratio:.3}"));
        }
    }
    missed
}

/// What it takes to receive everything.
fn first(control: &ControlPlane, clients: &mut impl Clients) -> Result<Traffic> {
    clients.wait_for(&control.mark()?)?;
    clients.traffic()
}

/// What changes of one endpoint of a thousand take.
fn updates(
    control: &ControlPlane,
    clients: &mut impl Clients,
    count: u16,
    round: u8,
) -> Result<Traffic> {
    let before = clients.traffic()?;
    let numbers: Vec<_> = (0..count).collect();
    for numbers in numbers.chunks(50) {
        let update = |number: &u16| {
            let path = format!("{SLICES}/{LARGE}");
            Request::new(Method::Put, path).with(large(round, *number))
        };
        send(control, &numbers.iter().map(update).collect::<Vec<_>>())?;
    }
    clients.wait_for(&control.mark()?)?;
    Ok(clients.traffic()?.since(before))
}

/// What it takes when the server comes back and knows no client's version any more.
fn gone(control: &ControlPlane, clients: &mut impl Clients) -> Result<Traffic> {
    clients.wait_for(&control.mark()?)?;
    let before = clients.traffic()?;
    let held: Vec<_> = clients.relays().into_iter().map(Relay::cut).collect();
    send(
        control,
        &[Request::new(Method::Put, format!("{SLICES}/{LARGE}")).with(large(3, 1))],
    )?;
    control.restart_api()?;
    let marker = control.mark()?;
    drop(held);
    clients.wait_for(&marker)?;
    Ok(clients.traffic()?.since(before))
}

fn fill(control: &ControlPlane, services: u16) -> Result<()> {
    send(control, &[namespace_request("shop")])?;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}});
    send(
        control,
        &[
            Request::new(Method::Post, "/api/v1/nodes").with(node.clone()),
            Request::new(Method::Put, "/api/v1/nodes/node-a/status").with(node),
            Request::new(Method::Post, SLICES).with(large(0, 0)),
        ],
    )?;
    let numbers: Vec<_> = (0..services).collect();
    for numbers in numbers.chunks(100) {
        let requests: Vec<_> = numbers
            .iter()
            .flat_map(|number| {
                let name = format!("web-{number}");
                let service = json!({"apiVersion": "v1", "kind": "Service",
                "metadata": {"name": name, "namespace": "shop", "labels": {"app": name}},
                "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}]}});
                let [high, low] = number.to_be_bytes();
                let endpoints = (1..=10).map(|last| endpoint(&format!("10.{high}.{low}.{last}")));
                [
                    Request::new(Method::Post, "/api/v1/namespaces/shop/services").with(service),
                    Request::new(Method::Post, SLICES).with(slice(
                        &format!("{name}-1"),
                        &name,
                        endpoints,
                    )),
                ]
            })
            .collect();
        send(control, &requests)?;
    }
    Ok(())
}

/// A slice of 1,000 endpoints of which one changes with `number`.
fn large(round: u8, number: u16) -> Json {
    let [high, low] = number.to_be_bytes();
    let changing = format!("10.{}.{high}.{low}", 240 + u16::from(round));
    let fixed = (0..999_u16).map(|it| {
        let [high, low] = it.to_be_bytes();
        format!("10.230.{high}.{low}")
    });
    slice(
        LARGE,
        "large",
        fixed.chain([changing]).map(|address| endpoint(&address)),
    )
}

fn slice(name: &str, service: &str, endpoints: impl Iterator<Item = Json>) -> Json {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4", "ports": [{"name": "http", "port": 8080}],
        "endpoints": endpoints.collect::<Vec<_>>()})
}

fn endpoint(address: &str) -> Json {
    json!({"addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": "node-b", "targetRef": {"kind": "Pod", "namespace": "shop",
            "name": format!("pod-{address}"), "uid": "4be3f0c2-53f3-4c0b-9a57-6d2f2d9f3b11"}})
}

fn send(control: &ControlPlane, requests: &[Request]) -> Result<()> {
    for response in control.client().send(requests)? {
        ensure!(response.is_ok(), "{}", response.message());
    }
    Ok(())
}
