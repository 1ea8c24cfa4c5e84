//! Our proxy in a trial: where it has its objects from, and what becomes of its process meanwhile.

use std::path::PathBuf;

use anyhow::Result;
use netns_lab::Namespace;
use serde_json::{Value as Json, json};

use super::trial::Trial;
use crate::{
    control_plane::{ControlPlane, KproxyProgram, KubeProxy, Settings},
    folder::Folder,
    proxy::Proxy,
    scenario::DetectLocalMode,
};

/// The program, which watches the API server.
#[derive(Debug, Clone)]
pub struct Kproxy {
    /// Where it is.
    pub program: PathBuf,
    /// What becomes of its process.
    pub replaced: Replaced,
}

/// What becomes of its process while objects change, from the second step on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaced {
    /// Nothing.
    Never,
    /// It is ended or killed, in turn, and started again after the change.
    ByItself,
    /// kube-proxy and kproxy take over from each other, kube-proxy first.
    ByKubeProxy,
}

/// Our side.
pub(super) enum Ours {
    /// It reads a folder, into which the API server's objects are copied.
    Folder(Box<Proxy>),
    /// It watches the API server, as kube-proxy.
    Api(Box<Program>),
}

/// One of two processes.
pub(super) struct Program {
    kproxy: Kproxy,
    running: Running,
    /// How often it has ended.
    ends: usize,
}

enum Running {
    Kproxy(KproxyProgram),
    KubeProxy(KubeProxy),
    Nobody,
}

impl Ours {
    pub(super) fn start(
        control: &ControlPlane,
        kproxy: Option<&Kproxy>,
        node: &Namespace,
        folder: &Folder,
        trial: &Trial,
    ) -> Result<Self> {
        let Some(kproxy) = kproxy else {
            let started = Proxy::start(node, folder.path(), &trial.node, trial.family)?;
            return Ok(Self::Folder(Box::new(started)));
        };
        let running = match kproxy.replaced {
            Replaced::ByKubeProxy => {
                Running::KubeProxy(KubeProxy::start_settled(control, node, &settings(trial))?)
            }
            _ => Running::Kproxy(start_kproxy(control, kproxy, node, trial)?),
        };
        Ok(Self::Api(Box::new(Program {
            kproxy: kproxy.clone(),
            running,
            ends: 0,
        })))
    }

    /// Waits until it has programmed everything.
    pub(super) fn settle(&mut self, control: &ControlPlane, node: &Namespace) -> Result<()> {
        match self {
            Self::Folder(proxy) => proxy.sync().map(drop),
            Self::Api(program) => match &mut program.running {
                Running::Kproxy(kproxy) => kproxy.settle(control),
                Running::KubeProxy(kube_proxy) => kube_proxy.settle(control, node),
                Running::Nobody => Ok(()),
            },
        }
    }

    /// Before a change: ends the process that is to be replaced.
    pub(super) fn end(&mut self) -> Result<()> {
        let Self::Api(program) = self else {
            return Ok(());
        };
        program.ends += 1;
        let crash = program.ends.is_multiple_of(2);
        match (program.kproxy.replaced, &mut program.running) {
            (Replaced::ByItself, Running::Kproxy(kproxy)) => kproxy.end(crash)?,
            (Replaced::ByKubeProxy, running) => *running = Running::Nobody,
            _ => {}
        }
        Ok(())
    }

    /// After it: starts the next one.
    pub(super) fn start_again(
        &mut self,
        control: &ControlPlane,
        node: &Namespace,
        trial: &Trial,
    ) -> Result<()> {
        let Self::Api(program) = self else {
            return Ok(());
        };
        match (program.kproxy.replaced, &mut program.running) {
            (Replaced::ByItself, Running::Kproxy(kproxy)) => kproxy.start_again(node)?,
            (Replaced::ByKubeProxy, running) if program.ends.is_multiple_of(2) => {
                let started = KubeProxy::start_settled(control, node, &settings(trial))?;
                *running = Running::KubeProxy(started);
            }
            (Replaced::ByKubeProxy, running) => {
                let started = start_kproxy(control, &program.kproxy, node, trial)?;
                *running = Running::Kproxy(started);
            }
            _ => {}
        }
        Ok(())
    }
}

fn start_kproxy(
    control: &ControlPlane,
    kproxy: &Kproxy,
    node: &Namespace,
    trial: &Trial,
) -> Result<KproxyProgram> {
    KproxyProgram::start(control, node, &kproxy.program, &arguments(trial))
}

/// The proxy's configuration as kube-proxy's.
pub(super) fn settings(trial: &Trial) -> Settings {
    let node = &trial.node;
    let mut configuration: Vec<(&'static str, Json)> = vec![(
        "nftables",
        json!({"masqueradeAll": node.masquerade_all, "minSyncPeriod": "0s", "syncPeriod": "30s"}),
    )];
    if let Some(cidr) = &node.cluster_cidr {
        configuration.push(("clusterCIDR", json!(cidr)));
    }
    if let Some(mode) = node.detect_local_mode {
        configuration.push(("detectLocalMode", json!(mode.name())));
        let interface = json!(node.detect_local_interface.as_deref().unwrap_or_default());
        let interface = match mode {
            DetectLocalMode::InterfaceNamePrefix => json!({"interfaceNamePrefix": interface}),
            _ => json!({"bridgeInterface": interface}),
        };
        configuration.push(("detectLocal", interface));
    }
    if !node.node_port_addresses.is_empty() {
        configuration.push(("nodePortAddresses", json!(node.node_port_addresses)));
    }
    if node.localhost_node_ports {
        let gates = json!({"KubeProxyNFTablesLocalhostNodePorts": true});
        configuration.push(("featureGates", gates));
    }
    Settings {
        node_name: node.name.clone(),
        configuration,
        ..Settings::default()
    }
}

/// The same as arguments of ours.
fn arguments(trial: &Trial) -> Vec<String> {
    let node = &trial.node;
    let mut arguments = vec![
        format!("--node-name={}", node.name),
        "--min-sync-period=0s".to_owned(),
    ];
    if node.masquerade_all {
        arguments.push("--masquerade-all".to_owned());
    }
    if let Some(cidr) = &node.cluster_cidr {
        arguments.push(format!("--cluster-cidr={cidr}"));
    }
    if let Some(mode) = node.detect_local_mode {
        arguments.push(format!("--detect-local-mode={}", mode.name()));
    }
    if let Some(interface) = &node.detect_local_interface {
        let option = match node.detect_local_mode {
            Some(DetectLocalMode::InterfaceNamePrefix) => "--pod-interface-name-prefix",
            _ => "--pod-bridge-interface",
        };
        arguments.push(format!("{option}={interface}"));
    }
    if !node.node_port_addresses.is_empty() {
        let addresses = node.node_port_addresses.join(",");
        arguments.push(format!("--nodeport-addresses={addresses}"));
    }
    if node.localhost_node_ports {
        let gate = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true";
        arguments.push(gate.to_owned());
    }
    arguments
}
