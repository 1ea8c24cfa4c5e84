//! Options of more than one command.

use core::net::IpAddr;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args, ValueEnum};
use ipnet::IpNet;
use svc_planner::Config;
use svc_planner::config::{LocalDetector, NoLocalEndpoint, NodePortAddresses};
use svc_planner::plan::Family;
use tracing_subscriber::filter::LevelFilter;

use super::{Format, Printer};
use crate::config::{FeatureGate, FeatureGates, localhost_node_ports};
use crate::engine::{EngineError, STATE_DIR, StateDir};
use crate::netns::Netns;
use crate::node::{Identity, host_name, on_this_kernel};

/// Where to work.
#[derive(Debug, Clone, Args)]
pub struct Target {
    /// Work in the network namespace NAME (as `ip netns` names it, or a path such as
    /// /proc/PID/ns/net)
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

impl Target {
    /// The network namespace to work in.
    #[must_use]
    pub fn netns(&self) -> Netns {
        self.netns.as_deref().map_or(Netns::Current, Netns::from)
    }
}

/// How to print.
#[derive(Debug, Args)]
pub struct Results {
    /// How results are printed
    #[arg(long, short, value_enum, default_value_t)]
    output: Format,
}

impl Results {
    /// Prints in the format asked for.
    #[must_use]
    pub fn printer(&self) -> Printer {
        Printer::new(self.output)
    }
}

/// Options of every command.
#[derive(Debug, Args)]
pub struct Global {
    /// Log more to standard error (-v what is done, -vv details)
    #[arg(long, short, global = true, action = ArgAction::Count)]
    verbose: u8,

    /// Log as JSON lines
    #[arg(long, global = true)]
    log_json: bool,
}

impl Global {
    /// Sends logs to standard error, colours only to a terminal.
    pub(super) fn start_logging(&self) {
        let level = match self.verbose {
            0 => LevelFilter::WARN,
            1 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        };
        let logs = tracing_subscriber::fmt()
            .with_writer(io::stderr)
            .with_ansi(io::stderr().is_terminal())
            .with_max_level(level)
            .with_target(false);
        // Fails only if a subscriber is set already, which then stays.
        let _ = if self.log_json {
            logs.json().try_init()
        } else {
            logs.try_init()
        };
    }
}

/// Options of the proxy itself, named as kube-proxy names them.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Proxy options")]
pub struct ProxyOptions {
    /// Name of this node's Node object, and of its endpoints' nodeName [default: host name]
    #[arg(long, visible_alias = "hostname-override", value_name = "NAME")]
    node_name: Option<String>,

    /// This host is no Node of a cluster: do not wait for a Node object. Without --node-name no endpoint
    /// is local. Manifests without any Node are taken so (by `run` unless there is a --node-name), but
    /// the host name still tells local endpoints
    #[arg(long)]
    no_node: bool,

    /// The node's own address, instead of the first of its family that the Node object names
    #[arg(long, value_name = "IP")]
    bind_address: Option<IpAddr>,

