//! `kproxy demo`: a sample cluster in private network namespaces, programmed by the real engine and
//! probed with real traffic.
//!
//! Nothing is left behind: the namespaces belong to this process and end with it, so there is
//! nothing to clean up after Ctrl-C either.

mod cluster;
mod report;
mod traffic;

use std::thread;

use ipnet::IpNet;
use netns_lab::{LabError, Topology, enter_user_namespace};
use nft_batch::{Connection, OpenError};
use svc_planner::{Config, config::LocalDetector, plan::Family};
use thiserror::Error;

use self::cluster::{Cluster, NODE};
use crate::engine::{Engine, EngineError, Wait};
use crate::family::present_families;

pub use report::{Outcome, Programming, Report, Row, Share};

/// Pods of the sample cluster, the client among them.
const POD_NETWORKS: [&str; 2] = ["10.244.0.0/16", "fd00:244::/64"];

/// Why the demo could not be shown.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The network could not be built.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The kernel cannot be reached.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The Services could not be programmed.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The embedded manifests are wrong.
    #[error("embedded manifests: {0}")]
    Manifest(Box<str>),
}

/// Builds the sample cluster, programs its Services, sends `flows` new flows to each of their
/// addresses and tells where they went. `progress` is told what is being done.
///
/// Must be called while the process has one thread, unless it is root: it may have to enter a user
/// namespace.
///
/// # Errors
/// See [`DemoError`]. Traffic that goes astray is not an error but in the report.
pub fn run(flows: u32, mut progress: impl FnMut(&str)) -> Result<Report, DemoError> {
    enter_user_namespace()?;
    let cluster = Cluster::read()?;
    progress(&format!(
        "making a node, a client and {} pods in private network namespaces",
        cluster.pods()
    ));
    let topology = cluster.build()?;
    progress(&format!("programming {} Services", cluster.services()));
    let programming = program(&topology, &cluster)?;
    progress(&format!("sending {flows} new flows to each address"));
    let frontends = cluster
        .frontends
        .iter()
        .map(|frontend| traffic::send(&topology, frontend, flows))
        .collect::<Result<_, _>>()?;
    Ok(Report {
        services: cluster.services(),
        pods: cluster.pods(),
        programming,
        frontends,
    })
}

/// Programs the cluster's Services in the node's namespace.
fn program(topology: &Topology, cluster: &Cluster) -> Result<Programming, DemoError> {
    let connection = topology.node().run(Connection::open)??;
    let mut local = Vec::new();
    for network in POD_NETWORKS {
        let network: Result<IpNet, _> = network.parse();
        local.push(network.map_err(|error| DemoError::Manifest(error.to_string().into()))?);
    }
    let mut engine = Engine::for_families(connection, &present_families(), |family| Config {
        node_name: NODE.into(),
        local: local
            .iter()
            .find(|network| matches!(network, IpNet::V4(_)) == (family == Family::Ipv4))
            .map_or(LocalDetector::None, |network| LocalDetector::Cidr(*network)),
        ..Config::default()
    });
    for change in &cluster.changes {
        engine.apply(change.clone());
    }
    let mut programming = Programming::default();
    loop {
        let wait = engine.sync(|applied, _| programming.add(applied))?;
        match wait {
            Wait::Until(time) if !engine.is_complete() => {
                thread::sleep(time.saturating_sub(engine.clock().now()));
            }
            // What is left to do is to tidy up.
            Wait::Until(_) | Wait::Change => return Ok(programming),
        }
    }
}
