//! Runs a trial through both proxies.

use core::time::Duration;
use std::{
    collections::{BTreeMap, HashMap},
    thread,
};

use anyhow::{Context as _, Result, anyhow};
use netns_lab::Topology;

use super::{
    cluster::Cluster,
    excuse::{Difference, Excuses},
    observe::Outcomes,
    ours::{Kproxy, Ours, settings},
    trial::{Check, Trial, TrialStep},
    watch::Watch,
};
use crate::{
    control_plane::{ControlPlane, KubeProxy},
    folder::Folder,
    kept::Kept,
    scenario::Flows,
};

/// How long an answer may take: at first, and where the two seem to differ.
const PATIENCE: [Duration; 3] = [
    Duration::from_millis(250),
    Duration::from_secs(2),
    Duration::from_secs(4),
];
/// How long a step may take; twenty times what one takes on a busy machine.
const STEP: Duration = Duration::from_secs(600);
/// How long a connection may take to be made or to echo.
const CONNECTED: Duration = Duration::from_secs(5);

/// What came of a trial.
#[derive(Debug, Default)]
pub struct Report {
    /// Probes compared.
    pub compared: usize,
    /// Differences that a row excuses.
    pub excused: usize,
    /// Probes of which the same became; ours and theirs are equal.
    pub same: Vec<Difference>,
    /// Differences that nothing excuses.
    pub differences: Vec<Difference>,
    /// Objects that the API server refused, and why.
    pub refused: Vec<String>,
}

/// One of the two nodes.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) topology: Topology,
    connections: HashMap<String, Kept>,
    pub(super) flows: Flows,
}

/// A trial under way.
pub(super) struct Running<'a> {
    control: &'a ControlPlane,
    trial: &'a Trial,
    pub(super) excuses: &'a Excuses,
    pub(super) theirs: Side,
    pub(super) ours: Side,
    kube_proxy: KubeProxy,
    kproxy: Ours,
    pub(super) report: Report,
}

/// Runs it.
///
/// With the program `kproxy`, both proxies watch the API server; else ours reads copies of what
/// is there.
///
/// # Errors
/// When something other than a probe fails: the laboratory, one of the programs, a manifest.
pub fn run(
    control: &ControlPlane,
    kproxy: Option<&Kproxy>,
    trial: &Trial,
    excuses: &Excuses,
) -> Result<Report> {
    let mut cluster = Cluster::new(control);
    let report = run_in(&mut cluster, control, kproxy, trial, excuses);
    // Also when it failed: the next trial finds nothing of this one.
    let refused = cluster.clear()?;
    let mut report = report?;
    report.refused = refused;
    Ok(report)
}

fn run_in(
    cluster: &mut Cluster<'_>,
    control: &ControlPlane,
    kproxy: Option<&Kproxy>,
    trial: &Trial,
    excuses: &Excuses,
) -> Result<Report> {
    let doing = |what: &str| format!("{} ({}), {what}", trial.name, trial.family);
    let watch = Watch::start(doing("to begin"), STEP)?;
    let folder = Folder::new()?;
    cluster.provide_node(trial)?;
    let (first, rest) = trial.steps.split_first().context("no steps")?;
    cluster.apply(first)?;
    cluster.read_back(&folder)?;
    let (theirs, ours) = (Side::new(trial)?, Side::new(trial)?);
    let kproxy = Ours::start(control, kproxy, ours.topology.node(), &folder, trial)?;
    let kube_proxy = KubeProxy::start_settled(control, theirs.topology.node(), &settings(trial))?;
    let mut running = Running {
        control,
        trial,
        excuses,
        theirs,
        ours,
        kube_proxy,
        kproxy,
        report: Report::default(),
    };
    watch.next(doing(&first.about));
    running.step(first)?;
    for step in rest {
        watch.next(doing(&step.about));
        running.kproxy.end()?;
        cluster.apply(step)?;
        cluster.read_back(&folder)?;
        let node = running.ours.topology.node();
        running.kproxy.start_again(control, node, trial)?;
        running.step(step)?;
    }
    watch.next(doing("to end"));
    running.kube_proxy.check_counters()?;
    let Running { report, .. } = running;
    Ok(report)
}

impl Side {
    fn new(trial: &Trial) -> Result<Self> {
        let mut builder = Topology::builder().node(trial.node.addresses.iter().copied());
        for (name, addresses) in &trial.hosts {
            builder = builder.host(name, addresses.iter().copied());
        }
        let topology = builder.build()?;
        for (host, transport, port) in &trial.serve {
            topology.serve(host, *transport, *port)?;
        }
        Ok(Self {
            topology,
            connections: HashMap::new(),
            flows: Flows::default(),
        })
    }

    /// Opens the step's connections; what becomes of each.
    fn open(&mut self, step: &TrialStep) -> BTreeMap<String, Outcomes> {
        let mut outcomes = BTreeMap::new();
        for (name, opened) in &step.open {
            let connected = Kept::open(&self.topology, &opened.from, opened.to.into(), CONNECTED);
            let outcome = match connected {
                Ok(connection) => {
                    self.connections.insert(name.clone(), connection);
                    "open"
                }
                Err(_) => "not open",
            };
            outcomes.insert(name.clone(), Outcomes::once(outcome));
        }
        outcomes
    }

    /// Tries the connections again that should still be open.
    fn echo(&mut self, step: &TrialStep) -> BTreeMap<String, Outcomes> {
        let mut outcomes = BTreeMap::new();
        for name in &step.alive {
            let connection = self.connections.get_mut(name);
            let alive = connection.is_some_and(|it| it.echo(name.as_bytes(), CONNECTED).is_ok());
            let outcome = if alive { "alive" } else { "broken" };
            outcomes.insert(name.clone(), Outcomes::once(outcome));
        }
        outcomes
    }

