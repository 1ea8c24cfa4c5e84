//! A made-up cluster's objects as YAML.

use core::fmt::Write as _;

use super::{ENDPOINTS, Endpoints, Hints, NODE, PORTS, RANGES, SERVICES, Service, State, TARGETS};

pub(super) fn node(of: usize) -> String {
    format!(
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: node-a\n  labels: \
         {{topology.kubernetes.io/zone: zone-a}}\nstatus:\n  addresses: \
         [{{type: InternalIP, address: \"{}\"}}]\n",
        NODE[of]
    )
}

pub(super) fn cluster_ip(number: usize, of: usize) -> String {
    [
        format!("172.30.1.{}", number + 1),
        format!("fd00:10:96::1:{}", number + 1),
    ][of]
        .clone()
}

pub(super) fn external_ip(number: usize, of: usize) -> String {
    [
        format!("192.0.2.{}", number + 1),
        format!("2001:db8:e::{}", number + 1),
    ][of]
        .clone()
}

pub(super) fn vip(number: usize, of: usize) -> String {
    [
        format!("198.18.0.{}", number + 1),
        format!("2001:db8:f::{}", number + 1),
    ][of]
        .clone()
}

pub(super) fn node_port_base(number: usize) -> u16 {
    [30100, 30200, 30300][number % SERVICES]
}

/// Number of a port of a Service.
pub(super) fn port_number(number: usize, name: &str) -> u16 {
    let named = PORTS.iter().find(|(known, ..)| *known == name);
    match named.map_or(0, |(_, _, port, _)| *port) {
        0 => node_port_base(number + 1),
        port => port,
    }
}

impl Service {
    pub(super) fn manifest(&self, number: usize, of: usize) -> String {
        let mut text = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: svc{number}, namespace: default}}\n\
             spec:\n  type: {}\n  clusterIP: \"{}\"\n",
            self.kind,
            cluster_ip(number, of)
        );
        let policy = |local| if local { "Local" } else { "Cluster" };
        let [external, balancer] = self.one_address;
        let external = if self.at_node {
            NODE[of].to_owned()
        } else if external {
            cluster_ip(number, of)
        } else {
            external_ip(number, of)
        };
        let balancer = if balancer { cluster_ip } else { vip }(number, of);
        let mut line = |text_of: String| {
            text.push_str(&text_of);
            text.push('\n');
        };
        line(format!(
            "  internalTrafficPolicy: {}",
            policy(self.internal_local)
        ));
        // The API server refuses the external policy where nothing is external.
        if self.kind != "ClusterIP" {
            line(format!(
                "  externalTrafficPolicy: {}",
                policy(self.external_local)
            ));
        }
        if self.external_ip {
            line(format!("  externalIPs: [\"{external}\"]"));
        }
        if self.sticky {
            line("  sessionAffinity: ClientIP".to_owned());
        }
        if let Some(range) = self.ranges.filter(|_| self.kind == "LoadBalancer") {
            line(format!(
                "  loadBalancerSourceRanges: [\"{}\"]",
                RANGES[range][of]
            ));
        }
        line("  ports:".to_owned());
        for ((name, transport, _, node_port), _) in
            PORTS.iter().zip(self.ports).filter(|(_, has)| *has)
        {
            let protocol = transport.to_string().to_uppercase();
            let port = port_number(number, name);
            let node_port = match self.kind {
                "ClusterIP" => String::new(),
                _ => format!(", nodePort: {}", node_port_base(number) + node_port),
            };
            line(format!(
                "    - {{name: {name}, protocol: {protocol}, port: {port}{node_port}}}"
            ));
        }
        if let Some(mode) = self.balancer.filter(|_| self.kind == "LoadBalancer") {
            line(format!(
                "status: {{loadBalancer: {{ingress: [{{ip: \"{balancer}\", ipMode: {mode}}}]}}}}"
            ));
        }
        text
    }
}

impl Endpoints {
    pub(super) fn manifests(&self, number: usize, of: usize) -> String {
        let nodes: &[&[&str]] = if self.split {
            &[&["node-a"], &["node-b"]]
        } else {
            &[&["node-a", "node-b"]]
        };
        let slices = nodes.iter().zip("ab".chars());
        let slices: Vec<_> = slices
            .map(|(nodes, letter)| self.slice(number, of, nodes, letter))
            .collect();
        slices.join("---\n")
    }

    fn slice(&self, number: usize, of: usize, nodes: &[&str], letter: char) -> String {
        let family = ["IPv4", "IPv6"][of];
        let mut text = format!(
            "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  \
             name: svc{number}-{letter}\n  namespace: default\n  \
             labels: {{kubernetes.io/service-name: svc{number}}}\naddressType: {family}\nports:\n"
        );
        let target = TARGETS[self.target];
        let mut any = false;
        for ((name, transport, ..), _) in PORTS.iter().zip(self.ports).filter(|(_, has)| *has) {
            let protocol = transport.to_string().to_uppercase();
            let line = format!("  - {{name: {name}, protocol: {protocol}, port: {target}}}\n");
            text.push_str(&line);
            any = true;
        }
        if !any {
            text = text.replace("ports:\n", "ports: []\n");
        }
        let mut endpoints = String::new();
        let again = self
            .again
            .filter(|(which, _)| self.states[*which].is_some());
        let again = again.map(|(which, state)| (&ENDPOINTS[which], Some(state)));
        for ((_, node, addresses), state) in ENDPOINTS.iter().zip(self.states).chain(again) {
            let Some(State(conditions)) = state.filter(|_| nodes.contains(node)) else {
                continue;
            };
            let hints = match self.hints {
                Hints::None => String::new(),
                Hints::Zones if *node == "node-a" => ", hints: {forZones: [{name: zone-a}]}".into(),
                Hints::Zones => ", hints: {forZones: [{name: zone-b}]}".into(),
                Hints::Nodes => format!(", hints: {{forNodes: [{{name: {node}}}]}}"),
                Hints::Elsewhere => ", hints: {forZones: [{name: zone-c}]}".into(),
            };
            let place = match self.nodeless {
                true => String::new(),
                false => format!(", nodeName: {node}"),
            };
            // Writing to a String cannot fail.
            let _ = writeln!(
                endpoints,
                "  - {{addresses: [\"{}\"]{place}, conditions: {conditions}{hints}}}",
                addresses[of]
            );
        }
        if endpoints.is_empty() {
            text.push_str("endpoints: []\n");
        } else {
            text.push_str("endpoints:\n");
            text.push_str(&endpoints);
        }
        text
    }
}
