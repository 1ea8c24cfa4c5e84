//! kube-proxy's flags, as `kube-proxy --help` of 1.37 lists them, and three of older releases.

use super::super::{Standing, fields};
use super::value::FlagKind;

/// One flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Without its dashes.
    pub name: &'static str,
    /// One letter that does the same.
    pub short: Option<char>,
    /// What it takes.
    pub kind: FlagKind,
    /// What it is for.
    pub target: Target,
    /// In a few words.
    pub help: &'static str,
}

/// What a flag is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// This field.
    Field(&'static str),
    /// `masqueradeAll` of the mode.
    MasqueradeAll,
    /// `syncPeriod` of mode ipvs, or of the other two.
    SyncPeriod {
        /// Of mode ipvs.
        ipvs: bool,
    },
    /// `minSyncPeriod` of mode ipvs, or of the other two.
    MinSyncPeriod {
        /// Of mode ipvs.
        ipvs: bool,
    },
    /// `hostnameOverride`, also with a file.
    HostnameOverride,
    /// The port of a listener whose address has none; deprecated.
    Port {
        /// The listener's field.
        address: &'static str,
    },
    /// What the process is to do, or how: not in the file.
    Process,
    /// Nothing: what it was for is no more.
    Nothing(&'static str),
}

impl Flag {
    /// What becomes of it.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.target {
            // The field does nothing, see there.
            Target::Field(path) if path.ends_with(".splitStream") => Standing::Works,
            Target::Field(path) => {
                let fields = fields();
                let field = fields.iter().find(|field| field.path == path);
                field.map_or(Standing::Works, |field| field.standing)
            }
            Target::Nothing(instead) => Standing::Accepted(instead),
            _ => Standing::Works,
        }
    }

    /// Is it listed by `--help`? Those that nobody should use any more are not.
    #[must_use]
    pub const fn is_shown(&self) -> bool {
        !matches!(self.target, Target::Port { .. } | Target::Nothing(_))
    }

    /// Does it count beside `--config`?
    #[must_use]
    pub fn counts_with_file(&self) -> bool {
        match self.target {
            Target::Field(path) => path.starts_with("logging."),
            Target::HostnameOverride | Target::Process | Target::Nothing(_) => true,
            _ => false,
        }
    }
}

