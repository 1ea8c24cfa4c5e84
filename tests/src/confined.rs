//! The program `kproxy` as a scenario uses it: a folder of manifests in, rules out, by a process that is
//! killed when it makes a system call that it should not need.

use core::{net::IpAddr, time::Duration};
use std::{path::Path, process::Command, time::Instant};

use anyhow::{Context as _, Result, bail};
use kproxy::{
    engine::TABLE,
    lower::{key_bytes, nf_family},
};
use netns_lab::Namespace;
use nft_batch::{Connection, Errno, EventError, Events};
use nl_codec::nft::{Elem, Value};
use serde_json::json;
use svc_planner::{
    config::NoLocalEndpoint,
    object::Protocol,
    plan::{Family, Key, KeyType},
};

use crate::{folder::Folder, program::Program, scenario::NodeSpec};

/// How long it may take to programme a change.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where the marker is, whose only port shows how far the program has got; no scenario knows these.
const MARKER: [(Family, &str, &str); 2] = [
    (Family::Ipv4, "172.31.255.254", "192.0.2.77"),
    (Family::Ipv6, "fd00:31::ffff", "2001:db8:ffff::77"),
];
/// Read last, as it is written last.
const MARKER_FILE: &str = "marker.json";

/// See the module. Ended when dropped.
#[derive(Debug)]
pub struct Confined {
    program: Program,
    connection: Connection,
    events: Events,
    generation: u16,
    _state: Folder,
}

impl Confined {
    /// Starts it in the node's namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        kproxy: &Path,
        namespace: &Namespace,
        folder: &Path,
        node: &NodeSpec,
    ) -> Result<Self> {
        let state = Folder::new()?;
        let mut source = std::ffi::OsString::from("dir:");
        source.push(folder);
        let mut command = Command::new(kproxy);
        command
            .args(["run", "-v", "--seccomp=kill", "--min-sync-period=0s"])
            .args(["--no-node", "--node-name", &node.name, "--source"])
            .arg(source)
            .arg("--state-dir")
            .arg(state.path().join("state"))
            .args(arguments(node));
        let program = Program::start(namespace, command, &state.path().join("log"))?;
        Ok(Self {
            program,
            connection: namespace.run(Connection::open)??,
            events: namespace.run(Events::open)??,
            generation: 0,
            _state: state,
        })
    }

    /// Waits until everything in the folder is programmed.
    ///
    /// # Errors
    /// When it ends or does not get there.
    pub fn sync(&mut self, folder: &Folder) -> Result<()> {
        // Syncs do not overlap: once the second has committed, the first is over entirely.
        for _ in 0..2 {
            self.generation += 1;
            folder.write(MARKER_FILE, &marker(self.generation))?;
            for (family, address, _) in MARKER {
                let key = Key::Frontend {
                    address: address.parse()?,
                    protocol: Protocol::Tcp,
                    port: self.generation,
                };
                self.wait_for(family, &key)?;
            }
        }
        Ok(())
    }

    fn wait_for(&mut self, family: Family, key: &Key) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_frontend(family, key)? {
            if let Some(status) = self.program.ended()? {
                bail!("kproxy ended, {status}:\n{}", self.program.tail()?);
            }
            // Now and then, to see whether it has ended.
            let look = Instant::now() + Duration::from_secs(1);
            match self.events.next_group(Some(look.min(deadline))) {
                // However much happens meanwhile.
                Ok(_) | Err(EventError::Overrun | EventError::TimedOut)
                    if Instant::now() < deadline => {}
                Ok(_) => bail!("no marker in {PATIENCE:?}\n{}", self.program.tail()?),
                Err(error) => bail!("no marker: {error}\n{}", self.program.tail()?),
            }
        }
        Ok(())
    }

    fn has_frontend(&mut self, family: Family, key: &Key) -> Result<bool> {
        let bytes = key_bytes(family, KeyType::Frontend, key).context("a key of the family")?;
        let key = Elem::new(Value::new(bytes.as_slice()));
        let mut sets = Vec::new();
        let dumped = self.connection.dump_sets(nf_family(family), TABLE, |set| {
            let name = set.name.and_then(|name| name.to_str());
            // Generations of a set have numbers behind its name.
            let services = name.filter(|name| name.split('-').next() == Some("services"));
            sets.extend(services.map(str::to_owned));
        });
        if !is_there(dumped)? {
            return Ok(false);
        }
        for set in sets {
            let found = self
                .connection
                .element(nf_family(family), TABLE, &set, &key, |_| ());
            match found {
                Ok(Some(_)) => return Ok(true),
                found => is_there(found)?,
            };
        }
        Ok(false)
    }
}

fn is_there<T>(read: Result<T, nft_batch::QueryError>) -> Result<bool> {
    match read {
        Ok(_) => Ok(true),
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What a node of a scenario asks for, in the program's words.
fn arguments(node: &NodeSpec) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut say = |name: &str, value: &str| arguments.push(format!("--{name}={value}"));
    if let Some(mode) = node.detect_local_mode {
        say("detect-local-mode", mode.name());
        let interface = node.detect_local_interface.as_deref().unwrap_or_default();
        say("pod-bridge-interface", interface);
        say("pod-interface-name-prefix", interface);
    } else if let Some(cidr) = &node.cluster_cidr {
        say("cluster-cidr", cidr);
    }
    if !node.node_port_addresses.is_empty() {
        say("nodeport-addresses", &node.node_port_addresses.join(","));
    }
    if node.localhost_node_ports {
        say("feature-gates", "KubeProxyNFTablesLocalhostNodePorts=true");
    }
    if node.no_local_endpoint == NoLocalEndpoint::Reject {
        say("no-local-endpoint", "reject");
    }
    if node.masquerade_all {
        arguments.push("--masquerade-all".to_owned());
    }
    arguments
}

/// A Service with one port and its endpoints.
fn marker(port: u16) -> String {
    let addresses = MARKER.map(|(_, address, _)| address);
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "marker", "namespace": "marker"},
        "spec": {"clusterIP": addresses[0], "clusterIPs": addresses,
                 "ports": [{"name": "at", "port": port}]}
    });
    let slices = MARKER.map(|(_, _, endpoint)| {
        let is_four = endpoint.parse::<IpAddr>().is_ok_and(|it| it.is_ipv4());
        let family = if is_four { "IPv4" } else { "IPv6" };
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": format!("marker-{}", family.to_lowercase()),
                         "namespace": "marker",
                         "labels": {"kubernetes.io/service-name": "marker"}},
            "addressType": family,
            "ports": [{"name": "at", "port": 9}],
            "endpoints": [{"addresses": [endpoint]}]
        })
    });
    let [four, six] = slices;
    json!({"apiVersion": "v1", "kind": "List", "items": [service, four, six]}).to_string()
}
