//! A proxy as a scenario uses it: a folder of manifests in, rules out.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kproxy::{lab::Namespace, manifest::Source};
use svc_planner::{Config, config::LocalDetector, plan::Family as PlanFamily};

use crate::{
    programmer::Programmer,
    scenario::{Family, NodeSpec},
};

/// See the module.
#[derive(Debug)]
pub struct Proxy {
    folder: PathBuf,
    source: Source,
    programmer: Programmer,
}

impl Proxy {
    /// Starts one for a family in the node's namespace.
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
        let config = Config {
            node_name: node.name.as_str().into(),
            masquerade_all: node.masquerade_all,
            local,
            ..Config::default()
        };
        let family = match family {
            Family::Ipv4 => PlanFamily::Ipv4,
            Family::Ipv6 => PlanFamily::Ipv6,
        };
        Ok(Self {
            folder: folder.to_owned(),
            source: Source::new(&node.name),
            programmer: Programmer::start(namespace, family, config)?,
        })
    }

    /// Reads what changed in the folder and commits it; returns the complaints about it.
    ///
    /// # Errors
    /// When a transaction is not committed.
    pub fn sync(&mut self) -> Result<Vec<String>> {
        let mut changes = Vec::new();
        self.source
            .refresh(&self.folder, None, |change| changes.push(change));
        for change in changes {
            self.programmer.apply(change)?;
        }
        self.programmer.settle()?;
        Ok(self
            .source
            .take_problems()
            .iter()
            .map(ToString::to_string)
            .collect())
    }
}
