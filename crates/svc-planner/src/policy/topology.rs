//! Topology hints: which ready endpoints are near enough.
//!
//! Hints come from the EndpointSlice controller; the proxy follows them only when every ready
//! endpoint has one and at least one names this node or zone (KEP-2433, KEP-3015).

use super::candidate::Candidate;
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

#[cfg(test)]
mod tests {
    use super::super::endpoint_selection::tests::candidate;
    use super::*;

    /// Which of the ready endpoints given by hints (zone, node) are used in zone "a".
    fn used(hints: &[(&str, &str)]) -> Vec<usize> {
        let mut names = Interner::default();
        let candidates: Vec<_> = hints
            .iter()
            .map(|(zone, node)| candidate(zone, node, &mut names))
            .collect();
        let nearness = Nearness::of(&candidates, Some("a"), &names);
        let admitted = |i: &usize| nearness.admits(&candidates[*i], &names);
        (0..hints.len()).filter(admitted).collect()
    }

    #[test]
    fn hints_are_followed_when_all_endpoints_have_one_and_one_is_near() {
        assert_eq!(used(&[("a", ""), ("b", "")]), [0]);
        assert_eq!(used(&[("b", ""), ("c", "")]), [0, 1]);
        assert_eq!(used(&[("a", ""), ("", "")]), [0, 1]);
        assert_eq!(used(&[("a", "other"), ("b", "own")]), [1]);
        assert_eq!(used(&[("a", "other"), ("b", "other")]), [0]);
        assert_eq!(used(&[("a", "own"), ("b", "")]), [0]);
        assert!(used(&[]).is_empty());
    }

    #[test]
    fn without_a_zone_zone_hints_are_ignored() {
        let mut names = Interner::default();
        let candidates = [candidate("a", "", &mut names)];
        assert_eq!(Nearness::of(&candidates, None, &names), Nearness::Any);
    }
}
