//! A proxy as a scenario uses it: a folder of manifests in, rules out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kproxy::{engine::Engine, lab::Namespace, manifest::Source};
use svc_planner::{Config, config::LocalDetector, plan};

use crate::{
    engine,
    scenario::{Family, NodeSpec},
};

/// See the module.
#[derive(Debug)]
pub struct Proxy {
    folder: PathBuf,
    source: Source,
    engine: Engine,
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
        let local = match &node.cluster_cidr {
            Some(cidr) => LocalDetector::Cidr(cidr.parse().context("clusterCidr")?),
            None => LocalDetector::None,
        };
        let family = match family {
            Family::Ipv4 => plan::Family::Ipv4,
            Family::Ipv6 => plan::Family::Ipv6,
        };
        let engine = engine::start(namespace, |of| Config {
            node_name: node.name.as_str().into(),
            masquerade_all: node.masquerade_all,
            local: if of == family {
                local.clone()
            } else {
                LocalDetector::None
            },
            ..Config::default()
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            source: Source::new(&node.name),
            engine,
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
        } = self;
        source.refresh(folder, None, |change| engine.apply(change));
        engine::settle(engine)?;
        Ok(source
            .take_problems()
            .iter()
            .map(ToString::to_string)
            .collect())
    }
}
