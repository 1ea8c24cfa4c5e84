//! Sends the demo's traffic and counts who answered.

use core::time::Duration;
use std::collections::BTreeMap;

use netns_lab::{Evenness, Probe, Topology, Verdict};

use super::{
    DemoError,
    cluster::{CLIENT, Frontend},
    report::{Outcome, Row, Share},
};

const PATIENCE: Duration = Duration::from_secs(5);

/// Sends `count` new flows to a frontend from the client.
pub(super) fn send(topology: &Topology, frontend: &Frontend, count: u32) -> Result<Row, DemoError> {
    let probe = Probe {
        transport: frontend.transport,
        to: frontend.address,
    };
    let mut reached = BTreeMap::<Box<str>, u64>::new();
    let mut refused = 0u64;
    let mut lost = 0u64;
    // A refusal needs no statistics.
    let count = if frontend.pods.is_empty() { 1 } else { count };
    for _ in 0..count {
        match topology.probe(CLIENT, probe, PATIENCE)? {
            Verdict::Answered(answer) => *reached.entry(answer.by).or_default() += 1,
            Verdict::Rejected { .. } => refused += 1,
            _ => lost += 1,
        }
    }
    Ok(Row {
        service: frontend.service.clone(),
        transport: frontend.transport,
        address: frontend.address,
        outcome: judge(frontend, &mut reached, refused, lost),
    })
}

fn judge(
    frontend: &Frontend,
    reached: &mut BTreeMap<Box<str>, u64>,
    refused: u64,
    lost: u64,
) -> Outcome {
    if frontend.pods.is_empty() && refused > 0 && lost == 0 && reached.is_empty() {
        return Outcome::Refused;
    }
    let shares: Vec<Share> = frontend
        .pods
        .iter()
        .map(|pod| Share {
            pod: pod.clone(),
            flows: reached.remove(pod).unwrap_or(0),
        })
        .collect();
    let elsewhere: u64 = reached.values().sum();
    let counts: Vec<u64> = shares.iter().map(|share| share.flows).collect();
    if refused + lost + elsewhere > 0 || counts.is_empty() || counts.contains(&0) {
        return Outcome::Failed {
            shares,
            refused,
            lost,
            elsewhere,
        };
    }
    Outcome::Balanced {
        shares,
        evenness: Evenness::of(&counts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netns_lab::Transport;

    fn judged(pods: &[&str], reached: &[(&str, u64)], refused: u64, lost: u64) -> Outcome {
        let frontend = Frontend {
            service: "shop/web:http".into(),
            transport: Transport::Tcp,
            address: "10.96.0.10:80".parse().unwrap(),
            pods: pods.iter().map(|&pod| pod.into()).collect(),
        };
        let mut reached = reached
            .iter()
            .map(|&(pod, count)| (pod.into(), count))
            .collect();
        judge(&frontend, &mut reached, refused, lost)
    }

    #[test]
    fn what_counts_as_working() {
        assert!(matches!(
            judged(&["a", "b"], &[("a", 5), ("b", 7)], 0, 0),
            Outcome::Balanced { .. }
        ));
        assert_eq!(judged(&[], &[], 1, 0), Outcome::Refused);
    }

    #[test]
    fn what_does_not() {
        for outcome in [
            judged(&["a", "b"], &[("a", 12)], 0, 0),
            judged(&["a"], &[("a", 11), ("sink", 1)], 0, 0),
            judged(&["a"], &[("a", 11)], 0, 1),
            judged(&["a"], &[("a", 11)], 1, 0),
            judged(&[], &[], 0, 1),
            judged(&[], &[("sink", 1)], 0, 0),
        ] {
            assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
        }
    }
}
