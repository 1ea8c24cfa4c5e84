//! `featureGates` and `--feature-gates`.

use core::str::FromStr;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Gates that change something here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    name: &'static str,
    stage: Stage,
    /// What it does.
    effect: &'static str,
}

/// Says what a gate is that nobody set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Off.
    Alpha,
    /// On.
    Beta,
    /// On, whatever `AllBeta` says.
    Stable,
}

impl Stage {
    const fn label(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
        }
    }
}

/// Node ports at loopback addresses, see [`svc_planner::config::LocalhostNodePorts`].
pub(super) const LOCALHOST_NODE_PORTS: &str = "KubeProxyNFTablesLocalhostNodePorts";
/// External IPs, see [`svc_planner::Config::external_ips`] (KEP-5707).
const EXTERNAL_IPS: &str = "AllowServiceExternalIPs";

const KNOWN: &[Known] = &[
    Known {
        name: EXTERNAL_IPS,
        stage: Stage::Stable,
        effect: "spec.externalIPs of Services are served",
    },
    Known {
        name: LOCALHOST_NODE_PORTS,
        stage: Stage::Alpha,
        effect: "TCP node ports work at loopback addresses if nodePortAddresses names these",
    },
    Known {
        name: "LoggingAlphaOptions",
        stage: Stage::Alpha,
        effect: "logging.options may be used",
    },
    Known {
        name: "LoggingBetaOptions",
        stage: Stage::Beta,
        effect: "logging.format may be json",
    },
    Known {
        name: "WatchListClient",
        stage: Stage::Beta,
        effect: "initial lists are streamed where the API server can",
    },
];

/// One `NAME=true` or `NAME=false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureGate {
    name: String,
    on: bool,
}

impl FeatureGate {
    /// Which one.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Is it on?
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.on
    }
}

impl FromStr for FeatureGate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a gate is NAME=true or NAME=false";
        let (name, value) = text.split_once('=').ok_or(EXPECTED)?;
        let name = name.trim().to_owned();
        match boolean(value.trim()) {
            Some(on) if !name.is_empty() => Ok(Self { name, on }),
            _ => Err(EXPECTED),
        }
    }
}

/// As Go's `strconv.ParseBool`.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Gates by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FeatureGates(BTreeMap<String, bool>);

impl FeatureGates {
    /// Is none set?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sets one.
    pub fn set(&mut self, name: &str, on: bool) {
        self.0.insert(name.to_owned(), on);
    }

    /// Is it on? Those that nobody set are as their stage has them.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        if let Some(on) = self.0.get(name) {
            return *on;
        }
        let stage = KNOWN.iter().find(|gate| gate.name == name);
        match stage.map(|gate| gate.stage) {
            Some(Stage::Alpha) => self.0.get("AllAlpha").copied().unwrap_or(false),
            Some(Stage::Beta) => self.0.get("AllBeta").copied().unwrap_or(true),
            Some(Stage::Stable) => true,
            None => false,
        }
    }

    /// Names, stages as kube-proxy spells them, and whether they are on: of those that change something
    /// and of the two that stand for all of a stage.
    pub fn states(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        let all = [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)];
        let all = all.map(|(name, stage)| {
            let on = self.0.get(name).copied().unwrap_or(false);
            (name, stage.label(), on)
        });
        let known = KNOWN
            .iter()
            .map(|gate| (gate.name, gate.stage.label(), self.is_on(gate.name)));
        all.into_iter().chain(known)
    }

    /// Are node ports at loopback addresses taken care of?
    #[must_use]
    pub fn localhost_node_ports(&self) -> bool {
        self.is_on(LOCALHOST_NODE_PORTS)
    }

    /// Are external IPs of Services served?
    #[must_use]
    pub fn external_ips(&self) -> bool {
        self.is_on(EXTERNAL_IPS)
    }

    /// Names of those that change nothing here.
    pub fn without_effect(&self) -> impl Iterator<Item = &str> {
        let names = self.0.keys().map(String::as_str);
        names.filter(|name| {
            let general = matches!(*name, "AllAlpha" | "AllBeta");
            !general && KNOWN.iter().all(|gate| gate.name != *name)
        })
    }

    /// Names, whether they are on unless set, and effects of those that change something.
    pub fn known() -> impl Iterator<Item = (&'static str, bool, &'static str)> {
        KNOWN
            .iter()
            .map(|gate| (gate.name, gate.stage != Stage::Alpha, gate.effect))
    }
}

impl<'a> FromIterator<&'a FeatureGate> for FeatureGates {
    /// Of a gate named twice the last counts.
    fn from_iter<I: IntoIterator<Item = &'a FeatureGate>>(gates: I) -> Self {
        let gates = gates.into_iter();
        Self(gates.map(|gate| (gate.name.clone(), gate.on)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(texts: &[&str]) -> FeatureGates {
        let gates: Vec<FeatureGate> = texts.iter().map(|text| text.parse().unwrap()).collect();
        gates.iter().collect()
    }

    #[test]
    fn gates_are_read_as_kube_proxy_reads_them() {
        let on = "KubeProxyNFTablesLocalhostNodePorts=true";
        let off = "KubeProxyNFTablesLocalhostNodePorts=0";
        assert!(!gates(&[]).localhost_node_ports());
        assert!(gates(&[on]).localhost_node_ports());
        assert!(!gates(&[on, off]).localhost_node_ports());
        assert!(gates(&[off, "Other=false", on]).localhost_node_ports());
        assert!(gates(&["AllAlpha=true"]).localhost_node_ports());
        assert!(!gates(&["AllAlpha=true", off]).localhost_node_ports());
        assert!(gates(&[]).is_on("WatchListClient"));
        assert!(!gates(&["AllBeta=false"]).is_on("WatchListClient"));
        assert!(gates(&["AllBeta=false"]).external_ips());
        assert!(!gates(&["AllowServiceExternalIPs=false"]).external_ips());
        let other = gates(&["Other=T", on, "AllAlpha=false"]);
        assert_eq!(other.without_effect().collect::<Vec<_>>(), ["Other"]);
        for wrong in ["", "Name", "Name=", "Name=yes", "=true"] {
            assert!(wrong.parse::<FeatureGate>().is_err(), "{wrong}");
        }
    }
}