    /// What local traffic is told by: the range of the cluster's pods, that of this node's pods (from the
    /// Node object), the bridge that they are on, or how their interfaces' names begin
    #[arg(
        long,
        value_name = "MODE",
        value_enum,
        default_value_t,
        ignore_case = true
    )]
    detect_local_mode: DetectLocalMode,

    /// Range of the cluster's pods, one per IP family, separated by a comma (of several of a family
    /// the first counts): traffic from elsewhere to ClusterIPs is masqueraded
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    cluster_cidr: Vec<IpNet>,

    /// The bridge that this node's pods are on, for --detect-local-mode BridgeInterface
    #[arg(long, value_name = "NAME", value_parser = interface_name)]
    pod_bridge_interface: Option<String>,

    /// How the names of this node's pods' interfaces begin, for --detect-local-mode InterfaceNamePrefix
    #[arg(long, value_name = "PREFIX", value_parser = interface_name)]
    pod_interface_name_prefix: Option<String>,

    /// Masquerade all traffic to ClusterIPs
    #[arg(long)]
    masquerade_all: bool,

    /// Bit of the packet mark that asks for masquerading
    #[arg(long, value_name = "0-31", default_value_t = 14,
          value_parser = clap::value_parser!(u8).range(0..=31))]
    masquerade_bit: u8,

    /// Where node ports are served: `primary` (the node's own address), `all`, `localhost` (which no rule
    /// serves), or prefixes. A family that none of these names has them on all addresses
    #[arg(
        long,
        value_name = "primary|all|localhost|CIDR,…",
        value_delimiter = ',',
        default_value = "primary"
    )]
    nodeport_addresses: Vec<NodePortAddress>,

    /// Switches of kube-proxy. KubeProxyNFTablesLocalhostNodePorts: TCP node ports work at loopback
    /// addresses if --nodeport-addresses names these; all others are rejected there
    #[arg(long, value_name = "NAME=true|false,…", value_delimiter = ',')]
    feature_gates: Vec<FeatureGate>,

    #[command(flatten)]
    beyond: Beyond,
}

/// Options of the proxy that kube-proxy has no name for.
#[derive(Debug, Clone, Args)]
pub(super) struct Beyond {
    /// Cut SCTP associations, too, that no endpoint serves any more; by default only UDP flows are
    #[arg(long)]
    reconcile_sctp: bool,

    /// What becomes of connections to a ClusterIP of internalTrafficPolicy Local whose endpoints are all on
    /// other nodes: `drop`, as kube-proxy does, or `reject`, so that clients need not wait for a timeout
    #[arg(
        long,
        value_name = "drop|reject",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    no_local_endpoint: OnNoLocalEndpoint,

    /// How many clients of Services with session affinity are remembered at once, per IP family; further
    /// ones are served, but not remembered. Costs about 90 bytes of the kernel's memory for each client
    /// that is remembered. Counts for a table that is made anew, not for one that is gone on with
    #[arg(long, value_name = "N", default_value_t = Config::default().max_affinity_clients,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_affinity_clients: u32,

    /// Folder that remembers from one start to the next what the rows in the kernel stand for;
    /// without it each start programs everything anew, beside what is there
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    state_dir: PathBuf,
}

impl Beyond {
    /// Folder that remembers what rows stand for.
    pub(super) fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    /// The planner's settings that these are about.
    pub(super) fn base(&self) -> Config {
        Config {
            reconcile_sctp: self.reconcile_sctp,
            no_local_endpoint: self.no_local_endpoint.into(),
            max_affinity_clients: self.max_affinity_clients,
            ..Config::default()
        }
    }
}

