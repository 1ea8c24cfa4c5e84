//! A cluster as input of the `nft` program, in the shape that suits `nft` best: shared dispatch
//! chains and one endpoints map, a constant number of sets.

use std::io::{self, Write};

use crate::cluster::Cluster;

const BASE_CHAINS: &[(&str, &str)] = &[
    (
        "filter-prerouting-pre-dnat",
        "type filter hook prerouting priority -110 ;",
    ),
    (
        "filter-output-pre-dnat",
        "type filter hook output priority -110 ;",
    ),
    ("filter-input", "type filter hook input priority 0 ;"),
    ("filter-forward", "type filter hook forward priority 0 ;"),
    ("filter-output", "type filter hook output priority 0 ;"),
    ("nat-prerouting", "type nat hook prerouting priority -100 ;"),
    ("nat-output", "type nat hook output priority -100 ;"),
    (
        "nat-postrouting",
        "type nat hook postrouting priority 100 ;",
    ),
];

const RULES: &[(&str, &str)] = &[
    ("filter-input", "ct state new jump service-endpoints-check"),
    (
        "filter-forward",
        "ct state new jump service-endpoints-check",
    ),
    ("filter-forward", "ct state new jump cluster-ips-check"),
    ("filter-output", "ct state new jump service-endpoints-check"),
    ("filter-output", "ct state new jump cluster-ips-check"),
    ("nat-prerouting", "jump services"),
    ("nat-output", "jump services"),
    ("nat-postrouting", "jump masquerading"),
    (
        "service-endpoints-check",
        "ip daddr . meta l4proto . th dport vmap @no-endpoint-services",
    ),
    (
        "services",
        "ip daddr @cluster-ips ip saddr != 10.244.0.0/16 meta mark set mark or 0x4000",
    ),
    (
        "services",
        "ip daddr . meta l4proto . th dport vmap @service-ips",
    ),
    (
        "masquerading",
        "meta mark & 0x4000 != 0 meta mark set mark xor 0x4000 masquerade fully-random",
    ),
    (
        "masquerading",
        "ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections \
         masquerade fully-random",
    ),
    ("cluster-ips-check", "ip daddr @cluster-ips reject"),
    ("cluster-ips-check", "ip daddr 10.96.0.0/12 drop"),
];

/// Writes the whole ruleset.
///
/// # Errors
/// Those of `out`.
pub fn write(cluster: Cluster, out: &mut impl Write) -> io::Result<()> {
    const T: &str = "ip kube-proxy";
    let n = cluster.endpoints;
    writeln!(
        out,
        "add table {T} {{ comment \"rules for kube-proxy\" ; }}"
    )?;
    for (chain, hook) in BASE_CHAINS {
        writeln!(out, "add chain {T} {chain} {{ {hook} }}")?;
    }
    for chain in [
        "service-endpoints-check",
        "services",
        "masquerading",
        "cluster-ips-check",
    ] {
        writeln!(out, "add chain {T} {chain}")?;
    }
    let frontend = "ipv4_addr . inet_proto . inet_service";
    writeln!(out, "add set {T} cluster-ips {{ type ipv4_addr ; }}")?;
    writeln!(
        out,
        "add set {T} hairpin-connections {{ type ipv4_addr . {frontend} ; }}"
    )?;
    writeln!(
        out,
        "add map {T} no-endpoint-services {{ type {frontend} : verdict ; }}"
    )?;
    writeln!(
        out,
        "add map {T} service-ips {{ type {frontend} : verdict ; }}"
    )?;
    writeln!(
        out,
        "add map {T} endpoints {{ type {frontend} . mark : ipv4_addr . inet_service ; }}"
    )?;
    for (chain, rule) in RULES {
        writeln!(out, "add rule {T} {chain} {rule}")?;
    }
    writeln!(out, "add chain {T} dispatch-{n}")?;
    writeln!(
        out,
        "add rule {T} dispatch-{n} ct mark set numgen random mod {n} dnat ip addr . port to \
         ip daddr . meta l4proto . th dport . ct mark map @endpoints"
    )?;
    for i in 0..cluster.services {
        let ip = cluster.cluster_ip(i);
        writeln!(out, "add element {T} cluster-ips {{ {ip} }}")?;
        writeln!(
            out,
            "add element {T} service-ips {{ {ip} . tcp . 80 : goto dispatch-{n} }}"
        )?;
        for j in 0..n {
            let endpoint = cluster.endpoint(i, j);
            writeln!(
                out,
                "add element {T} endpoints {{ {ip} . tcp . 80 . {j} : {endpoint} . 8080 }}"
            )?;
        }
    }
    Ok(())
}
