//! Options of more than one command.

use core::hash::BuildHasher as _;
use std::hash::RandomState;
use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::{ArgAction, Args};
use ipnet::IpNet;
use svc_planner::Config;
use svc_planner::config::{LocalDetector, NodePortAddresses};
use svc_planner::plan::Family;
use tracing_subscriber::filter::LevelFilter;

use super::{Format, Printer};
use crate::engine::{EngineError, KernelVersion, Netns, STATE_DIR, StateDir, kernel_version};

/// Where to work.
#[derive(Debug, Args)]
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
            1 => LevelFilter::INFO,
            2 => LevelFilter::DEBUG,
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
    #[arg(long, value_name = "NAME")]
    node_name: Option<String>,

    /// Range of the cluster's pods, one per IP family, separated by a comma (of several of a family
    /// the first counts): traffic from elsewhere to ClusterIPs is masqueraded
    #[arg(long, value_name = "CIDR", value_delimiter = ',')]
    cluster_cidr: Vec<IpNet>,

    /// Masquerade all traffic to ClusterIPs
    #[arg(long)]
    masquerade_all: bool,

    /// Bit of the packet mark that asks for masquerading
    #[arg(long, value_name = "0-31", default_value_t = 14,
          value_parser = clap::value_parser!(u8).range(0..=31))]
    masquerade_bit: u8,

    /// Where node ports are served: `primary` (the node's own address), `all`, or prefixes
    #[arg(long, value_name = "primary|all|CIDR,…", value_delimiter = ',')]
    nodeport_addresses: Vec<NodePortAddress>,

    /// Folder that remembers from one start to the next what the rows in the kernel stand for;
    /// without it each start programs everything anew, beside what is there
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    state_dir: PathBuf,
}

impl ProxyOptions {
    /// Name of the own Node.
    #[must_use]
    pub fn node_name(&self) -> String {
        match &self.node_name {
            Some(name) => name.trim().to_lowercase(),
            None => {
                let uname = rustix::system::uname();
                uname.nodename().to_string_lossy().to_lowercase()
            }
        }
    }

    /// What an earlier process left behind for `netns`; `None` where it cannot be kept.
    ///
    /// # Errors
    /// [`EngineError::Busy`] while another process is at work there.
    pub(super) fn state(&self, netns: &Netns) -> Result<Option<StateDir>, EngineError> {
        match StateDir::open(&self.state_dir, netns) {
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
    /// [`EngineError::Netns`], [`EngineError::State`].
    pub(super) fn state_to_read(&self, netns: &Netns) -> Result<StateDir, EngineError> {
        StateDir::look(&self.state_dir, netns)
    }

    /// The planner's settings for `family`.
    #[must_use]
    pub fn config(&self, family: Family) -> Config {
        let ours = |net: &&IpNet| match family {
            Family::Ipv4 => net.addr().is_ipv4(),
            Family::Ipv6 => net.addr().is_ipv6(),
        };
        let pods = self.cluster_cidr.iter().find(ours);
        Config {
            node_name: self.node_name().into(),
            masquerade_all: self.masquerade_all,
            masquerade_bit: self.masquerade_bit,
            local: pods.map_or(LocalDetector::None, |net| LocalDetector::Cidr(net.trunc())),
            node_port_addresses: NodePortAddress::all(&self.nodeport_addresses),
            repeat_lookup: kernel_version()
                .is_some_and(|version| version < KernelVersion::LOOKUPS_RESTART),
            instance: instance(),
            ..Config::default()
        }
    }
}

/// A number that differs from one start to the next.
fn instance() -> u32 {
    let random = RandomState::new()
        .hash_one(std::process::id())
        .to_ne_bytes();
    u32::from_ne_bytes([random[0], random[1], random[2], random[3]])
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum NodePortAddress {
    Primary,
    All,
    Prefix(IpNet),
}

impl NodePortAddress {
    fn all(words: &[Self]) -> NodePortAddresses {
        let prefixes: Vec<_> = words
            .iter()
            .filter_map(|word| match word {
                Self::Prefix(net) => Some(net.trunc()),
                _ => None,
            })
            .collect();
        if words.contains(&Self::All) {
            NodePortAddresses::All
        } else if prefixes.is_empty() {
            NodePortAddresses::Primary
        } else {
            NodePortAddresses::Prefixes(prefixes)
        }
    }
}

impl core::str::FromStr for NodePortAddress {
    type Err = ipnet::AddrParseError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "primary" => Ok(Self::Primary),
            "all" => Ok(Self::All),
            prefix => prefix.parse().map(Self::Prefix),
        }
    }
}
