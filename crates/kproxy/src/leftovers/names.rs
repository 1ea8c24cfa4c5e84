//! What kube-proxy's modes `iptables` and `ipvs` name their things: all that is ever removed has one of
//! these names. The lists are those of kube-proxy's own clean-up (`pkg/proxy/iptables/cleanup.go`,
//! `pkg/proxy/ipvs/cleanup.go`, 1.37) and of what older releases made.
//!
//! The kubelet's chains begin with `KUBE-`, too, and are none of these: `KUBE-FIREWALL`,
//! `KUBE-KUBELET-CANARY`, `KUBE-IPTABLES-HINT`, `KUBE-MARK-DROP`.

use core::fmt;

/// A table of iptables in which kube-proxy has chains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Table {
    /// `nat`.
    Nat,
    /// `filter`.
    Filter,
    /// `mangle`.
    Mangle,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Nat, Self::Filter, Self::Mangle];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Filter => "filter",
            Self::Mangle => "mangle",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Whether a chain of this table is kube-proxy's.
    #[must_use]
    pub fn holds(self, chain: &str) -> bool {
        let (names, prefixes): (&[&str], &[&str]) = match self {
            Self::Nat => (&NAT_CHAINS, &NAT_PREFIXES),
            Self::Filter => (&FILTER_CHAINS, &[]),
            Self::Mangle => (&MANGLE_CHAINS, &[]),
        };
        names.contains(&chain) || prefixes.iter().any(|prefix| chain.starts_with(prefix))
    }

    /// Whether a rule of the built-in chain `from` that jumps to `to` is kube-proxy's.
    pub(super) fn holds_jump(self, from: &str, to: &str) -> bool {
        BUILT_IN.contains(&from) && self.holds(to) && JUMPED_TO.contains(&to)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const NAT_CHAINS: [&str; 7] = [
    "KUBE-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    MARK,
    "KUBE-PROXY-CANARY",
    "KUBE-NODE-PORT",
    "KUBE-LOAD-BALANCER",
];
/// For each Service, endpoint and firewall; `XLB` up to 1.23.
const NAT_PREFIXES: [&str; 6] = [
    "KUBE-SVC-",
    "KUBE-SVL-",
    "KUBE-SEP-",
    "KUBE-FW-",
    "KUBE-EXT-",
    "KUBE-XLB-",
];
const FILTER_CHAINS: [&str; 10] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-FORWARD",
    "KUBE-NODEPORTS",
    "KUBE-PROXY-FIREWALL",
    "KUBE-PROXY-CANARY",
    "KUBE-NODE-PORT",
    "KUBE-SOURCE-RANGES-FIREWALL",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
];
const MANGLE_CHAINS: [&str; 1] = ["KUBE-PROXY-CANARY"];

/// Sets the mark that asks for masquerading. Others jump there, too (the CNI plugin `portmap`); while
/// they do, it stays as it is. It takes no packets.
pub(super) const MARK: &str = "KUBE-MARK-MASQ";

const BUILT_IN: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// Where kube-proxy jumps to from built-in chains (`iptablesJumpChains`, `iptablesJumpChain`).
const JUMPED_TO: [&str; 9] = [
    "KUBE-SERVICES",
    "KUBE-EXTERNAL-SERVICES",
    "KUBE-NODEPORTS",
    "KUBE-POSTROUTING",
    "KUBE-FORWARD",
    "KUBE-PROXY-FIREWALL",
    "KUBE-NODE-PORT",
    "KUBE-IPVS-FILTER",
    "KUBE-IPVS-OUT-FILTER",
];

/// The kubelet's chains that say which kind of iptables the node uses (KEP-3178).
pub(super) const KUBELET_HINTS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

/// The link that has the Services' addresses in mode `ipvs`.
pub const IPVS_LINK: &str = "kube-ipvs0";