/// kube-proxy's flags, by name.
pub const FLAGS: &[Flag] = &[
    field(
        "bind-address",
        FlagKind::Ip,
        "bindAddress",
        "The node's own address, instead of the first that its Node names. Nothing listens there",
    ),
    field(
        "bind-address-hard-fail",
        FlagKind::Bool,
        "bindAddressHardFail",
        "End when a page of health or metrics cannot be served, instead of trying again",
    ),
    nothing("boot-id-file", "kube-proxy does not read it either"),
    process(
        "cleanup",
        FlagKind::Bool,
        "Remove what was programmed, and what kube-proxy left in its modes, and exit",
    ),
    field(
        "cluster-cidr",
        FlagKind::Text,
        "clusterCIDR",
        "Range of the cluster's pods, or one of each IP family: CIDR[,CIDR]",
    ),
    process(
        "config",
        FlagKind::Text,
        "File with a KubeProxyConfiguration; changes are applied while it runs. Most flags do not count then",
    ),
    field(
        "config-sync-period",
        FlagKind::Duration,
        "configSyncPeriod",
        "In this time everything in the kernel is compared once with what it is to be",
    ),
    field(
        "conntrack-max-per-core",
        FlagKind::Int32,
        "conntrack.maxPerCore",
        "Entries of connection tracking per CPU; 0 leaves the kernel's limit",
    ),
    field(
        "conntrack-min",
        FlagKind::Int32,
        "conntrack.min",
        "Entries of connection tracking at least",
    ),
    field(
        "conntrack-tcp-be-liberal",
        FlagKind::Bool,
        "conntrack.tcpBeLiberal",
        "Take TCP packets outside their window for part of their connection",
    ),
    field(
        "conntrack-tcp-timeout-close-wait",
        FlagKind::Duration,
        "conntrack.tcpCloseWaitTimeout",
        "How long a TCP connection in state CLOSE_WAIT is kept; 0 leaves the kernel's time",
    ),
    field(
        "conntrack-tcp-timeout-established",
        FlagKind::Duration,
        "conntrack.tcpEstablishedTimeout",
        "How long an established TCP connection is kept; 0 leaves the kernel's time",
    ),
    field(
        "conntrack-udp-timeout",
        FlagKind::Duration,
        "conntrack.udpTimeout",
        "How long a UDP flow without an answer is kept; 0 leaves the kernel's time",
    ),
    field(
        "conntrack-udp-timeout-stream",
        FlagKind::Duration,
        "conntrack.udpStreamTimeout",
        "How long a UDP flow with answers is kept; 0 leaves the kernel's time",
    ),
    field(
        "detect-local-mode",
        FlagKind::Text,
        "detectLocalMode",
        "What local traffic is told by: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix",
    ),
    field(
        "feature-gates",
        FlagKind::Gates,
        "featureGates",
        "Switches; docs/CONFIGURATION.md lists those that change something",
    ),
    field(
        "healthz-bind-address",
        FlagKind::IpPort,
        "healthzBindAddress",
        "Where /healthz, /livez and /readyz are served; empty: nowhere",
    ),
    port("healthz-port", "healthzBindAddress"),
    Flag {
        name: "hostname-override",
        short: None,
        kind: FlagKind::Text,
        target: Target::HostnameOverride,
        help: "Name of this node's Node object, instead of the host name; wins over the file",
    },
    process(
        "init-only",
        FlagKind::Bool,
        "Set up what needs privileges, and exit; the proxy then needs CAP_NET_ADMIN alone",
    ),
    field(
        "iptables-localhost-nodeports",
        FlagKind::Bool,
        "iptables.localhostNodePorts",
        "Node ports at loopback addresses",
    ),
    field(
        "iptables-masquerade-bit",
        FlagKind::Int32,
        "iptables.masqueradeBit",
        "Bit of the packet mark that asks for masquerading, in modes iptables and ipvs",
    ),
    period(
        "iptables-min-sync-period",
        Target::MinSyncPeriod { ipvs: false },
        "Shortest time between two syncs, in modes iptables and nftables",
    ),
    period(
        "iptables-sync-period",
        Target::SyncPeriod { ipvs: false },
        "Longest pause after a failed sync, in modes iptables and nftables",
    ),
    field(
        "ipvs-exclude-cidrs",
        FlagKind::Texts,
        "ipvs.excludeCIDRs",
        "Ranges whose IPVS services are left alone when what kube-proxy left is removed",
    ),
    period(
        "ipvs-min-sync-period",
        Target::MinSyncPeriod { ipvs: true },
        "Shortest time between two syncs, in mode ipvs",
    ),
    field(
        "ipvs-scheduler",
        FlagKind::Text,
        "ipvs.scheduler",
        "How IPVS picks endpoints",
    ),
    field(
        "ipvs-strict-arp",
        FlagKind::Bool,
        "ipvs.strictARP",
        "Answer ARP for own addresses only",
    ),
    period(
        "ipvs-sync-period",
        Target::SyncPeriod { ipvs: true },
        "Longest pause after a failed sync, in mode ipvs",
    ),
    field(
        "ipvs-tcp-timeout",
        FlagKind::Duration,
        "ipvs.tcpTimeout",
        "Of idle TCP connections of IPVS",
    ),
    field(
        "ipvs-tcpfin-timeout",
        FlagKind::Duration,
        "ipvs.tcpFinTimeout",
        "Of TCP connections of IPVS after a FIN",
    ),
    field(
        "ipvs-udp-timeout",
        FlagKind::Duration,
        "ipvs.udpTimeout",
        "Of UDP packets of IPVS",
    ),
    field(
        "kube-api-burst",
        FlagKind::Int32,
        "clientConnection.burst",
        "Requests to the API server at once",
    ),
    field(
        "kube-api-content-type",
        FlagKind::Text,
        "clientConnection.contentType",
        "How objects are to be encoded",
    ),
    field(
        "kube-api-qps",
        FlagKind::Float32,
        "clientConnection.qps",
        "Requests to the API server per second, in the long run",
    ),
    field(
        "kubeconfig",
        FlagKind::Text,
        "clientConnection.kubeconfig",
        "How to reach the API server, and as whom; without it (and --master) as the Pod",
    ),
    field(
        "log-flush-frequency",
        FlagKind::Duration,
        "logging.flushFrequency",
        "How long lines of the log may wait",
    ),
    field(
        "log-json-info-buffer-size",
        FlagKind::Quantity,
        "logging.options.json.infoBufferSize",
        "How many bytes of lines may wait, in format json",
    ),
    field(
        "log-json-split-stream",
        FlagKind::Bool,
        "logging.options.json.splitStream",
        "Errors to standard error, the rest to standard output, in format json (gate LoggingAlphaOptions)",
    ),
    field(
        "log-text-info-buffer-size",
        FlagKind::Quantity,
        "logging.options.text.infoBufferSize",
        "How many bytes of lines may wait, in format text",
    ),
    field(
        "log-text-split-stream",
        FlagKind::Bool,
        "logging.options.text.splitStream",
        "Errors to standard error, the rest to standard output, in format text (gate LoggingAlphaOptions)",
    ),
    field(
        "logging-format",
        FlagKind::Text,
        "logging.format",
        "text or json",
    ),
    nothing("machine-id-file", "kube-proxy does not read it either"),
    Flag {
        name: "masquerade-all",
        short: None,
        kind: FlagKind::Bool,
        target: Target::MasqueradeAll,
        help: "Masquerade all traffic to ClusterIPs",
    },
    process(
        "master",
        FlagKind::Text,
        "URL of the API server, instead of the one in the kubeconfig",
    ),
    field(
        "metrics-bind-address",
        FlagKind::IpPort,
        "metricsBindAddress",
        "Where /metrics, /proxyMode and /configz are served; empty: nowhere",
    ),
    port("metrics-port", "metricsBindAddress"),
    field(
        "nodeport-addresses",
        FlagKind::Texts,
        "nodePortAddresses",
        "Where node ports are served: primary, localhost, all, or ranges",
    ),
    field(
        "oom-score-adj",
        FlagKind::Int32,
        "oomScoreAdj",
        "How likely the kernel ends the process when memory runs out, -1000 to 1000",
    ),
    field(
        "pod-bridge-interface",
        FlagKind::Text,
        "detectLocal.bridgeInterface",
        "The bridge that this node's pods are on",
    ),
    field(
        "pod-interface-name-prefix",
        FlagKind::Text,
        "detectLocal.interfaceNamePrefix",
        "How the names of this node's pods' interfaces begin",
    ),
    field(
        "profiling",
        FlagKind::Bool,
        "enableProfiling",
        "Profiles over HTTP",
    ),
    field(
        "proxy-mode",
        FlagKind::Text,
        "mode",
        "nftables, iptables or ipvs: which settings are read; rules are nf_tables' always",
    ),
    nothing(
        "proxy-port-range",
        "it was for mode userspace, which is no more",
    ),
    field(
        "show-hidden-metrics-for-version",
        FlagKind::Text,
        "showHiddenMetricsForVersion",
        "Show metrics that were hidden since",
    ),
    Flag {
        name: "v",
        short: Some('v'),
        kind: FlagKind::Level,
        target: Target::Field("logging.verbosity"),
        help: "How much is logged: 0 little, 2 each sync, 4 details",
    },
    process(
        "version",
        FlagKind::Text,
        "Print the version and exit; raw prints it in parts",
    ),
    field(
        "vmodule",
        FlagKind::Levels,
        "logging.vmodule",
        "How much some source files log",
    ),
    process(
        "write-config-to",
        FlagKind::Text,
        "Write the configuration in effect to this file and exit",
    ),
];

const fn field(name: &'static str, kind: FlagKind, path: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind,
        target: Target::Field(path),
        help,
    }
}

const fn period(name: &'static str, target: Target, help: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind: FlagKind::Duration,
        target,
        help,
    }
}

const fn port(name: &'static str, address: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind: FlagKind::Int32,
        target: Target::Port { address },
        help: "Deprecated: the port, if the address has none; 0: nowhere",
    }
}

const fn process(name: &'static str, kind: FlagKind, help: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind,
        target: Target::Process,
        help,
    }
}

const fn nothing(name: &'static str, instead: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind: FlagKind::Text,
        target: Target::Nothing(instead),
        help: "Of older releases",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_ordered_and_name_fields_that_exist() {
        assert!(FLAGS.is_sorted_by_key(|flag| flag.name));
        let fields = fields();
        for flag in FLAGS {
            let (Target::Field(path) | Target::Port { address: path }) = flag.target else {
                continue;
            };
            let exists = fields.iter().any(|field| {
                let rest = field.path.strip_prefix(path);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            });
            assert!(exists, "{}: {path}", flag.name);
        }
    }
}
