//! A node, a cluster and an installed kproxy.

use core::{ops::Range, time::Duration};
use std::{rc::Rc, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    control_plane::{ControlPlane, Entry, Relay},
    deploy::{Installed, Kind, install},
    differential::{Check, Cluster, Outcomes, TrialStep},
    pod::{HttpProbe, Pod},
    takeover::World,
};
use nft_batch::{Connection, EventError, Events};
use serde_json::Value as Json;

use crate::programs;

/// Longest wait for anything; passes only when a test fails.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(2);
/// Enough to miss one of two endpoints once in 10⁴ times.
const TRIES: usize = 15;

/// From where, to where, and what becomes of it.
pub(crate) type Expected = (&'static str, &'static str, &'static str);

/// See the module.
pub(crate) struct Stage<'a> {
    pub(crate) control: &'a ControlPlane,
    pub(crate) world: World,
    pub(crate) cluster: Cluster<'a>,
    pub(crate) installed: Installed,
    pub(crate) relay: Rc<Relay>,
    pub(crate) pod: Pod,
    /// What of [`Stage::asked`] was asked of an API server that was not ready yet.
    pub(crate) unready: Range<usize>,
    events: Events,
    kernel: Connection,
}

/// A system call that the filter does not know ends the process, and so the test.
fn confine(daemon_set: &mut Json) -> Result<()> {
    let command = daemon_set.pointer_mut("/spec/template/spec/containers/0/command");
    let command = command.and_then(Json::as_array_mut).context("no command")?;
    command.push("--seccomp=kill".into());
    Ok(())
}

impl<'a> Stage<'a> {
    /// Installs kproxy and writes the cluster of `takeover/cluster.yaml`; nothing runs yet.
    pub(crate) fn new(control: &'a ControlPlane, kind: Kind) -> Result<Self> {
        let mut installed = install(control, kind)?;
        confine(&mut installed.daemon_set)?;
        let world = World::new()?;
        let mut cluster = Cluster::new(control);
        cluster.apply(&World::objects())?;
        let relay = Rc::new(control.relay_to(world.node())?);
        let pod = installed.pod(control, &world, &programs())?;
        Ok(Self {
            control,
            events: world.node().run(Events::open)??,
            kernel: world.node().run(Connection::open)??,
            world,
            cluster,
            installed,
            relay,
            pod,
            unready: 0..0,
        })
    }

    /// Starts the pod as a kubelet does, and waits until it is ready.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.pod.init(self.world.node())?;
        self.pod.start(self.world.node())?;
        self.until("kproxy is ready", |stage| stage.is_ready())
    }

    /// Whether its own probe says so, or kube-proxy's where the DaemonSet has none.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        let main = &self.pod.spec().main;
        let probe = main.readiness.clone().unwrap_or_else(|| HttpProbe {
            path: "/readyz".to_owned(),
            port: 10256,
        });
        // Nobody listens at first.
        Ok(self.pod.probe(&probe).is_ok_and(|code| code == 200))
    }

    /// Waits until something is so; looks again whenever the tables change.
    pub(crate) fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self)? {
            if let Some(status) = self.pod.program()?.ended()? {
                bail!("kproxy ended, {status}:\n{}", self.pod.log()?);
            }
            ensure!(
                Instant::now() < deadline,
                "not so: {what}; kproxy:\n{}",
                self.pod.log()?
            );
            // Not all that is waited for shows in the tables.
            let look = Instant::now() + Duration::from_millis(200);
            match self.events.next_group(Some(look.min(deadline))) {
                Ok(_) | Err(EventError::Overrun | EventError::TimedOut) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Waits until probes end as expected.
    pub(crate) fn expect(&mut self, expected: &[Expected]) -> Result<()> {
        for &(from, to, outcome) in expected {
            let wanted = Outcomes::parse(outcome);
            let mut last = Outcomes::default();
            let reached = self.until(&format!("{from} to {to}: {outcome}"), |stage| {
                last = stage.observe(from, to)?;
                Ok(last == wanted)
            });
            reached.with_context(|| format!("{from} to {to}: {last}, not {wanted}"))?;
        }
        Ok(())
    }

    fn observe(&self, from: &str, to: &str) -> Result<Outcomes> {
        let check = Check {
            id: String::new(),
            from: from.to_owned(),
            to: to.parse()?,
            tries: TRIES,
            sticks_to: Vec::new(),
        };
        Outcomes::of(self.world.topology(), &check, ANSWER)
    }

    /// Replaces all objects of the cluster by these.
    pub(crate) fn apply(&mut self, manifest: &str) -> Result<()> {
        let write = [("cluster.yaml".to_owned(), manifest.to_owned())].into();
        self.cluster.apply(&TrialStep {
            write,
            ..TrialStep::default()
        })
    }

    /// Number of transactions that the node's nf_tables have seen.
    pub(crate) fn generation(&mut self) -> Result<u32> {
        Ok(self.kernel.generation()?)
    }

    /// What the API server was asked by kproxy.
    pub(crate) fn asked(&self) -> Result<Vec<Entry>> {
        let user = self.installed.user();
        Ok(self.control.audit()?.of(&user).cloned().collect())
    }
}
