//! What a probe should lead to, and whether it did.

use core::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::{Answer, Probe, SINK, Transport, Verdict};
use serde::Deserialize;

use super::file::SourceSeen;

/// What a probe should lead to.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub enum Expected {
    /// An ICMP port unreachable of the node.
    Rejected,
    /// The same after translation: as it comes back, it is the Service's that was sent to.
    RejectedTranslated,
    /// Nothing.
    Dropped,
    /// Forwarded as it was.
    Untouched,
    /// A TCP reset of a stack.
    Reset,
    /// These endpoints, each at least once in enough tries, and no others: host and port.
    Endpoints(Vec<(String, u16)>),
}

/// How it is written.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Word(String),
    Endpoints(Vec<String>),
}

/// Where a probe goes: `tcp ADDRESS PORT` or `icmp ADDRESS`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Target {
    /// How.
    pub transport: Transport,
    /// Where to.
    pub to: SocketAddr,
}

impl TryFrom<Written> for Expected {
    type Error = anyhow::Error;

    fn try_from(written: Written) -> Result<Self> {
        Ok(match written {
            Written::Word(word) => match word.as_str() {
                "rejected" => Self::Rejected,
                "rejected-translated" => Self::RejectedTranslated,
                "dropped" => Self::Dropped,
                "untouched" => Self::Untouched,
                "reset" => Self::Reset,
                _ => bail!("no verdict is named {word:?}"),
            },
            Written::Endpoints(written) => {
                let mut endpoints = Vec::new();
                for endpoint in written {
                    let (host, port) = endpoint.split_once(' ').context("HOST PORT is wanted")?;
                    endpoints.push((host.to_owned(), port.parse()?));
                }
                ensure!(!endpoints.is_empty(), "no endpoint is no expectation");
                Self::Endpoints(endpoints)
            }
        })
    }
}

impl TryFrom<String> for Target {
    type Error = anyhow::Error;

    fn try_from(written: String) -> Result<Self> {
        written.parse()
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(written: &str) -> Result<Self> {
        let mut words = written.split_whitespace();
        let mut next = || {
            words
                .next()
                .with_context(|| format!("{written:?} is too short"))
        };
        let transport: Transport = next()?.parse().map_err(anyhow::Error::msg)?;
        let address: IpAddr = next()?.parse()?;
        let port = if transport == Transport::Icmp {
            0
        } else {
            next()?.parse()?
        };
        ensure!(words.next().is_none(), "{written:?} is too long");
        Ok(Self {
            transport,
            to: SocketAddr::new(address, port),
        })
    }
}

impl From<Target> for Probe {
    fn from(Target { transport, to }: Target) -> Self {
        Self { transport, to }
    }
}

impl Expected {
    /// How often to probe, so that an endpoint that does get its share is missed once in 10⁴ runs.
    #[must_use]
    pub fn tries(&self) -> usize {
        match self {
            Self::Endpoints(endpoints) => match endpoints.len() {
                0 | 1 => 3,
                2 => 15,
                3 => 26,
                // n (1 - 1/n)^k ≤ 10⁻⁴ holds for k = n (9.3 + ln n), and ln n < 5 here.
                more => more * 15,
            },
            _ => 1,
        }
    }
}

impl Expected {
    /// Whether each of its endpoints answered.
    pub(super) fn is_reached_by(&self, verdicts: &[Verdict]) -> bool {
        let Self::Endpoints(endpoints) = self else {
            return true;
        };
        endpoints.iter().all(|(host, port)| {
            verdicts.iter().any(|verdict| {
                matches!(verdict, Verdict::Answered(answer)
                    if *answer.by == **host && answer.at.port() == *port)
            })
        })
    }
}

/// Where things are, for judging verdicts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) from: &'a str,
    pub(super) client: &'a [IpAddr],
    pub(super) node: &'a [IpAddr],
}

