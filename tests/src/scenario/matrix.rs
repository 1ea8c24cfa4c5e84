//! One line of a scenario that stands for several probes: from each of some hosts, by each of some
//! protocols.

use serde::{Deserialize, Deserializer};

use super::{
    expect::{Expected, Target},
    file::{Case, SourceSeen},
};

/// A line: `from` may be a list, `to` may begin with `tcp,udp,sctp`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    from: OneOrMore,
    to: String,
    expect: Expected,
    #[serde(default)]
    source: SourceSeen,
    #[serde(default)]
    same: bool,
    #[serde(default)]
    still: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

/// The probes that lines stand for, in order. One of several is named by the line's id, its protocol
/// and its host.
pub(super) fn cases<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Case>, D::Error> {
    let mut cases = Vec::new();
    for line in Vec::<Line>::deserialize(deserializer)? {
        let hosts = match line.from {
            OneOrMore::One(host) => vec![host],
            OneOrMore::More(hosts) => hosts,
        };
        let (transports, rest) = line.to.split_once(' ').unwrap_or((&line.to, ""));
        let targets = transports.split(',').map(|transport| {
            let target: Target = format!("{transport} {rest}").parse()?;
            Ok((transport, target))
        });
        let targets: Vec<_> = targets
            .collect::<Result<_, anyhow::Error>>()
            .map_err(serde::de::Error::custom)?;
        let single = hosts.len() * targets.len() == 1;
        for from in &hosts {
            for (transport, to) in &targets {
                let id = if single {
                    line.id.clone()
                } else {
                    format!("{} {transport} from {from}", line.id)
                };
                cases.push(Case {
                    id,
                    from: from.clone(),
                    to: *to,
                    expect: line.expect.clone(),
                    source: line.source,
                    same: line.same,
                    still: line.still,
                });
            }
        }
    }
    Ok(cases)
}

#[cfg(test)]
mod tests {
    use netns_lab::Transport;

    use super::*;

    #[derive(Deserialize)]
    struct File {
        #[serde(deserialize_with = "cases")]
        probes: Vec<Case>,
    }

    #[test]
    fn a_line_stands_for_each_host_and_protocol() {
        let text = "probes:
  - {id: A, from: [a, node], to: 'tcp,sctp 10.0.0.1 80', expect: [b 80], source: node}
  - {id: B, from: a, to: udp 10.0.0.1 53, expect: rejected}
";
        let File { probes } = serde_saphyr::from_str(text).unwrap();
        let ids: Vec<_> = probes.iter().map(|case| case.id.as_str()).collect();
        assert_eq!(
            ids,
            [
                "A tcp from a",
                "A sctp from a",
                "A tcp from node",
                "A sctp from node",
                "B"
            ]
        );
        assert_eq!(probes[3].from, "node");
        assert_eq!(probes[3].to.transport, Transport::Sctp);
        assert_eq!(probes[3].source, SourceSeen::Node);
        let wrong = text.replace("tcp,sctp", "tcp,tpc");
        assert!(serde_saphyr::from_str::<File>(&wrong).is_err());
    }
}
