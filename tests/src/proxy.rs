//! A proxy as a scenario uses it: a folder of manifests in, rules out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kproxy::{
    conntrack::Reconciler, engine::Engine, explain::Planned, manifest::Source, netns::Netns,
};
use netns_lab::Namespace;
use svc_planner::{
    Config,
    config::{LocalDetector, LocalhostNodePorts, NodePortAddresses},
    object::Change,
    plan,
};

use crate::{
    engine,
    scenario::{DetectLocalMode, Family, NodeSpec},
};

/// See the module.
#[derive(Debug)]
pub struct Proxy {
    folder: PathBuf,
    source: Source,
    engine: Engine,
    /// All so far, in order.
    changes: Vec<Change>,
    configs: [Config; 2],
    family: plan::Family,
    planned: Planned,
    _reconciler: Reconciler,
}

impl Proxy {
    /// Starts one in the node's namespace. It serves both families; `family` is that of the node's
    /// `clusterCidr`.
    ///
    /// # Errors
    /// When the kernel refuses, or the configuration is wrong.
    pub fn start(
        namespace: &Namespace,
        folder: &Path,
        node: &NodeSpec,
        family: Family,
    ) -> Result<Self> {
        let interface = node.detect_local_interface.as_deref().unwrap_or_default();
        let local = match (node.detect_local_mode, &node.cluster_cidr) {
            (Some(DetectLocalMode::NodeCidr), _) => LocalDetector::NodeCidr,
            (Some(DetectLocalMode::BridgeInterface), _) => LocalDetector::Iifname(interface.into()),
            (Some(DetectLocalMode::InterfaceNamePrefix), _) => {
                LocalDetector::IifnamePrefix(interface.into())
            }
            (None, Some(cidr)) => LocalDetector::Cidr(cidr.parse().context("clusterCidr")?),
            (None, None) => LocalDetector::None,
        };
        let addresses = node.node_port_addresses.iter().map(|text| text.parse());
        let addresses: Vec<_> = addresses
            .collect::<Result<_, _>>()
            .context("nodePortAddresses")?;
        let node_port_addresses = match addresses.as_slice() {
            [] => NodePortAddresses::PRIMARY,
            _ => NodePortAddresses {
                prefixes: addresses,
                ..NodePortAddresses::NONE
            },
        };
        let family = match family {
            Family::Ipv4 => plan::Family::Ipv4,
            Family::Ipv6 => plan::Family::Ipv6,
        };
        let config = |of| Config {
            node_name: node.name.as_str().into(),
            masquerade_all: node.masquerade_all,
            node_port_addresses: node_port_addresses.clone(),
            localhost_node_ports: if node.localhost_node_ports {
                LocalhostNodePorts::Rejected
            } else {
                LocalhostNodePorts::Off
            },
            no_local_endpoint: node.no_local_endpoint,
            local: if of == family {
                local.clone()
            } else {
                LocalDetector::None
            },
            ..Config::default()
        };
        let configs = [config(plan::Family::Ipv4), config(plan::Family::Ipv6)];
        let mut engine = engine::start(namespace, config)?;
        let reconciler = namespace.run(|| Reconciler::start(&Netns::Current))??;
        engine.tell_flows(reconciler.publisher());
        let host = Change::HostAddresses(node.addresses.clone());
        engine.apply(host.clone());
        Ok(Self {
            folder: folder.to_owned(),
            source: Source::new(&node.name),
            engine,
            changes: vec![host],
            planned: planned(&configs),
            configs,
            family,
            _reconciler: reconciler,
        })
    }

    /// Reads what changed in the folder and commits it; returns the complaints about it.
    ///
    /// # Errors
    /// When a transaction is not committed.
    pub fn sync(&mut self) -> Result<Vec<String>> {
        let Self {
            folder,
            source,
            engine,
            changes,
            ..
        } = self;
        source.refresh(folder, None, |change| {
            changes.push(change.clone());
            engine.apply(change);
        });
        engine::settle(engine)?;
        self.planned = planned(&self.configs);
        for change in &self.changes {
            self.planned.apply(change.clone());
        }
        self.planned.settle(self.family)?;
        let source = &mut self.source;
        Ok(source
            .take_problems()
            .iter()
            .map(ToString::to_string)
            .collect())
    }

    /// What the manifests lead to in its family, as `explain` plans it.
    #[must_use]
    pub const fn planned(&self) -> &Planned {
        &self.planned
    }
}

fn planned([four, six]: &[Config; 2]) -> Planned {
    Planned::new(|family| match family {
        plan::Family::Ipv4 => four.clone(),
        plan::Family::Ipv6 => six.clone(),
    })
}