/// The sets of mode `ipvs` (`pkg/proxy/ipvs/ipset.go`), for IPv4; for IPv6 `KUBE-6-…`.
const IP_SETS: [&str; 19] = [
    "KUBE-LOOP-BACK",
    "KUBE-CLUSTER-IP",
    "KUBE-EXTERNAL-IP",
    "KUBE-EXTERNAL-IP-LOCAL",
    "KUBE-LOAD-BALANCER",
    "KUBE-LOAD-BALANCER-FW",
    "KUBE-LOAD-BALANCER-LOCAL",
    "KUBE-LOAD-BALANCER-SOURCE-IP",
    "KUBE-LOAD-BALANCER-SOURCE-CIDR",
    "KUBE-NODE-PORT-TCP",
    "KUBE-NODE-PORT-LOCAL-TCP",
    "KUBE-NODE-PORT-UDP",
    "KUBE-NODE-PORT-LOCAL-UDP",
    "KUBE-NODE-PORT-SCTP",
    "KUBE-NODE-PORT-LOCAL-SCTP",
    "KUBE-NODE-PORT-SCTP-HASH",
    "KUBE-NODE-PORT-LOCAL-SCTP-HASH",
    "KUBE-HEALTH-CHECK-NODE-PORT",
    "KUBE-IPVS-IPS",
];

/// linux/netfilter/ipset/ip_set.h: `IPSET_MAXNAMELEN` - 1; kube-proxy cuts what is longer.
const IP_SET_NAME_MAX: usize = 31;

/// Names of the sets that kube-proxy makes in mode `ipvs`, for both families.
pub(super) fn ip_sets() -> impl Iterator<Item = String> {
    IP_SETS.iter().flat_map(|name| {
        let mut six = name.replacen("KUBE-", "KUBE-6-", 1);
        six.truncate(IP_SET_NAME_MAX);
        [(*name).to_owned(), six]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubelets_chains_and_those_of_others_are_not_kube_proxys() {
        for table in Table::ALL {
            for chain in [
                "KUBE-FIREWALL",
                "KUBE-KUBELET-CANARY",
                "KUBE-IPTABLES-HINT",
                "KUBE-MARK-DROP",
                "KUBE-ROUTER-FORWARD",
                "KUBE-POD-FW-ABC",
                "CNI-HOSTPORT-DNAT",
                "DOCKER",
                "PREROUTING",
                "kube-services",
                "",
            ] {
                assert!(!table.holds(chain), "{table} {chain}");
            }
        }
    }

    #[test]
    fn chains_belong_to_their_tables() {
        assert!(Table::Nat.holds("KUBE-SVC-ERIFXISQEP7F7OF4"));
        assert!(!Table::Filter.holds("KUBE-SVC-ERIFXISQEP7F7OF4"));
        assert!(Table::Filter.holds("KUBE-FORWARD") && !Table::Nat.holds("KUBE-FORWARD"));
        assert!(Table::Mangle.holds("KUBE-PROXY-CANARY"));
        assert!(!Table::Mangle.holds("KUBE-SERVICES"));
    }

    #[test]
    fn only_kube_proxys_own_jumps_are() {
        assert!(Table::Nat.holds_jump("PREROUTING", "KUBE-SERVICES"));
        assert!(
            !Table::Nat.holds_jump("CNI-X", "KUBE-SERVICES"),
            "another's chain"
        );
        assert!(
            !Table::Nat.holds_jump("PREROUTING", MARK),
            "kube-proxy marks from its own chains"
        );
        assert!(!Table::Filter.holds_jump("INPUT", "KUBE-FIREWALL"));
    }

    #[test]
    fn names_fit_into_the_kernels_field() {
        assert!(ip_sets().all(|name| name.len() <= IP_SET_NAME_MAX));
        assert!(ip_sets().any(|name| name == "KUBE-6-NODE-PORT-LOCAL-SCTP-HAS"));
        assert_eq!(ip_sets().count(), 38);
        assert!(ip_sets().any(|name| name == "KUBE-6-CLUSTER-IP"));
    }
}
