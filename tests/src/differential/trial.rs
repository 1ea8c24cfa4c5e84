//! What is run through both proxies: a scenario file, or a history made up.

use core::net::IpAddr;
use std::{collections::BTreeMap, path::Path};

use anyhow::Result;
use netns_lab::Transport;

use crate::scenario::{Expected, Family, NodeSpec, Opened, Scenario, Sent, Target};

/// See the module.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Name of the scenario, or `random`.
    pub name: String,
    /// Family of its addresses.
    pub family: Family,
    /// The node and its proxy.
    pub node: NodeSpec,
    /// Hosts on links of their own.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// What hosts answer on.
    pub serve: Vec<(String, Transport, u16)>,
    /// What happens, in order.
    pub steps: Vec<TrialStep>,
}

/// Changed manifests, and the probes that follow.
#[derive(Debug, Clone, Default)]
pub struct TrialStep {
    /// What it does.
    pub about: String,
    /// Files written.
    pub write: BTreeMap<String, String>,
    /// Files removed.
    pub remove: Vec<String>,
    /// Connections opened and kept.
    pub open: BTreeMap<String, Opened>,
    /// Probes.
    pub probes: Vec<Check>,
    /// Connections that are tried again.
    pub alive: Vec<String>,
    /// UDP flows opened and kept.
    pub flows: BTreeMap<String, Opened>,
    /// Those that go on.
    pub sent: Vec<Sent>,
}

/// A probe, sent several times.
#[derive(Debug, Clone)]
pub struct Check {
    /// Its name.
    pub id: String,
    /// Host, or `node`.
    pub from: String,
    /// Where to.
    pub to: Target,
    /// How often.
    pub tries: usize,
    /// The client sticks to one endpoint: which of these it is, is chance.
    pub sticks_to: Vec<(String, u16)>,
}

impl Trial {
    /// Reads a scenario file.
    ///
    /// # Errors
    /// When it cannot be read or is malformed.
    pub fn read(path: &Path, family: Family) -> Result<Self> {
        let scenario = Scenario::read(path, family)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut serve = Vec::new();
        for (host, ports) in &scenario.serve {
            for served in ports {
                serve.push(crate::scenario::served(host, served)?);
            }
        }
        let steps = scenario.steps.into_iter().map(|step| TrialStep {
            about: step.about,
            write: step.write,
            remove: step.remove,
            open: step.open,
            probes: step
                .probes
                .into_iter()
                .map(|case| Check {
                    tries: case.expect.tries(),
                    sticks_to: match case.expect {
                        Expected::Endpoints(endpoints) if case.same || case.still => endpoints,
                        _ => Vec::new(),
                    },
                    id: case.id,
                    from: case.from,
                    to: case.to,
                })
                .collect(),
            alive: step.alive,
            flows: step.flows,
            sent: step.sent,
        });
        Ok(Self {
            name: name.into_owned(),
            family,
            node: scenario.node,
            hosts: scenario.hosts,
            serve,
            steps: steps.collect(),
        })
    }
}
