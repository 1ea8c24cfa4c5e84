//! A dual-stack node, its hosts, and the cluster of `takeover/cluster.yaml`.

use core::{net::SocketAddr, time::Duration};
use std::{collections::BTreeMap, fs, path::Path, process::Command, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::{Flow, Namespace, Probe, Topology, Transport, Verdict};
use nft_batch::{EventError, Events};
use serde_json::json;

use super::layout::Layout;
use crate::{
    control_plane::{ControlPlane, Settings},
    differential::{Check, Cluster, Outcomes, TrialStep},
    folder::Folder,
    kept::Kept,
    program::Program,
    requests::forget_ended,
};

/// The manifests.
pub const CLUSTER: &str = include_str!("../../takeover/cluster.yaml");

const NODE: [&str; 2] = ["192.168.0.2", "2001:db8::1"];
const PODS: &str = "10.0.0.0/8,fd00:10::/64";
const HOSTS: [(&str, [&str; 2]); 4] = [
    ("pod", ["10.0.0.2", "fd00:10::2"]),
    ("external", ["203.0.113.2", "2001:db8:cafe::2"]),
    ("near", ["10.0.1.1", "fd00:10::1:1"]),
    ("far", ["10.0.2.1", "fd00:10::2:1"]),
];
/// What clients connect to: protocol, addresses, port.
const FRONTENDS: [(&str, [&str; 2], u16); 9] = [
    ("tcp", ["172.30.2.1", "fd00:10:96::2:1"], 80),
    ("udp", ["172.30.2.1", "fd00:10:96::2:1"], 53),
    ("tcp", ["192.0.2.1", "2001:db8:e::1"], 80),
    ("tcp", ["172.30.2.2", "fd00:10:96::2:2"], 80),
    ("tcp", ["198.18.0.1", "2001:db8:f::1"], 80),
    ("tcp", NODE, 30080),
    ("tcp", ["172.30.2.4", "fd00:10:96::2:4"], 80),
    ("tcp", NODE, 30084),
    ("sctp", ["172.30.2.1", "fd00:10:96::2:1"], 53),
];
/// Connections kept open: who, and to which of [`FRONTENDS`].
const KEPT: [(&str, usize); 6] = [
    ("pod", 0),
    ("external", 2),
    ("external", 5),
    ("node", 0),
    ("pod", 8),
    ("external", 8),
];
/// ClusterIPs of the Service whose clients stick.
const STICKY: [&str; 2] = ["172.30.2.3", "fd00:10:96::2:3"];
const CLIENTS: [&str; 3] = ["pod", "external", "node"];
/// UDP flows of each family, enough to notice that they choose anew.
const FLOWS: usize = 9;
/// Enough to miss one of two endpoints once in 10⁴ times.
const TRIES: usize = 15;
const PATIENCE: Duration = Duration::from_secs(2);
/// How long taking over may take.
const TAKE_OVER: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug)]
pub struct World {
    topology: Topology,
    manifests: Folder,
}

/// `kproxy run` on the node. Its rules stay when it ends.
#[derive(Debug)]
pub struct Kproxy {
    program: Program,
    events: Events,
}

