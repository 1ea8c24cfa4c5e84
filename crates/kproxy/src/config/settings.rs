//! From a checked configuration to what the proxy of a node is told.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use svc_planner::Config;
use svc_planner::config::{LocalDetector, LocalhostNodePorts, NodePortAddresses};
use svc_planner::plan::Family;

use super::{GoDuration, KubeProxyConfiguration, LocalMode, Mode, address};
use crate::apiserver::ConnectionOptions;
use crate::engine::GuardOptions;
use crate::leftovers;
use crate::node::{Identity, SiteSettings, host_name};
use crate::proxy::Periods;
use crate::startup::{self, ConntrackSettings};

impl KubeProxyConfiguration {
    /// How the API server is reached; `master` is its URL, if that is given.
    #[must_use]
    pub fn connection(&self, master: Option<&str>) -> ConnectionOptions {
        let client = &self.client_connection;
        let kubeconfig = Some(&client.kubeconfig).filter(|path| !path.is_empty());
        ConnectionOptions {
            kubeconfig: kubeconfig.map(PathBuf::from),
            master: master.map(str::to_owned),
            accept_content_types: client.accept_content_types.clone(),
            content_type: client.content_type.clone(),
            qps: client.qps,
            burst: client.burst,
        }
    }

    /// What needs privileges to be set up.
    #[must_use]
    pub fn startup(&self) -> startup::Settings {
        let conntrack = &self.conntrack;
        let count = |count: Option<i32>| count.and_then(|count| count.try_into().ok());
        let time = |time: Option<GoDuration>| time.unwrap_or_default().or_zero();
        startup::Settings {
            conntrack: ConntrackSettings {
                max_per_core: count(conntrack.max_per_core).unwrap_or_default(),
                min: count(conntrack.min).unwrap_or_default(),
                tcp_established_timeout: time(conntrack.tcp_established_timeout),
                tcp_close_wait_timeout: time(conntrack.tcp_close_wait_timeout),
                tcp_be_liberal: conntrack.tcp_be_liberal,
                udp_timeout: conntrack.udp_timeout.or_zero(),
                udp_stream_timeout: conntrack.udp_stream_timeout.or_zero(),
            },
            oom_score_adj: self.oom_score_adj.and_then(|score| score.try_into().ok()),
        }
    }

    /// How to treat what kube-proxy left in the mode that the configuration is for.
    #[must_use]
    pub fn leftovers(&self, base: leftovers::Options) -> leftovers::Options {
        let exclude = self.ipvs.exclude_cidrs.iter().flatten();
        leftovers::Options {
            expected: self.effective_mode() != Mode::Nftables,
            exclude: exclude.filter_map(|range| address::cidr(range)).collect(),
            ..base
        }
    }

    /// Which Node this host is.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let name = self.hostname_override.trim();
        Identity {
            name: if name.is_empty() {
                host_name()
            } else {
                name.to_lowercase()
            },
            is_needed: true,
            is_named: true,
        }
    }

    /// What a family is planned by; `base` has what kube-proxy has no name for.
    #[must_use]
    pub fn planner(&self, family: Family, base: Config) -> Config {
        let mode = self.effective_mode();
        let node_ports = self.node_ports();
        let bit = self.masquerade_bit(mode).unwrap_or(14);
        Config {
            node_name: self.identity().name.into(),
            masquerade_all: self.masquerade_all(mode),
            masquerade_bit: u8::try_from(bit).unwrap_or(14),
            local: self.local_detector(family),
            bind_address: address::ip(&self.bind_address).filter(|ip| !ip.is_unspecified()),
            localhost_node_ports: localhost_node_ports(
                self.feature_gates.localhost_node_ports(),
                &node_ports,
                family,
            ),
            node_port_addresses: node_ports,
            external_ips: self.feature_gates.external_ips(),
            ..base
        }
    }

    /// How often to program.
    #[must_use]
    pub fn periods(&self) -> Periods {
        let (sync, min_sync) = self.periods_of_mode();
        Periods {
            min_sync: min_sync.or_zero(),
            sync: sync.or_zero(),
        }
    }

    /// How to look after the tables: in a `configSyncPeriod` all rows are compared with what they are to be.
    #[must_use]
    pub fn guard(&self) -> GuardOptions {
        GuardOptions {
            pass: self.config_sync_period.or_zero(),
            ..GuardOptions::default()
        }
    }

    /// Where to tell how it is doing.
    #[must_use]
    pub fn sites(&self) -> SiteSettings {
        SiteSettings {
            healthz: address::socket(&self.healthz_bind_address),
            metrics: address::socket(&self.metrics_bind_address),
            gates: self.feature_gates.clone(),
            ..SiteSettings::default()
        }
    }

    fn local_detector(&self, family: Family) -> LocalDetector {
        match LocalMode::of(&self.detect_local_mode) {
            Some(LocalMode::ClusterCidr) | None => {
                let mut cidrs = self.cluster_cidr.split(',').filter_map(address::cidr);
                let ours = cidrs.find(|net| Family::of(net.addr()) == family);
                ours.map_or(LocalDetector::None, |net| LocalDetector::Cidr(net.trunc()))
            }
            Some(LocalMode::NodeCidr) => LocalDetector::NodeCidr,
            Some(LocalMode::BridgeInterface) => {
                LocalDetector::Iifname(self.detect_local.bridge_interface.as_str().into())
            }
            Some(LocalMode::InterfaceNamePrefix) => LocalDetector::IifnamePrefix(
                self.detect_local.interface_name_prefix.as_str().into(),
            ),
        }
    }

    /// Nothing said means all addresses, but in mode nftables.
    fn node_ports(&self) -> NodePortAddresses {
        let words = self.node_port_addresses.as_deref().unwrap_or_default();
        if words.is_empty() {
            return match self.effective_mode() {
                Mode::Nftables => NodePortAddresses::PRIMARY,
                Mode::Iptables | Mode::Ipvs => NodePortAddresses::ALL,
            };
        }
        let mut addresses = NodePortAddresses::NONE;
        for word in words {
            match word.as_str() {
                "primary" => addresses.primary = true,
                "all" => addresses.all = true,
                "localhost" => addresses.localhost = true,
                range => addresses
                    .prefixes
                    .extend(address::cidr(range).map(|net| net.trunc())),
            }
        }
        addresses
    }
}

/// What becomes of node ports at loopback addresses. `all` and 0.0.0.0/0 do not name these.
#[must_use]
pub fn localhost_node_ports(
    gate: bool,
    addresses: &NodePortAddresses,
    family: Family,
) -> LocalhostNodePorts {
    let loopback: IpNet = match family {
        Family::Ipv4 => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
        Family::Ipv6 => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
    };
    let mut prefixes = addresses.prefixes.iter();
    if !gate {
        LocalhostNodePorts::Off
    } else if addresses.localhost || prefixes.any(|net| loopback.contains(net)) {
        LocalhostNodePorts::Proxied
    } else {
        LocalhostNodePorts::Rejected
    }
}
