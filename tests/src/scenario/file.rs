//! The format of scenario files.

use core::{fmt, mem, net::IpAddr};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::Path,
};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use svc_planner::config::NoLocalEndpoint;

use super::{
    expect::{Expected, Target},
    matrix,
};

/// Family in which a scenario is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4
    Ipv4,
    /// IPv6
    Ipv6,
}

/// A scenario with its addresses filled in for one family.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Scenario {
    /// What it shows.
    pub about: String,
    /// IPv4 and IPv6 address of each name.
    pub addresses: HashMap<String, [String; 2]>,
    /// The node and its proxy.
    pub node: NodeSpec,
    /// Hosts on links of their own, with their addresses.
    pub hosts: BTreeMap<String, Vec<IpAddr>>,
    /// Ports that hosts answer on: `tcp 80`.
    #[serde(default)]
    pub serve: BTreeMap<String, Vec<String>>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// The node in the middle.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeSpec {
    /// Its name in the manifests.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// `clusterCIDR`: sources in it are local.
    #[serde(default)]
    pub cluster_cidr: Option<String>,
    /// `detectLocalMode`; `ClusterCIDR` if absent.
    #[serde(default)]
    pub detect_local_mode: Option<DetectLocalMode>,
    /// Its interface, or the beginning of its name. The links of hosts are named `link1`, `link2` …
    /// in the order of their hosts' names.
    #[serde(default)]
    pub detect_local_interface: Option<String>,
    /// `masqueradeAll`.
    #[serde(default)]
    pub masquerade_all: bool,
    /// `nodePortAddresses`.
    #[serde(default)]
    pub node_port_addresses: Vec<String>,
    /// The gate `KubeProxyNFTablesLocalhostNodePorts`; none of the addresses above is loopback.
    #[serde(default)]
    pub localhost_node_ports: bool,
    /// `--no-local-endpoint`, which kube-proxy does not have.
    #[serde(default, with = "NoLocalEndpointName")]
    pub no_local_endpoint: NoLocalEndpoint,
}

/// Names of [`NoLocalEndpoint`].
#[derive(Deserialize)]
#[serde(remote = "NoLocalEndpoint", rename_all = "lowercase")]
enum NoLocalEndpointName {
    Drop,
    Reject,
}

/// How local sources are recognised; the names are kube-proxy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum DetectLocalMode {
    /// By the Node's pod CIDR.
    #[serde(rename = "NodeCIDR")]
    NodeCidr,
    /// By the interface they come from.
    BridgeInterface,
    /// By the beginning of its name.
    InterfaceNamePrefix,
}

impl DetectLocalMode {
    /// kube-proxy's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NodeCidr => "NodeCIDR",
            Self::BridgeInterface => "BridgeInterface",
            Self::InterfaceNamePrefix => "InterfaceNamePrefix",
        }
    }
}

/// A change of the folder of manifests, and the probes that follow.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Step {
    /// What it does.
    pub about: String,
    /// Manifests written, by file name.
    #[serde(default)]
    pub write: BTreeMap<String, String>,
    /// Manifests removed.
    #[serde(default)]
    pub remove: Vec<String>,
    /// Parts of the complaints that reading the manifests must cause; none means no complaint. One
    /// that starts with `IPv4: ` or `IPv6: ` is expected in that family only.
    #[serde(default)]
    pub complaints: Vec<String>,
    /// TCP connections and SCTP associations to open and keep: name, then where from and to.
    #[serde(default)]
    pub open: BTreeMap<String, Opened>,
    /// Probes; a line may stand for several.
    #[serde(default, deserialize_with = "matrix::cases")]
    pub probes: Vec<Case>,
    /// Connections opened earlier that must still echo.
    #[serde(default)]
    pub alive: Vec<String>,
    /// UDP flows to open and keep: name, then where from and to.
    #[serde(default)]
    pub flows: BTreeMap<String, Opened>,
    /// Flows opened before, or in this step, that go on.
    #[serde(default)]
    pub sent: Vec<Sent>,
}

/// A flow that goes on, and where it must end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sent {
    /// Its name.
    pub flow: String,
    /// As of a probe; one of several endpoints.
    pub expect: Expected,
}

/// A connection to keep.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Opened {
    /// Host.
    pub from: String,
    /// Address and port.
    pub to: Target,
}