impl Surroundings<'_> {
    /// Whether `verdicts` are what `expected` says.
    pub(super) fn judge(
        &self,
        target: Target,
        expected: &Expected,
        source: SourceSeen,
        verdicts: &[Verdict],
    ) -> Result<()> {
        let mut reached = BTreeMap::<(&str, u16), usize>::new();
        for verdict in verdicts {
            match (expected, verdict) {
                (Expected::Rejected, Verdict::Rejected { from, at_send }) => {
                    self.judge_reject(target, *from, *at_send)?;
                }
                (Expected::RejectedTranslated, Verdict::Rejected { from, at_send }) => {
                    ensure!(
                        *at_send == self.at_send(target) && *from == Some(target.to.ip()),
                        "rejected by {from:?}, at send: {at_send}"
                    );
                }
                (Expected::Dropped, Verdict::Silent) if !self.at_send(target) => {}
                (Expected::Dropped, Verdict::NotPermitted) if self.at_send(target) => {}
                (Expected::Reset, Verdict::Reset) => {}
                (Expected::Untouched, Verdict::Answered(answer)) if &*answer.by == SINK => {
                    ensure!(answer.at == target.to, "reached the sink at {}", answer.at);
                }
                (Expected::Endpoints(endpoints), Verdict::Answered(answer)) => {
                    let key = (&*answer.by, answer.at.port());
                    let known = endpoints
                        .iter()
                        .any(|(host, port)| (host.as_str(), *port) == key);
                    ensure!(known, "reached {} {}", answer.by, answer.at);
                    self.judge_source(source, answer)?;
                    *reached.entry(key).or_default() += 1;
                }
                (_, verdict) => bail!("{verdict:?}"),
            }
        }
        if let Expected::Endpoints(endpoints) = expected {
            for (host, port) in endpoints {
                let seen = reached.contains_key(&(host.as_str(), *port));
                ensure!(seen, "never reached {host} {port}, but {reached:?}");
            }
        }
        Ok(())
    }

    /// Whether a packet stopped on its way out of the node makes the send call fail.
    fn at_send(&self, target: Target) -> bool {
        let told = match target.transport {
            Transport::Tcp => false,
            // net/ipv6/ping.c ignores what became of the packet.
            Transport::Icmp => target.to.is_ipv4(),
            _ => true,
        };
        self.from == "node" && told
    }

    fn judge_reject(&self, target: Target, from: Option<IpAddr>, at_send: bool) -> Result<()> {
        // A node port is rejected on the way in, even from the node itself.
        let own = self.node.contains(&target.to.ip()) || target.to.ip().is_loopback();
        ensure!(
            at_send == (self.at_send(target) && !own),
            "rejected {} the send call",
            if at_send { "at" } else { "after" }
        );
        if self.from != "node" {
            let by_node = from.is_some_and(|from| self.node.contains(&from));
            ensure!(by_node, "rejected by {from:?}, not by the node");
        }
        Ok(())
    }

    fn judge_source(&self, source: SourceSeen, answer: &Answer) -> Result<()> {
        let allowed = match source {
            SourceSeen::Client => self.client,
            SourceSeen::Node => self.node,
        };
        let seen = answer.source.ip();
        ensure!(
            allowed.contains(&seen),
            "{} saw the source {seen}",
            answer.by
        );
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &[IpAddr] = &[IpAddr::V4(core::net::Ipv4Addr::new(192, 168, 0, 2))];
    const CLIENT: &[IpAddr] = &[IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2))];

    fn judge(from: &str, to: &str, expected: &Expected, verdicts: &[Verdict]) -> Result<()> {
        let client = if from == "node" { NODE } else { CLIENT };
        Surroundings {
            from,
            client,
            node: NODE,
        }
        .judge(to.parse()?, expected, SourceSeen::Client, verdicts)
    }

    fn answered(by: &str, at: &str) -> Verdict {
        Verdict::Answered(Answer {
            by: by.into(),
            at: at.parse().unwrap(),
            source: "10.0.0.2:4000".parse().unwrap(),
        })
    }

    #[test]
    fn endpoints_must_all_be_reached_and_no_others() {
        let both = Expected::Endpoints(vec![("a".into(), 80), ("b".into(), 80)]);
        let (a, b) = (answered("a", "10.0.1.1:80"), answered("b", "10.0.1.2:80"));
        let to = "tcp 172.30.0.41 80";
        judge("c", to, &both, &[a.clone(), b.clone(), b.clone()]).unwrap();
        judge("c", to, &both, core::slice::from_ref(&a)).unwrap_err();
        judge("c", to, &both, &[a.clone(), b.clone(), Verdict::Silent]).unwrap_err();
        judge("c", to, &both, &[a, b, answered("a", "10.0.1.1:81")]).unwrap_err();
        let masqueraded = Surroundings {
            from: "c",
            client: CLIENT,
            node: NODE,
        };
        let one = Expected::Endpoints(vec![("a".into(), 80)]);
        let target = to.parse().unwrap();
        let verdicts = [answered("a", "10.0.1.1:80")];
        masqueraded
            .judge(target, &one, SourceSeen::Node, &verdicts)
            .unwrap_err();
    }

    #[test]
    fn rejects_are_told_from_drops_resets_and_closed_ports() {
        let of = |from: &str, at_send| Verdict::Rejected {
            from: from.parse().ok(),
            at_send,
        };
        let to = "udp 172.30.0.41 80";
        judge("c", to, &Expected::Rejected, &[of("192.168.0.2", false)]).unwrap();
        judge("c", to, &Expected::Rejected, &[of("172.30.0.41", false)]).unwrap_err();
        judge("c", to, &Expected::Rejected, &[Verdict::Silent]).unwrap_err();
        let translated = Expected::RejectedTranslated;
        judge("c", to, &translated, &[of("172.30.0.41", false)]).unwrap();
        judge("c", to, &translated, &[of("192.168.0.2", false)]).unwrap_err();
        judge("node", to, &translated, &[of("172.30.0.41", false)]).unwrap_err();
        judge("c", to, &Expected::Dropped, &[of("192.168.0.2", false)]).unwrap_err();
        judge("c", to, &Expected::Dropped, &[Verdict::Silent]).unwrap();
        judge("node", to, &Expected::Rejected, &[of("192.168.0.2", true)]).unwrap();
        judge("node", to, &Expected::Rejected, &[of("192.168.0.2", false)]).unwrap_err();
        judge("node", to, &Expected::Dropped, &[Verdict::NotPermitted]).unwrap();
        judge("node", to, &Expected::Dropped, &[Verdict::Silent]).unwrap_err();
        judge(
            "c",
            "tcp 172.30.0.41 80",
            &Expected::Rejected,
            &[Verdict::Reset],
        )
        .unwrap_err();
    }
}
