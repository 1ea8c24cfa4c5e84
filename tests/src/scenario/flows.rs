//! UDP flows that are kept open while things change: who has each of their datagrams now.

use core::time::Duration;
use std::{
    collections::{BTreeMap, HashMap},
    thread,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use netns_lab::{Flow, SINK, Topology, Transport, Verdict};

use super::{
    expect::{Expected, Target},
    file::{Opened, Sent},
};

/// How long what becomes of a flow must stay as it is: longer than a second look at it takes.
pub(crate) const WATCHED: Duration = Duration::from_secs(2);
/// How long until then.
pub(crate) const SETTLING: Duration = Duration::from_secs(20);
/// How long an answer to one datagram may take.
const ANSWER: Duration = Duration::from_millis(200);
/// How often each sends.
const RHYTHM: Duration = Duration::from_millis(100);

/// Flows by name.
#[derive(Debug, Default)]
pub(crate) struct Flows(HashMap<String, (Opened, Flow)>);

impl Flows {
    /// Makes those that a step opens; nothing is sent yet.
    pub(crate) fn open(
        &mut self,
        topology: &Topology,
        flows: &BTreeMap<String, Opened>,
    ) -> Result<()> {
        for (name, opened) in flows {
            ensure!(
                opened.to.transport == Transport::Udp,
                "flow {name} is none of UDP"
            );
            let flow = topology.flow(&opened.from, opened.to.to)?;
            self.0.insert(name.clone(), (opened.clone(), flow));
        }
        Ok(())
    }

    /// Where a flow comes from and goes to.
    pub(crate) fn opened(&self, name: &str) -> Result<&Opened> {
        let (opened, _) = self.0.get(name).with_context(|| no_flow(name))?;
        Ok(opened)
    }

    /// Sends one datagram of each, at the same time; what becomes of them, in order.
    pub(crate) fn ask(&self, sent: &[Sent]) -> Result<Vec<Verdict>> {
        let flows = sent.iter().map(|sent| {
            let (_, flow) = self
                .0
                .get(&sent.flow)
                .with_context(|| no_flow(&sent.flow))?;
            Ok(flow)
        });
        let flows: Vec<_> = flows.collect::<Result<_>>()?;
        let verdicts = thread::scope(|scope| {
            let asking: Vec<_> = flows
                .into_iter()
                .map(|flow| scope.spawn(move || flow.ask(ANSWER)))
                .collect();
            let asking = asking.into_iter().map(|thread| {
                let joined = thread.join();
                Ok(joined.map_err(|_| anyhow!("a sending thread panicked"))??)
            });
            asking.collect::<Result<Vec<_>>>()
        })?;
        thread::sleep(RHYTHM);
        Ok(verdicts)
    }
}

/// Whether a flow ends as expected; whose address is seen there does not matter.
pub(super) fn is_met(expected: &Expected, to: Target, verdict: &Verdict) -> bool {
    match (expected, verdict) {
        (Expected::Rejected, Verdict::Rejected { .. })
        | (Expected::Dropped, Verdict::Silent | Verdict::NotPermitted) => true,
        (Expected::Untouched, Verdict::Answered(answer)) => {
            &*answer.by == SINK && answer.at == to.to
        }
        (Expected::Endpoints(endpoints), Verdict::Answered(answer)) => endpoints
            .iter()
            .any(|(host, port)| **host == *answer.by && *port == answer.at.port()),
        _ => false,
    }
}

fn no_flow(name: &str) -> String {
    format!("no flow {name} was opened")
}