impl ProxyOptions {
    /// Which Node this host is; with --no-node alone it has no name.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let name = match &self.node_name {
            Some(name) => name.trim().to_lowercase(),
            None if self.no_node => String::new(),
            None => host_name(),
        };
        Identity {
            name,
            is_needed: !self.no_node,
            is_named: self.node_name.is_some(),
        }
    }

    /// Folder that remembers what rows stand for.
    pub(super) fn state_dir(&self) -> &Path {
        self.beyond.state_dir()
    }

    /// What an earlier process left behind for `netns`; `None` where it cannot be kept.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while another process is at work there.
    pub(super) fn state(&self, netns: &Netns) -> Result<Option<StateDir>, EngineError> {
        match StateDir::open(self.state_dir(), netns) {
            Ok(state) => Ok(Some(state)),
            Err(EngineError::State { path, error }) => {
                tracing::warn!("{}: {error}: the next start begins anew", path.display());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What an earlier process left behind for `netns`, or one at work there, to be read only.
    ///
    /// # Errors
    /// [`EngineError::Start`], [`EngineError::State`].
    pub(super) fn state_to_read(&self, netns: &Netns) -> Result<StateDir, EngineError> {
        StateDir::look(self.state_dir(), netns)
    }

    /// The planner's settings for `family`, on this kernel.
    #[must_use]
    pub fn config(&self, family: Family) -> Config {
        on_this_kernel(self.planner(family))
    }

    /// The planner's settings for `family`, as asked for.
    pub(super) fn planner(&self, family: Family) -> Config {
        let ours = |net: &&IpNet| Family::of(net.addr()) == family;
        let node_ports = NodePortAddress::all(&self.nodeport_addresses);
        let interface = |name: &Option<String>| name.as_deref().unwrap_or_default().into();
        let local = match self.detect_local_mode {
            DetectLocalMode::ClusterCidr => {
                let pods = self.cluster_cidr.iter().find(ours);
                pods.map_or(LocalDetector::None, |net| LocalDetector::Cidr(net.trunc()))
            }
            DetectLocalMode::NodeCidr => LocalDetector::NodeCidr,
            DetectLocalMode::BridgeInterface => {
                LocalDetector::Iifname(interface(&self.pod_bridge_interface))
            }
            DetectLocalMode::InterfaceNamePrefix => {
                LocalDetector::IifnamePrefix(interface(&self.pod_interface_name_prefix))
            }
        };
        Config {
            node_name: self.identity().name.into(),
            masquerade_all: self.masquerade_all,
            masquerade_bit: self.masquerade_bit,
            local,
            bind_address: self.bind_address,
            localhost_node_ports: localhost_node_ports(
                self.gates().localhost_node_ports(),
                &node_ports,
                family,
            ),
            node_port_addresses: node_ports,
            external_ips: self.gates().external_ips(),
            ..self.beyond.base()
        }
    }
}

impl ProxyOptions {
    /// Feature gates.
    pub(super) fn gates(&self) -> FeatureGates {
        self.feature_gates.iter().collect()
    }

    /// Logs what is asked for and does not exist.
    pub(super) fn warn(&self) {
        for name in self.gates().without_effect() {
            tracing::warn!("--feature-gates: {name} changes nothing");
        }
    }
}

/// What local traffic is told by; kube-proxy's words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum DetectLocalMode {
    /// Source addresses in the cluster's range of pods
    #[default]
    #[value(name = "ClusterCIDR")]
    ClusterCidr,
    /// Source addresses in this node's range of pods
    #[value(name = "NodeCIDR")]
    NodeCidr,
    /// What comes from a bridge
    #[value(name = "BridgeInterface")]
    BridgeInterface,
    /// What comes from interfaces with such names
    #[value(name = "InterfaceNamePrefix")]
    InterfaceNamePrefix,
}

/// As [`NoLocalEndpoint`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum OnNoLocalEndpoint {
    #[default]
    Drop,
    Reject,
}

impl From<OnNoLocalEndpoint> for NoLocalEndpoint {
    fn from(word: OnNoLocalEndpoint) -> Self {
        match word {
            OnNoLocalEndpoint::Drop => Self::Drop,
            OnNoLocalEndpoint::Reject => Self::Reject,
        }
    }
}

/// Longest name of an interface (linux/if.h: `IFNAMSIZ` - 1).
const INTERFACE_NAME_MAX: usize = 15;

/// A name that an interface can have, or the beginning of one.
fn interface_name(name: &str) -> Result<String, &'static str> {
    if name.len() > INTERFACE_NAME_MAX {
        return Err("names of interfaces have 15 bytes at most");
    }
    if name.contains(|c: char| c.is_whitespace() || c == '/' || c == ':') {
        return Err("no interface has such a name");
    }
    Ok(name.to_owned())
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NodePortAddress {
    Primary,
    All,
    Localhost,
    Prefix(IpNet),
}

impl NodePortAddress {
    fn all(words: &[Self]) -> NodePortAddresses {
        let mut addresses = NodePortAddresses::NONE;
        for word in words {
            match word {
                Self::Primary => addresses.primary = true,
                Self::All => addresses.all = true,
                Self::Localhost => addresses.localhost = true,
                Self::Prefix(net) => addresses.prefixes.push(net.trunc()),
            }
        }
        addresses
    }
}

