//! Topology hints: which ready endpoints are near enough.
//!
//! Hints come from the EndpointSlice controller; the proxy follows them only when every ready
//! endpoint has one and at least one names this node or zone (KEP-2433, KEP-3015).

use super::endpoint_selection::Candidate;
use crate::model::arena::NONE;
use crate::model::interner::Interner;
use crate::model::slice::{Flags, matches_zone};

/// Which ready endpoints are to be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nearness<'a> {
    /// Those hinted for the own node.
    SameNode,
    /// Those hinted for this zone.
    SameZone(&'a str),
    /// All.
    Any,
}

impl<'a> Nearness<'a> {
    pub(super) fn of(candidates: &[Candidate], zone: Option<&'a str>, names: &Interner) -> Self {
        let ready = || candidates.iter().filter(|c| c.is_ready());
        let in_use = |nearness: Self| ready().any(|c| nearness.admits(c, names));
        if ready().all(|c| c.flags.has(Flags::NODE_HINT)) && in_use(Self::SameNode) {
            return Self::SameNode;
        }
        match zone.map(Self::SameZone) {
            Some(zone) if ready().all(|c| c.zones != NONE) && in_use(zone) => zone,
            _ => Self::Any,
        }
    }

    pub(super) fn admits(self, candidate: &Candidate, names: &Interner) -> bool {
        match self {
            Self::SameNode => candidate.flags.has(Flags::OWN_NODE_HINT),
            Self::SameZone(zone) => {
                candidate.zones != NONE && matches_zone(names.text(candidate.zones), zone)
            }
            Self::Any => true,
        }
    }
}
