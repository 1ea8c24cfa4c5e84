//! Traffic while the configuration file changes and the proxy begins anew within its process: no
//! request is lost, connections and flows go on, and what was changed is in force.

use core::{net::SocketAddr, time::Duration};
use std::{process::Command, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    folder::Folder,
    program::Program,
    requests::{PODS, topology, under_requests},
};
use netns_lab::{Flow, Probe, Topology, Transport, Verdict};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const PORT: u16 = 80;
const NODE_PORT: u16 = 30_080;
/// Passes only when a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// Requests answered between two events.
const BETWEEN: usize = 24;
/// The same cluster in each family.
const NETS: [Net; 2] = [
    Net {
        family: "IPv4",
        node: "192.168.0.2",
        nodes: "192.168.0.0/24",
        elsewhere: "198.51.100.0/24",
        pods: "10.0.0.0/8",
        vip: "172.30.0.41",
        endpoints: ["10.0.1.1", "10.0.1.2", "10.0.1.3"],
    },
    Net {
        family: "IPv6",
        node: "2001:db8::1",
        nodes: "2001:db8::/64",
        elsewhere: "2001:db8:e::/64",
        pods: "fd00:10::/64",
        vip: "fd00:10:96::41",
        endpoints: ["fd00:10::1:1", "fd00:10::1:2", "fd00:10::1:3"],
    },
];