/// One probe and what is expected of it.
#[derive(Debug, Clone)]
pub struct Case {
    /// Its name, a row of a table of expected behaviour where there is one.
    pub id: String,
    /// Host, or `node`.
    pub from: String,
    /// `tcp ADDRESS PORT`, `icmp ADDRESS`.
    pub to: Target,
    /// `rejected`, `dropped`, `untouched`, `reset`, or the endpoints that share the probes:
    /// `HOST PORT`.
    pub expect: Expected,
    /// Source address that the endpoints see.
    pub source: SourceSeen,
    /// All probes must reach the same one of the endpoints.
    pub same: bool,
    /// And the one that was reached the last time, from there to there.
    pub still: bool,
}

/// Whose address an endpoint sees.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceSeen {
    /// The client's.
    #[default]
    Client,
    /// The node's: masqueraded.
    Node,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "IPv4",
            Self::Ipv6 => "IPv6",
        })
    }
}

/// The part of a file that is needed to fill in the rest.
#[derive(Deserialize)]
struct Addresses {
    addresses: HashMap<String, [String; 2]>,
}

impl Scenario {
    /// Reads a file for a family.
    ///
    /// # Errors
    /// When it cannot be read, is malformed, or names an unknown address.
    pub fn read(path: &Path, family: Family) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text, family).with_context(|| format!("{} ({family})", path.display()))
    }

    fn parse(text: &str, family: Family) -> Result<Self> {
        let Addresses { addresses } = serde_saphyr::from_str(text)?;
        let mut scenario: Self = serde_saphyr::from_str(&fill_in(text, &addresses, family)?)?;
        for step in &mut scenario.steps {
            step.complaints = mem::take(&mut step.complaints)
                .into_iter()
                .filter_map(|complaint| match complaint.split_once(": ") {
                    Some(("IPv4" | "IPv6", _)) => complaint
                        .strip_prefix(&format!("{family}: "))
                        .map(str::to_owned),
                    _ => Some(complaint),
                })
                .collect();
        }
        Ok(scenario)
    }
}

/// Replaces every `$(name)`.
fn fill_in(text: &str, addresses: &HashMap<String, [String; 2]>, family: Family) -> Result<String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("$(") {
        filled.push_str(before);
        let Some((name, after)) = after.split_once(')') else {
            bail!("$( without )")
        };
        match (name, addresses.get(name), family) {
            ("addressType", ..) => filled.push_str(&family.to_string()),
            (_, Some([four, _]), Family::Ipv4) => filled.push_str(four),
            (_, Some([_, six]), Family::Ipv6) => filled.push_str(six),
            (_, None, _) => bail!("no address is named {name:?}"),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
about: test
addresses: { svc: [10.0.0.1, "fd00::1"], node: [192.0.2.1, "2001:db8::1"], a: [10.1.0.1, "fd01::1"] }
node: { name: n, addresses: ["$(node)"] }
hosts: { a: ["$(a)"] }
serve: { a: [tcp 80] }
steps:
  - about: first
    write: { svc.yaml: "kind: Service\nclusterIP: $(svc)\naddressType: $(addressType)\n" }
    probes:
      - { id: P1, from: a, to: tcp $(svc) 80, expect: [a 80], source: node }
      - { id: P2, from: a, to: icmp $(svc), expect: rejected }
"#;

    #[test]
    fn addresses_are_filled_in_per_family() {
        for (family, address) in [(Family::Ipv4, "10.0.0.1"), (Family::Ipv6, "fd00::1")] {
            let scenario = Scenario::parse(FILE, family).unwrap();
            let step = &scenario.steps[0];
            assert!(step.write["svc.yaml"].contains(&format!("clusterIP: {address}\n")));
            assert!(step.write["svc.yaml"].contains(&format!("addressType: {family}")));
            assert_eq!(
                step.probes[0].to.to.ip(),
                address.parse::<IpAddr>().unwrap()
            );
            assert_eq!(step.probes[0].source, SourceSeen::Node);
            assert_eq!(step.probes[1].expect, Expected::Rejected);
        }
    }

    #[test]
    fn unknown_names_and_fields_are_refused() {
        let wrong = FILE.replace("$(svc) 80", "$(other) 80");
        assert!(Scenario::parse(&wrong, Family::Ipv4).is_err());
        let wrong = FILE.replace("source: node", "sauce: node");
        assert!(Scenario::parse(&wrong, Family::Ipv4).is_err());
    }
}