impl core::str::FromStr for NodePortAddress {
    type Err = ipnet::AddrParseError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "primary" => Ok(Self::Primary),
            "all" => Ok(Self::All),
            "localhost" => Ok(Self::Localhost),
            prefix => prefix.parse().map(Self::Prefix),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        proxy: ProxyOptions,
    }

    fn config(family: Family, args: &[&str]) -> Config {
        let args = core::iter::once(&"kproxy").chain(args);
        Cli::try_parse_from(args).unwrap().proxy.config(family)
    }

    #[test]
    fn local_traffic_is_told_as_asked() {
        let four = |args: &[&str]| config(Family::Ipv4, args).local;
        assert_eq!(four(&[]), LocalDetector::None);
        let pair = ["--cluster-cidr", "fd00::/48,10.244.0.0/16"];
        let cidr = |text: &str| LocalDetector::Cidr(text.parse().unwrap());
        assert_eq!(four(&pair), cidr("10.244.0.0/16"));
        assert_eq!(config(Family::Ipv6, &pair).local, cidr("fd00::/48"));
        let node = ["--detect-local-mode", "nodecidr"];
        assert_eq!(four(&node), LocalDetector::NodeCidr);
        let bridge = [
            "--detect-local-mode=BridgeInterface",
            "--pod-bridge-interface=cni0",
        ];
        assert_eq!(four(&bridge), LocalDetector::Iifname("cni0".into()));
        assert_eq!(four(&bridge[..1]), LocalDetector::Iifname("".into()));
        let prefix = [
            "--detect-local-mode=InterfaceNamePrefix",
            "--pod-interface-name-prefix=veth",
        ];
        assert_eq!(four(&prefix), LocalDetector::IifnamePrefix("veth".into()));
        for wrong in [
            "--detect-local-mode=Magic",
            "--pod-bridge-interface=sixteen-bytes-xx",
            "--pod-interface-name-prefix=a/b",
        ] {
            assert!(Cli::try_parse_from(["kproxy", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn node_port_addresses_add_up() {
        let addresses = |words: &str| {
            let words = format!("--nodeport-addresses={words}");
            config(Family::Ipv4, &[&words]).node_port_addresses
        };
        assert_eq!(addresses("primary"), NodePortAddresses::PRIMARY);
        let default = config(Family::Ipv4, &[]).node_port_addresses;
        assert_eq!(default, NodePortAddresses::PRIMARY);
        let all = addresses("localhost,all,primary,10.1.2.3/8");
        assert!(all.primary && all.localhost && all.all);
        assert_eq!(all.prefixes, ["10.0.0.0/8".parse().unwrap()]);
    }

    #[test]
    fn affinity_and_missing_endpoints_are_as_asked() {
        let four = |args: &[&str]| config(Family::Ipv4, args);
        let default = four(&[]);
        assert_eq!(default.no_local_endpoint, NoLocalEndpoint::Drop);
        assert_eq!(default.max_affinity_clients, 1 << 18);
        let asked = four(&["--no-local-endpoint=reject", "--max-affinity-clients=7"]);
        assert_eq!(asked.no_local_endpoint, NoLocalEndpoint::Reject);
        assert_eq!(asked.max_affinity_clients, 7);
        for wrong in ["--no-local-endpoint=accept", "--max-affinity-clients=0"] {
            assert!(Cli::try_parse_from(["kproxy", wrong]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_node_there_is_no_name_to_guess() {
        let identity = |args: &[&str]| {
            let args = core::iter::once(&"kproxy").chain(args);
            Cli::try_parse_from(args).unwrap().proxy.identity()
        };
        let none = identity(&["--no-node"]);
        assert_eq!((none.name.as_str(), none.is_needed), ("", false));
        let named = identity(&["--no-node", "--node-name", " Node-A "]);
        assert_eq!(named.name, "node-a");
        assert_eq!(named.host(Vec::new()).count(), 2);
        let plain = identity(&[]);
        assert!(plain.is_needed && !plain.name.is_empty());
        assert_eq!(plain.host(Vec::new()).count(), 1);
    }
}