impl World {
    /// Builds the node and its hosts.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new() -> Result<Self> {
        let addresses = |written: [&str; 2]| written.map(str::parse);
        let [four, six] = addresses(NODE);
        let mut builder = Topology::builder().node([four?, six?]);
        for (name, written) in HOSTS {
            let [four, six] = addresses(written);
            builder = builder.host(name, [four?, six?]);
        }
        let topology = builder.build()?;
        for host in ["near", "far"] {
            for transport in [Transport::Tcp, Transport::Udp, Transport::Sctp] {
                topology.serve(host, transport, 8080)?;
            }
        }
        forget_ended(&topology, &HOSTS.map(|(name, _)| name))?;
        // Flows outlast whatever is done meanwhile.
        for setting in ["udp_timeout", "udp_timeout_stream"] {
            let path = format!("/proc/sys/net/netfilter/nf_conntrack_{setting}");
            topology.node().run(move || fs::write(path, "600"))??;
        }
        let manifests = Folder::new()?;
        manifests.write("cluster.yaml", CLUSTER)?;
        Ok(Self {
            topology,
            manifests,
        })
    }

    /// The node, beside a control plane that holds the cluster; a test is skipped without its programs.
    ///
    /// # Errors
    /// When either cannot be made.
    pub fn with_cluster() -> Result<Option<(ControlPlane, Self)>> {
        if !ControlPlane::available_or_skip() {
            return Ok(None);
        }
        let (control, world) = (ControlPlane::start()?, Self::new()?);
        Cluster::new(&control).apply(&Self::objects())?;
        Ok(Some((control, world)))
    }

    /// The cluster as a step for the API server.
    #[must_use]
    pub fn objects() -> TrialStep {
        TrialStep {
            write: BTreeMap::from([("cluster.yaml".to_owned(), CLUSTER.to_owned())]),
            ..TrialStep::default()
        }
    }

    /// kube-proxy's settings.
    #[must_use]
    pub fn settings() -> Settings {
        Settings {
            node_name: "node-a".to_owned(),
            configuration: vec![
                ("clusterCIDR", json!(PODS)),
                (
                    "nftables",
                    json!({"minSyncPeriod": "0s", "syncPeriod": "30s"}),
                ),
            ],
            ..Settings::default()
        }
    }

    /// The node.
    #[must_use]
    pub const fn node(&self) -> &Namespace {
        self.topology.node()
    }

    /// The laboratory.
    #[must_use]
    pub const fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What becomes of probes from every client to every frontend.
    ///
    /// # Errors
    /// When a probe cannot be sent.
    pub fn observe(&self) -> Result<BTreeMap<String, Outcomes>> {
        let mut observed = BTreeMap::new();
        for (transport, addresses, port) in FRONTENDS {
            for address in addresses {
                for from in CLIENTS {
                    let written = format!("{transport} {address} {port}");
                    let check = Check {
                        id: format!("{from} to {written}"),
                        from: from.to_owned(),
                        to: written.parse()?,
                        tries: TRIES,
                        sticks_to: Vec::new(),
                    };
                    let outcomes = Outcomes::of(&self.topology, &check, PATIENCE)?;
                    observed.insert(check.id, outcomes);
                }
            }
        }
        Ok(observed)
    }

    /// Which endpoint each client sticks to, asked so many times; two at once are an error.
    ///
    /// # Errors
    /// When a client does not stick, or reaches nobody.
    pub fn stuck(&self, times: usize) -> Result<BTreeMap<String, Outcomes>> {
        let mut stuck = BTreeMap::new();
        for address in STICKY {
            for from in CLIENTS {
                let written = format!("tcp {address} 80");
                let check = Check {
                    id: format!("{from} to {written}"),
                    from: from.to_owned(),
                    to: written.parse()?,
                    tries: times,
                    sticks_to: Vec::new(),
                };
                let outcomes = Outcomes::of(&self.topology, &check, PATIENCE)?;
                ensure!(
                    outcomes.len() == 1,
                    "{} does not stick: {outcomes}",
                    check.id
                );
                stuck.insert(check.id, outcomes);
            }
        }
        Ok(stuck)
    }

    /// Opens connections through each kind of frontend.
    ///
    /// # Errors
    /// When one cannot be made.
    pub fn connect(&self) -> Result<Vec<(String, Kept)>> {
        let mut connections = Vec::new();
        for (from, frontend) in KEPT {
            let (transport, addresses, port) = FRONTENDS[frontend];
            let transport = transport.parse().map_err(anyhow::Error::msg)?;
            for address in addresses {
                let to = SocketAddr::new(address.parse()?, port);
                let probe = Probe { transport, to };
                let kept = Kept::open(&self.topology, from, probe, PATIENCE);
                let name = format!("{from} to {transport} {to}");
                let kept = kept.with_context(|| name.clone())?;
                connections.push((name, kept));
            }
        }
        Ok(connections)
    }

    /// Opens UDP flows to a Service with two endpoints.
    ///
    /// # Errors
    /// When one does not reach an endpoint.
    pub fn flows(&self) -> Result<Flows> {
        let mut flows = Vec::new();
        let (_, addresses, port) = FRONTENDS[1];
        for address in addresses {
            let to = SocketAddr::new(address.parse()?, port);
            for from in CLIENTS.into_iter().cycle().take(FLOWS) {
                let flow = self.topology.flow(from, to)?;
                let by = answered(&flow).with_context(|| format!("{from} to {to}"))?;
                flows.push((format!("{from} to {to}"), flow, by));
            }
        }
        Ok(Flows(flows))
    }

    /// Starts `kproxy run`, the program `kproxy`, on the node.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_kproxy(&self, kproxy: &Path) -> Result<Kproxy> {
        self.start_kproxy_with(kproxy, &[])
    }

    /// As [`start_kproxy`](Self::start_kproxy), with more arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_kproxy_with(&self, kproxy: &Path, more: &[&str]) -> Result<Kproxy> {
        let mut source = std::ffi::OsString::from("dir:");
        source.push(self.manifests.path());
        let state = self.manifests.path().with_extension("state");
        let log = self.manifests.path().with_extension("log");
        let mut command = Command::new(kproxy);
        command
            .args(["run", "-v", "--node-name", "node-a", "--cluster-cidr", PODS])
            // A system call that the filter does not know of ends it, and the test.
            .arg("--seccomp=kill")
            .arg("--source")
            .arg(source)
            .arg("--state-dir")
            .arg(state)
            .args(more);
        Ok(Kproxy {
            events: self.node().run(Events::open)??,
            program: Program::start(self.node(), command, &log)?,
        })
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Beside the folder; what is left is in the system's folder for temporary files.
        let _ = fs::remove_dir_all(self.manifests.path().with_extension("state"));
        let _ = fs::remove_file(self.manifests.path().with_extension("log"));
    }
}