struct Net {
    family: &'static str,
    node: &'static str,
    /// A prefix that the node is in, and one that it is not in.
    nodes: &'static str,
    elsewhere: &'static str,
    pods: &'static str,
    vip: &'static str,
    endpoints: [&'static str; 3],
}

impl Net {
    fn objects(&self) -> String {
        let Self {
            family, node, vip, ..
        } = self;
        let endpoints = self
            .endpoints
            .map(|it| format!("{{addresses: [\"{it}\"]}}"));
        let endpoints = endpoints.join(", ");
        format!(
            "apiVersion: v1
kind: Node
metadata: {{name: node-a}}
status:
  addresses: [{{type: InternalIP, address: \"{node}\"}}]
---
apiVersion: v1
kind: Service
metadata: {{name: web, namespace: default}}
spec:
  type: NodePort
  clusterIP: \"{vip}\"
  ports:
    - {{name: tcp, protocol: TCP, port: 80, nodePort: 30080}}
    - {{name: udp, protocol: UDP, port: 80, nodePort: 30080}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web
  namespace: default
  labels: {{kubernetes.io/service-name: web}}
addressType: {family}
ports: [{{name: tcp, protocol: TCP, port: 80}}, {{name: udp, protocol: UDP, port: 80}}]
endpoints: [{endpoints}]
"
        )
    }

    /// An address of the cluster with a port.
    fn at(address: &str, port: u16) -> Result<SocketAddr> {
        Ok(SocketAddr::new(address.parse()?, port))
    }

    fn configure(&self, folder: &Folder, more: &str) -> Result<()> {
        let text = format!(
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
             mode: nftables\nclusterCIDR: \"{}\"\nconntrack: {{maxPerCore: 0}}\n{more}\n",
            self.pods
        );
        folder.write("config.conf", &text)?;
        Ok(())
    }
}

/// A proxy that follows `config.conf`.
struct Running {
    net: &'static Net,
    topology: Topology,
    folder: Folder,
    program: Program,
    _manifests: Folder,
}

impl Running {
    fn start(net: &'static Net) -> Result<Self> {
        let (topology, manifests, folder) = (topology(PORT)?, Folder::new()?, Folder::new()?);
        manifests.write("objects.yaml", &net.objects())?;
        net.configure(&folder, &format!("nodePortAddresses: [\"{}\"]", net.nodes))?;
        let mut command = Command::new(KPROXY);
        let path =
            |option: &str, file: &str| format!("{option}={}", folder.path().join(file).display());
        command
            .args(["--hostname-override=node-a", "--seccomp=kill"])
            .arg(path("--config", "config.conf"))
            .arg(path("--state-dir", ""))
            .arg(format!("--source=dir:{}", manifests.path().display()));
        let log = folder.path().join("log");
        let program = Program::start(topology.node(), command, &log)?;
        Ok(Self {
            net,
            topology,
            folder,
            program,
            _manifests: manifests,
        })
    }

    /// Waits until the node port is served, or is not.
    fn until(&mut self, served: bool) -> Result<()> {
        let to = Net::at(self.net.node, NODE_PORT)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let probe = Probe {
                transport: Transport::Tcp,
                to,
            };
            let verdict = self
                .topology
                .probe("client", probe, Duration::from_secs(5))?;
            if is_answered(&verdict) == served {
                return Ok(());
            }
            if let Some(status) = self.program.ended()? {
                bail!("{status}: {}", self.program.tail()?);
            }
            let log = self.program.tail()?;
            ensure!(Instant::now() < deadline, "{verdict:?}\n{log}");
        }
    }

    /// How often it began anew.
    fn restarts(&self) -> Result<usize> {
        let log = self.program.log()?;
        Ok(log
            .matches("begins anew with the changed configuration")
            .count())
    }
}

fn is_answered(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Answered(answer) if PODS.contains(&&*answer.by))
}

/// Who answers a flow; it stays the same.
fn ask(flow: &Flow) -> Result<String> {
    match flow.ask(PATIENCE)? {
        Verdict::Answered(answer) => Ok(answer.by.to_string()),
        other => bail!("{other:?}"),
    }
}

#[test]
fn packets_do_not_notice_a_configuration_that_changes() -> Result<()> {
    NETS.iter()
        .try_for_each(|net| change_configuration(net).context(net.family))
}

fn change_configuration(net: &'static Net) -> Result<()> {
    let mut running = Running::start(net)?;
    running.until(true)?;
    let (to, node_port) = (Net::at(net.vip, PORT)?, Net::at(net.node, NODE_PORT)?);
    let mut connections = [
        running.topology.connect("client", to, PATIENCE)?,
        running.topology.connect("node", to, PATIENCE)?,
        // Of a node port that is not served any more meanwhile: new connections are not, this is.
        running.topology.connect("client", node_port, PATIENCE)?,
    ];
    let flows = [
        running.topology.flow("client", to)?,
        running.topology.flow("node", to)?,
    ];
    let by: Vec<_> = flows.iter().map(ask).collect::<Result<_>>()?;
    let steps = [
        (net.elsewhere, "", false),
        (net.nodes, "iptables: {masqueradeBit: 15}", true),
        (net.elsewhere, "nftables: {masqueradeAll: true}", false),
        ("primary", "nftables: {minSyncPeriod: 2s}", true),
        (net.elsewhere, "healthzBindAddress: 127.0.0.1:10256", false),
        (net.nodes, "", true),
    ];
    for (number, (addresses, more, served)) in (1..).zip(steps) {
        let more = format!("nodePortAddresses: [\"{addresses}\"]\n{more}");
        let folder = &running.folder;
        under_requests(&running.topology, to, |requests| {
            requests.more(BETWEEN);
            net.configure(folder, &more)?;
            requests.more(BETWEEN);
            // A file that cannot be read changes nothing.
            if number % 3 == 0 {
                folder.write("config.conf", "kind: [")?;
                requests.more(BETWEEN);
                net.configure(folder, &more)?;
            }
            requests.more(BETWEEN);
            Ok(())
        })?;
        running.until(served).with_context(|| more.clone())?;
        for connection in &mut connections {
            connection
                .echo(more.as_bytes(), PATIENCE)
                .with_context(|| more.clone())?;
        }
        let now: Vec<_> = flows.iter().map(ask).collect::<Result<_>>()?;
        ensure!(now == by, "{more}: {now:?}, but {by:?} before");
    }
    ensure!(running.restarts()? >= 6, "{}", running.program.log()?);
    let status = running.program.stop()?;
    ensure!(status.success(), "{status}: {}", running.program.tail()?);
    Ok(())
}
