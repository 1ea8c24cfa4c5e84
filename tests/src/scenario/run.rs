//! Runs a scenario on the kernel.

use core::{cell::RefCell, time::Duration};
use std::{collections::HashMap, path::Path, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::{Namespace, Topology, Transport, Verdict};

use super::{
    expect::{Expected, Surroundings, Target},
    explained,
    file::{Case, Family, NodeSpec, Opened, Scenario, Step},
    flows::{self, Flows},
};
use crate::{confined::Confined, folder::Folder, kept::Kept, listing, proxy::Proxy};

/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the program may take to finish what it has begun.
const SETTLING: Duration = Duration::from_secs(20);
/// How long to listen for an answer that must not come.
const SILENCE: Duration = Duration::from_millis(300);

/// Who serves.
enum Serving {
    /// The engine, in this process.
    Here(Box<Proxy>),
    /// The program, with nothing but the privileges that it needs.
    Confined(Box<Confined>),
}

/// A scenario under way.
struct Running {
    scenario: Scenario,
    topology: Topology,
    folder: Folder,
    proxy: Serving,
    connections: HashMap<String, Kept>,
    flows: Flows,
    /// Endpoints reached where they had to be the same.
    stuck: RefCell<HashMap<(String, Target), (String, u16)>>,
    /// What every nft release must show: a map's typed key.
    listed: &'static str,
}

/// Runs the scenario in `path` for a family and returns the number of probes judged. All failures
/// are reported, not only the first.
///
/// # Errors
/// When the file is malformed, the laboratory cannot be built, or a probe is not what it should be.
pub fn run(path: &Path, family: Family) -> Result<usize> {
    run_with(path, family, |node, folder, spec| {
        let proxy = Proxy::start(node, folder, spec, family)?;
        Ok(Serving::Here(Box::new(proxy)))
    })
}

/// As [`run`], with the program `kproxy`, which is killed should it do what it must not. Complaints go to
/// its log and are not judged.
///
/// # Errors
/// As [`run`], or when the program ends.
pub fn run_confined(path: &Path, family: Family, kproxy: &Path) -> Result<usize> {
    run_with(path, family, |node, folder, spec| {
        let proxy = Confined::start(kproxy, node, folder, spec)?;
        Ok(Serving::Confined(Box::new(proxy)))
    })
}

fn run_with(
    path: &Path,
    family: Family,
    start: impl FnOnce(&Namespace, &Path, &NodeSpec) -> Result<Serving>,
) -> Result<usize> {
    let scenario = Scenario::read(path, family)?;
    let mut builder = Topology::builder().node(scenario.node.addresses.iter().copied());
    for (name, addresses) in &scenario.hosts {
        builder = builder.host(name, addresses.iter().copied());
    }
    let topology = builder.build()?;
    for (host, ports) in &scenario.serve {
        for port in ports {
            let (host, transport, port) = served(host, port)?;
            topology.serve(&host, transport, port)?;
        }
    }
    let folder = Folder::new()?;
    let proxy = start(topology.node(), folder.path(), &scenario.node)?;
    let steps = scenario.steps.len();
    let connections = HashMap::new();
    let mut running = Running {
        scenario,
        topology,
        folder,
        proxy,
        connections,
        flows: Flows::default(),
        stuck: RefCell::default(),
        listed: match family {
            Family::Ipv4 => "ipv4_addr . inet_proto . inet_service : ",
            Family::Ipv6 => "ipv6_addr . inet_proto . inet_service : ",
        },
    };
    let mut failures = Vec::new();
    let mut judged = 0;
    for index in 0..steps {
        judged += running
            .step(index, &mut failures)
            .with_context(|| format!("step {} of {} ({family})", index + 1, path.display()))?;
    }
    ensure!(
        failures.is_empty(),
        "{} ({family}), {}:\n  {}",
        path.display(),
        running.scenario.about,
        failures.join("\n  ")
    );
    ensure!(judged > 0, "{} judges nothing", path.display());
    Ok(judged)
}

/// Host, protocol and port of an entry under `serve`: `tcp 80`.
pub(crate) fn served(host: &str, written: &str) -> Result<(String, Transport, u16)> {
    let (transport, port) = written.split_once(' ').context("serve: PROTOCOL PORT")?;
    let transport = transport.parse().map_err(anyhow::Error::msg)?;
    Ok((host.to_owned(), transport, port.parse()?))
}

impl Running {
    fn step(&mut self, index: usize, failures: &mut Vec<String>) -> Result<usize> {
        let step = &self.scenario.steps[index];
        for (name, text) in &step.write {
            self.folder.write(name, text)?;
        }
        for name in &step.remove {
            self.folder.remove(name)?;
        }
        match &mut self.proxy {
            Serving::Here(proxy) => judge_complaints(step, &proxy.sync()?, failures),
            Serving::Confined(proxy) => proxy.sync(&self.folder)?,
        }
        let settled = Instant::now() + SETTLING;
        // Some of its work the program puts off by a second or two, and does not say when it is done.
        let may_wait = matches!(self.proxy, Serving::Confined(_));
        let waits = || may_wait && Instant::now() < settled;
        for (name, opened) in &step.open {
            let connect = || {
                let Opened { from, to } = opened;
                Kept::open(&self.topology, from, (*to).into(), PATIENCE)
            };
            let mut connection = connect();
            while connection.is_err() && waits() {
                connection = connect();
            }
            self.connections.insert(name.clone(), connection?);
        }
        for case in &step.probes {
            let mut judged = self.probe(case);
            while judged.is_err() && waits() {
                judged = self.probe(case);
            }
            if let Err(wrong) = judged {
                failures.push(format!(
                    "{} ({}): {} → {} {}: expected {:?}, got {wrong:#}",
                    case.id, step.about, case.from, case.to.transport, case.to.to, case.expect
                ));
            }
        }
        for name in &step.alive {
            let connection = self
                .connections
                .get_mut(name)
                .context("no such connection")?;
            if let Err(error) = connection.echo(name.as_bytes(), PATIENCE) {
                failures.push(format!("connection {name} ({}): {error}", step.about));
            }
        }
        self.flows.open(&self.topology, &step.flows)?;
        self.send(step, failures)?;
        if let Err(error) = listing::check(self.topology.node(), &[self.listed]) {
            failures.push(format!("listing ({}): {error:#}", step.about));
        }
        Ok(step.probes.len() + step.alive.len() + step.sent.len())
    }

    /// Has flows go on until all have ended for a while where they must.
    fn send(&self, step: &Step, failures: &mut Vec<String>) -> Result<()> {
        let deadline = Instant::now() + flows::SETTLING;
        let mut right_since = None;
        while !step.sent.is_empty() {
            let mut wrong = Vec::new();
            for (sent, verdict) in step.sent.iter().zip(self.flows.ask(&step.sent)?) {
                let to = self.flows.opened(&sent.flow)?.to;
                if !flows::is_met(&sent.expect, to, &verdict) {
                    let (name, expected) = (&sent.flow, &sent.expect);
                    let about = &step.about;
                    wrong.push(format!(
                        "flow {name} ({about}): expected {expected:?}, got {verdict:?}"
                    ));
                }
            }
            let now = Instant::now();
            if wrong.is_empty() {
                if now - *right_since.get_or_insert(now) >= flows::WATCHED {
                    break;
                }
            } else if now < deadline {
                right_since = None;
            } else {
                failures.append(&mut wrong);
                break;
            }
        }
        Ok(())
    }

    fn probe(&self, case: &Case) -> Result<()> {
        let node = self.topology.node_addresses();
        let client = match case.from.as_str() {
            "node" => node,
            host => self.topology.host(host)?.addresses(),
        };
        let patience = if case.expect == Expected::Dropped {
            SILENCE
        } else {
            PATIENCE
        };
        let send = || -> Result<Vec<_>> {
            (0..case.expect.tries())
                .map(|_| Ok(self.topology.probe(&case.from, case.to.into(), patience)?))
                .collect()
        };
        let mut verdicts = send()?;
        // One of several that chance left out, which among so many probes it does.
        if !case.expect.is_reached_by(&verdicts) {
            verdicts.extend(send()?);
        }
        let surroundings = Surroundings {
            from: &case.from,
            client,
            node,
        };
        if case.same || case.still {
            let reached = self.stuck_to(case, &verdicts)?;
            let only = Expected::Endpoints(vec![reached]);
            surroundings.judge(case.to, &only, case.source, &verdicts)?;
        } else {
            surroundings.judge(case.to, &case.expect, case.source, &verdicts)?;
        }
        let planned = match &self.proxy {
            Serving::Here(proxy) => Some(proxy.planned()),
            Serving::Confined(_) => None,
        };
        explained::judge(&self.topology, case, &self.scenario.node.name, planned)
    }

    /// The one endpoint that all probes must have reached.
    fn stuck_to(&self, case: &Case, verdicts: &[Verdict]) -> Result<(String, u16)> {
        let Some(Verdict::Answered(answer)) = verdicts.first() else {
            bail!("{verdicts:?}");
        };
        let reached = (answer.by.to_string(), answer.at.port());
        let Expected::Endpoints(endpoints) = &case.expect else {
            bail!("only endpoints can be the same");
        };
        ensure!(endpoints.contains(&reached), "reached {reached:?}");
        let way = (case.from.clone(), case.to);
        let before = self.stuck.borrow_mut().insert(way, reached.clone());
        if case.still {
            ensure!(
                before.as_ref() == Some(&reached),
                "reached {reached:?}, and {before:?} before"
            );
        }
        Ok(reached)
    }
}

/// Every complaint must be expected, and every expected one must come.
fn judge_complaints(step: &Step, complaints: &[String], failures: &mut Vec<String>) {
    for complaint in complaints {
        if !step
            .complaints
            .iter()
            .any(|part| complaint.contains(part.as_str()))
        {
            failures.push(format!("{}: unexpected complaint: {complaint}", step.about));
        }
    }
    for part in &step.complaints {
        if !complaints
            .iter()
            .any(|complaint| complaint.contains(part.as_str()))
        {
            failures.push(format!(
                "{}: no complaint about {part:?}: {complaints:?}",
                step.about
            ));
        }
    }
}