    /// Sends the probes; those of different hosts at the same time.
    fn observe(&self, checks: &[&Check], patience: Duration) -> Result<Vec<Outcomes>> {
        let mut sources: Vec<&str> = checks.iter().map(|check| check.from.as_str()).collect();
        sources.sort_unstable();
        sources.dedup();
        let observed = thread::scope(|scope| {
            let threads: Vec<_> = sources
                .into_iter()
                .map(|source| {
                    scope.spawn(move || {
                        let checks = checks.iter().enumerate();
                        checks
                            .filter(|(_, check)| check.from == source)
                            .map(|(index, check)| {
                                Ok((index, Outcomes::of(&self.topology, check, patience)?))
                            })
                            .collect::<Result<Vec<_>>>()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .map_err(|_| anyhow!("a probing thread panicked"))?
                })
                .collect::<Result<Vec<_>>>()
        })?;
        let mut outcomes = vec![Outcomes::default(); checks.len()];
        for (index, outcome) in observed.into_iter().flatten() {
            if let Some(place) = outcomes.get_mut(index) {
                *place = outcome;
            }
        }
        Ok(outcomes)
    }
}

impl Running<'_> {
    fn step(&mut self, step: &TrialStep) -> Result<()> {
        self.settle()
            .with_context(|| format!("step {:?}", step.about))?;
        let (theirs, ours) = both(|| self.theirs.open(step), || self.ours.open(step))?;
        self.compare_connections(step, &theirs, &ours);
        self.probe(step)?;
        let (theirs, ours) = both(|| self.theirs.echo(step), || self.ours.echo(step))?;
        self.compare_connections(step, &theirs, &ours);
        self.send(step)
    }

    /// Waits until both have programmed everything.
    fn settle(&mut self) -> Result<()> {
        let node = self.ours.topology.node();
        self.kproxy.settle(self.control, node)?;
        self.kube_proxy
            .settle(self.control, self.theirs.topology.node())
    }

    /// Compares the step's probes; those that differ once more, and with more patience.
    fn probe(&mut self, step: &TrialStep) -> Result<()> {
        self.report.compared += step.probes.len();
        let mut checks: Vec<Check> = step.probes.clone();
        let mut last = Vec::new();
        for patience in PATIENCE {
            let asked: Vec<&Check> = checks.iter().collect();
            let (theirs, ours) = both(
                || self.theirs.observe(&asked, patience),
                || self.ours.observe(&asked, patience),
            )?;
            let observed = checks.into_iter().zip(theirs?.into_iter().zip(ours?));
            let (same, different): (Vec<_>, Vec<_>) =
                observed.partition(|(_, (theirs, ours))| theirs == ours);
            for (check, (theirs, ours)) in same {
                let same = self.difference(step, &check, theirs, ours);
                self.excuses.witness(&same);
                self.report.same.push(same);
            }
            // What is excused need not be looked at again.
            last = Vec::new();
            for (check, (theirs, ours)) in different {
                let difference = self.difference(step, &check, theirs.clone(), ours.clone());
                if self.excuses.excuse(&difference) {
                    self.report.excused += 1;
                } else {
                    last.push((check, (theirs, ours)));
                }
            }
            if last.is_empty() {
                return Ok(());
            }
            checks = last
                .iter()
                .map(|(check, _)| Check {
                    tries: check.tries * 2,
                    ..check.clone()
                })
                .collect();
            self.settle()?;
        }
        for (check, (theirs, ours)) in last {
            let difference = self.difference(step, &check, theirs, ours);
            self.report.differences.push(difference);
        }
        Ok(())
    }

    fn compare_connections(
        &mut self,
        step: &TrialStep,
        theirs: &BTreeMap<String, Outcomes>,
        ours: &BTreeMap<String, Outcomes>,
    ) {
        self.report.compared += theirs.len();
        for (name, theirs) in theirs {
            if let Some(ours) = ours.get(name).filter(|ours| *ours != theirs) {
                self.differ(Difference {
                    scenario: self.trial.name.clone(),
                    family: self.trial.family,
                    step: step.about.clone(),
                    probe: format!("connection {name}"),
                    sent: "kept open".to_owned(),
                    theirs: theirs.clone(),
                    ours: ours.clone(),
                });
            }
        }
    }

    pub(super) fn difference(
        &self,
        step: &TrialStep,
        check: &Check,
        theirs: Outcomes,
        ours: Outcomes,
    ) -> Difference {
        Difference {
            scenario: self.trial.name.clone(),
            family: self.trial.family,
            step: step.about.clone(),
            probe: check.id.clone(),
            sent: format!("{} → {} {}", check.from, check.to.transport, check.to.to),
            theirs,
            ours,
        }
    }

    pub(super) fn differ(&mut self, difference: Difference) {
        if self.excuses.excuse(&difference) {
            self.report.excused += 1;
        } else {
            self.report.differences.push(difference);
        }
    }
}

/// Runs two at the same time.
pub(super) fn both<T: Send>(
    theirs: impl FnOnce() -> T + Send,
    ours: impl FnOnce() -> T,
) -> Result<(T, T)> {
    thread::scope(|scope| {
        let other = scope.spawn(theirs);
        let ours = ours();
        let theirs = other.join().map_err(|_| anyhow!("a thread panicked"))?;
        Ok((theirs, ours))
    })
}
