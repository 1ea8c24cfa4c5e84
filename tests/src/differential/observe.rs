//! What becomes of a probe, in words that compare.

use core::{fmt, net::IpAddr, time::Duration};
use std::collections::BTreeSet;

use anyhow::Result;
use netns_lab::{Answer, SINK, Topology, Verdict};

use super::trial::Check;

/// Tries after which a probe that nobody answers is believed.
const UNANSWERED: usize = 3;

/// The different outcomes of a probe sent many times.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcomes(BTreeSet<String>);

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for outcome in &self.0 {
            write!(f, "{separator}{outcome}")?;
            separator = ", ";
        }
        Ok(())
    }
}

impl Outcomes {
    /// Those written in a row of a table.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let words = text.split(',').map(|outcome| outcome.trim().to_owned());
        Self(words.filter(|outcome| !outcome.is_empty()).collect())
    }

    /// How many different ones.
    #[must_use]
    #[allow(clippy::len_without_is_empty, reason = "a probe has an outcome")]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Outcome of something that happens once.
    pub(super) fn once(outcome: &str) -> Self {
        Self(BTreeSet::from([outcome.to_owned()]))
    }

    /// Sends a probe as often as it says.
    ///
    /// # Errors
    /// When it cannot be sent.
    pub fn of(topology: &Topology, check: &Check, patience: Duration) -> Result<Self> {
        let mut outcomes = BTreeSet::new();
        let mut answered = false;
        for sent in 0..check.tries {
            if sent >= UNANSWERED && !answered {
                break;
            }
            let verdict = topology.probe(&check.from, check.to.into(), patience)?;
            answered |= matches!(verdict, Verdict::Answered(_));
            outcomes.insert(describe(topology, check, &verdict));
        }
        Ok(Self(outcomes).stuck(check))
    }
}

impl Outcomes {
    /// What became of one.
    pub(super) fn of_one(topology: &Topology, check: &Check, verdict: &Verdict) -> Self {
        Self::once(&describe(topology, check, verdict)).stuck(check)
    }

    /// One endpoint of those that a client may stick to stands for any of them.
    fn stuck(self, check: &Check) -> Self {
        let only = self.0.first().filter(|_| self.0.len() == 1);
        let source = only.and_then(|outcome| {
            check
                .sticks_to
                .iter()
                .find_map(|(host, port)| outcome.strip_prefix(&format!("{host} {port} from ")))
        });
        match source {
            Some(source) => Self::once(&format!("one of them from {source}")),
            None => self,
        }
    }
}

fn describe(topology: &Topology, check: &Check, verdict: &Verdict) -> String {
    match verdict {
        Verdict::Answered(answer) => answered(topology, check, answer),
        Verdict::EchoReply => "echo reply".to_owned(),
        Verdict::Rejected { from, at_send } => {
            let from = name_of_option(topology, check, *from);
            let at = if *at_send { " at send" } else { "" };
            format!("rejected by {from}{at}")
        }
        Verdict::Unreachable { from, kind, code } => {
            let from = name_of_option(topology, check, *from);
            format!("ICMP {kind}.{code} by {from}")
        }
        Verdict::Reset => "reset".to_owned(),
        Verdict::NotPermitted => "not permitted".to_owned(),
        Verdict::Silent => "silent".to_owned(),
        other => format!("{other:?}"),
    }
}

fn answered(topology: &Topology, check: &Check, answer: &Answer) -> String {
    let source = name(topology, answer.source.ip());
    if &*answer.by == SINK && answer.at == check.to.to {
        return format!("untouched from {source}");
    }
    format!("{} {} from {source}", answer.by, answer.at.port())
}

fn name_of_option(topology: &Topology, check: &Check, address: Option<IpAddr>) -> String {
    match address {
        Some(address) if address == check.to.to.ip() && !is_known(topology, address) => {
            "the address".to_owned()
        }
        Some(address) => name(topology, address),
        None => "nobody".to_owned(),
    }
}

fn is_known(topology: &Topology, address: IpAddr) -> bool {
    name(topology, address) != address.to_string()
}

/// Who has an address; with a number unless it is the host's first of the family.
fn name(topology: &Topology, address: IpAddr) -> String {
    let of = |name: &str, addresses: &[IpAddr]| {
        let mut family = addresses
            .iter()
            .filter(|other| other.is_ipv4() == address.is_ipv4());
        let position = family.position(|other| *other == address)?;
        Some(match position {
            0 => name.to_owned(),
            number => format!("{name}[{number}]"),
        })
    };
    let hosts = topology.hosts().iter();
    let mut names = hosts.filter_map(|host| of(host.name(), host.addresses()));
    of("node", topology.node_addresses())
        .or_else(|| names.next())
        .unwrap_or_else(|| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_parsed() {
        let outcomes = Outcomes::parse("b 80 from pod,a 80 from pod");
        assert_eq!(outcomes.to_string(), "a 80 from pod, b 80 from pod");
        assert_eq!(Outcomes::parse(&outcomes.to_string()), outcomes);
    }
}
