//! Whether an entry is stale: would its next packet go elsewhere if it were the first?

use super::{Entry, Frontends};
use svc_planner::object::Protocol;

/// Whether `entry` is stale.
///
/// | its destination | stale if |
/// |---|---|
/// | is a UDP frontend | nobody who serves that serves it: another endpoint, a former one, or never translated |
/// | came from a ClusterIP's port that is a UDP frontend | never translated: a reply made it, and is no reply any more |
/// | was one until lately | one of its former endpoints serves it; at an address also: never translated |
/// | is a TCP address or node port since lately | never translated, and nothing but a SYN was seen |
/// | is anything else | never |
///
/// A node port is meant only at an address of this host that serves node ports, or did until lately;
/// of one that is none any more, untranslated entries may be those of a process of the host.
/// Entries outside the default zone that were never translated may be another program's view of a
/// connection, and are left alone.
#[must_use]
pub fn verdict(frontends: &Frontends, entry: &Entry) -> bool {
    let untranslated = entry.is_untranslated();
    if untranslated && !entry.default_zone {
        return false;
    }
    if entry.protocol == Protocol::Tcp {
        return untranslated && entry.syn_sent && frontends.is_new(entry.to);
    }
    if let Some(serving) = frontends.serving(entry.protocol, entry.to) {
        return serving.binary_search(&entry.served_by).is_err();
    }
    if untranslated
        && entry.is_source_untranslated()
        && frontends.is_cluster_ip(entry.protocol, entry.from)
    {
        return true;
    }
    frontends
        .former(entry.protocol, entry.to)
        .is_some_and(|former| {
            former.endpoints.contains(&entry.served_by) || (untranslated && !former.is_node_port)
        })
}

#[cfg(test)]
mod tests;
