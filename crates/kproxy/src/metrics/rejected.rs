//! Packets to node ports at loopback addresses that were rejected: the counters of the rules that do it.

use core::fmt;
use std::collections::BTreeMap;

use nft_batch::{Connection, Errno};
use nl_codec::nft::expr::Expr;
use nl_codec::nft::{Data, Rule};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use svc_planner::object::Protocol;
use svc_planner::plan::Family;

use crate::engine::TABLE;
use crate::family::FAMILIES;
use crate::health::family_label;
use crate::lower::nf_family;

/// The only chain with such rules (`svc-planner/src/kernel/layout.rs`), a handful.
const CHAIN: &str = "nodeport-endpoints-check";
const PROTOCOLS: [(Protocol, &str); 3] = [
    (Protocol::Tcp, "TCP"),
    (Protocol::Udp, "UDP"),
    (Protocol::Sctp, "SCTP"),
];

/// Reads the counters, in the calling thread's network namespace. What cannot be read has no series.
pub(super) fn encode(to: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let mut metric = to.encode_descriptor(
        "kubeproxy_nftables_localhost_nodeport_rejected_packets",
        "Packets rejected at node ports of loopback addresses: of UDP and SCTP always, of TCP unless \
         somebody listens there",
        None,
        MetricType::Counter,
    )?;
    for family in FAMILIES {
        let counts = match read(family) {
            Ok(counts) => counts,
            Err(error) => {
                tracing::debug!("rejected packets of {family} cannot be counted: {error}");
                continue;
            }
        };
        for (protocol, packets) in counts {
            let labels = [("ip_family", family_label(family)), ("protocol", protocol)];
            ConstCounter::new(packets).encode(metric.encode_family(&labels)?)?;
        }
    }
    Ok(())
}

/// Packets by protocol, of those protocols that are rejected. The kernel answers at once.
fn read(family: Family) -> Result<BTreeMap<&'static str, u64>, String> {
    let mut counts = BTreeMap::new();
    let mut connection = Connection::open().map_err(|error| error.to_string())?;
    let dumped = connection.dump_rules(nf_family(family), TABLE, Some(CHAIN), |rule| {
        if let Some((protocol, packets)) = counted(rule) {
            let count = counts.entry(protocol).or_insert(0_u64);
            *count = count.saturating_add(packets);
        }
    });
    match dumped {
        // Not programmed yet.
        Err(error) if error.errno() != Some(Errno::ENOENT) => Err(error.to_string()),
        _ => Ok(counts),
    }
}

/// What a rule counts, if it is one of those: `meta l4proto PROTOCOL … counter … reject`.
fn counted(rule: &Rule<'_>) -> Option<(&'static str, u64)> {
    let mut protocol = None;
    for expr in rule.exprs?.iter().flatten() {
        match expr {
            Expr::Cmp(cmp) if protocol.is_none() => {
                let Some(Data::Value(value)) = cmp.data else {
                    return None;
                };
                let &[number] = value.as_bytes() else {
                    return None;
                };
                protocol = PROTOCOLS.iter().find(|(it, _)| *it as u8 == number);
                protocol?;
            }
            Expr::Counter(counter) => {
                let (_, name) = protocol?;
                return Some((name, counter.packets.unwrap_or(0)));
            }
            _ => {}
        }
    }
    None
}
