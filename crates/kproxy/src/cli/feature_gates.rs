//! `--feature-gates`, as kube-proxy spells them.

use core::str::FromStr;

/// The gate of [`LocalhostNodePorts`](svc_planner::config::LocalhostNodePorts).
const LOCALHOST_NODE_PORTS: &str = "KubeProxyNFTablesLocalhostNodePorts";

/// One `NAME=true` or `NAME=false`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FeatureGate {
    name: String,
    on: bool,
}

impl FromStr for FeatureGate {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = text
            .split_once('=')
            .ok_or("a gate is NAME=true or NAME=false")?;
        // As Go's strconv.ParseBool.
        let on = match value.trim() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
            "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
            _ => return Err("a gate is NAME=true or NAME=false"),
        };
        let name = name.trim().to_owned();
        if name.is_empty() {
            return Err("a gate is NAME=true or NAME=false");
        }
        Ok(Self { name, on })
    }
}

/// Are node ports at loopback addresses taken care of? Of a gate named twice the last counts.
pub(super) fn localhost_node_ports(gates: &[FeatureGate]) -> bool {
    let mut gates = gates.iter().rev();
    gates
        .find(|gate| gate.name == LOCALHOST_NODE_PORTS)
        .is_some_and(|gate| gate.on)
}

/// Names of gates that change nothing here.
pub(super) fn unknown(gates: &[FeatureGate]) -> impl Iterator<Item = &str> {
    let names = gates.iter().map(|gate| &*gate.name);
    names.filter(|name| *name != LOCALHOST_NODE_PORTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(texts: &[&str]) -> Vec<FeatureGate> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn gates_are_read_as_kube_proxy_reads_them() {
        let on = "KubeProxyNFTablesLocalhostNodePorts=true";
        let off = "KubeProxyNFTablesLocalhostNodePorts=0";
        assert!(!localhost_node_ports(&[]));
        assert!(localhost_node_ports(&gates(&[on])));
        assert!(!localhost_node_ports(&gates(&[on, off])));
        assert!(localhost_node_ports(&gates(&[off, "Other=false", on])));
        let other = gates(&["Other=T", on]);
        assert_eq!(unknown(&other).collect::<Vec<_>>(), ["Other"]);
        for wrong in ["", "Name", "Name=", "Name=yes", "=true"] {
            assert!(wrong.parse::<FeatureGate>().is_err(), "{wrong}");
        }
    }
}