/// UDP flows that go on, and the endpoint that each reached.
#[derive(Debug)]
pub struct Flows(Vec<(String, Flow, Box<str>)>);

impl Flows {
    /// Each still reaches the endpoint that it reached.
    ///
    /// # Errors
    /// Which do not.
    pub fn stay(&self) -> Result<()> {
        for (name, flow, before) in &self.0 {
            let by = answered(flow).with_context(|| format!("flow of {name}"))?;
            ensure!(by == *before, "flow of {name}: {before} before, now {by}");
        }
        Ok(())
    }
}

fn answered(flow: &Flow) -> Result<Box<str>> {
    match flow.ask(PATIENCE)? {
        Verdict::Answered(answer) => Ok(answer.by),
        verdict => bail!("{verdict:?}"),
    }
}

/// Connections still echo.
///
/// # Errors
/// Which do not.
pub fn echo(connections: &mut [(String, Kept)]) -> Result<()> {
    for (name, connection) in connections {
        connection
            .echo(b"still there?", PATIENCE)
            .with_context(|| format!("connection of {name}"))?;
    }
    Ok(())
}

impl Kproxy {
    /// Waits until the table is ours alone.
    ///
    /// # Errors
    /// When it does not become so, or the program ends.
    pub fn take_over(&mut self, world: &World) -> Result<Layout> {
        let deadline = Instant::now() + TAKE_OVER;
        loop {
            let layout = Layout::read(world.node())?;
            let foreign = layout.foreign();
            if foreign.is_empty() {
                return Ok(layout);
            }
            if let Some(status) = self.program.ended()? {
                bail!("kproxy ended, {status}:\n{}", self.program.tail()?);
            }
            match self.events.next_group(Some(deadline)) {
                // However much happens meanwhile.
                Ok(_) | Err(EventError::Overrun) if Instant::now() < deadline => {}
                other => bail!(
                    "{:?}; still there: {}\n{}",
                    other.err(),
                    foreign.join(", "),
                    self.program.tail()?
                ),
            }
        }
    }

    /// Its log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn log(&self) -> Result<String> {
        self.program.log()
    }

    /// Whether it is at work.
    ///
    /// # Errors
    /// When it ended.
    pub fn check(&mut self) -> Result<()> {
        match self.program.ended()? {
            Some(status) => bail!("kproxy ended, {status}:\n{}", self.program.tail()?),
            None => Ok(()),
        }
    }

    /// Ends it; its rules stay.
    ///
    /// # Errors
    /// When it ends badly.
    pub fn stop(mut self) -> Result<()> {
        let status = self.program.stop()?;
        ensure!(
            status.success(),
            "kproxy: {status}\n{}",
            self.program.tail()?
        );
        Ok(())
    }
}
