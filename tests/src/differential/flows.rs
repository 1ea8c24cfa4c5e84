//! UDP flows that are kept open: who has their datagrams after each change.

use std::time::Instant;

use anyhow::Result;

use super::{
    observe::Outcomes,
    run::{Running, Side, both},
    trial::{Check, TrialStep},
};
use crate::scenario::{Expected, SETTLING, WATCHED};

impl Side {
    /// Sends one datagram of each flow that goes on.
    fn send(&self, step: &TrialStep, checks: &[Check]) -> Result<Vec<Outcomes>> {
        let verdicts = self.flows.ask(&step.sent)?;
        let outcomes = checks.iter().zip(&verdicts);
        Ok(outcomes
            .map(|(check, verdict)| Outcomes::of_one(&self.topology, check, verdict))
            .collect())
    }
}

impl Running<'_> {
    /// Opens the step's flows, and has flows go on until the same has become of them for a while
    /// with both.
    pub(super) fn send(&mut self, step: &TrialStep) -> Result<()> {
        for side in [&mut self.theirs, &mut self.ours] {
            side.flows.open(&side.topology, &step.flows)?;
        }
        if step.sent.is_empty() {
            return Ok(());
        }
        let checks = self.checks(step)?;
        let deadline = Instant::now() + SETTLING;
        let mut settled_since = None;
        loop {
            let (theirs, ours) = both(
                || self.theirs.send(step, &checks),
                || self.ours.send(step, &checks),
            )?;
            let compared = checks.iter().zip(theirs?.into_iter().zip(ours?));
            let (same, different): (Vec<_>, Vec<_>) = compared
                .map(|(check, (theirs, ours))| self.difference(step, check, theirs, ours))
                .partition(|compared| compared.theirs == compared.ours);
            let now = Instant::now();
            if different.iter().all(|it| self.excuses.knows(it)) {
                if now - *settled_since.get_or_insert(now) < WATCHED {
                    continue;
                }
            } else if now < deadline {
                settled_since = None;
                continue;
            }
            self.report.compared += checks.len();
            self.report.same.extend(same);
            different.into_iter().for_each(|it| self.differ(it));
            return Ok(());
        }
    }

    /// The flows that go on, as probes.
    fn checks(&self, step: &TrialStep) -> Result<Vec<Check>> {
        let sent = step.sent.iter().map(|sent| {
            let opened = self.ours.flows.opened(&sent.flow)?;
            Ok(Check {
                id: format!("flow {}", sent.flow),
                from: opened.from.clone(),
                to: opened.to,
                tries: 1,
                sticks_to: match &sent.expect {
                    Expected::Endpoints(endpoints) if endpoints.len() > 1 => endpoints.clone(),
                    _ => Vec::new(),
                },
            })
        });
        sent.collect()
    }
}
