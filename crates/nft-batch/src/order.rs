//! The order of a batch on the wire, whatever the order of calls.
//!
//! Within a section (see [`crate::Batch::barrier`]): what others refer to is added first and
//! deleted last, and per set all deletions come before all additions (an addition of a key that is
//! about to be deleted is EEXIST, at a full set ENFILE).

use crate::chunk::Pool;
use crate::lane::Lane;

/// Phases of a section, in wire order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Phase {
    AddTable,
    /// The kernel finds sets by comparing names in creation order: much-used ones first.
    AddHotSet,
    AddSet,
    AddObject,
    AddFlowtable,
    AddChain,
    /// One pair of lanes per set, in order of first use.
    Elements,
    /// Rules go before the things they use; a chain's rules go even when the chain goes too, so
    /// that sets used there and chains used from maps can be deleted in either order.
    DeleteRule,
    AddRule,
    DeleteSet,
    DeleteChain,
    DeleteObject,
    DeleteFlowtable,
    DeleteTable,
}

const PHASES: usize = Phase::DeleteTable as usize + 1;

/// What orders lanes. Compared field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    section: u32,
    phase: Phase,
    /// Of element lanes: the set, in order of first use in the section.
    set: u32,
    /// Of element lanes: additions, after deletions.
    additions: bool,
}

impl Key {
    /// The lane's set within its section, if it is an element lane.
    pub(crate) fn set(&self) -> Option<(u32, u32)> {
        (self.phase == Phase::Elements).then_some((self.section, self.set))
    }

    pub(crate) fn is_additions(&self) -> bool {
        self.phase == Phase::Elements && self.additions
    }
}

/// All lanes of a batch, and the spare ones.
#[derive(Debug, Default)]
pub(crate) struct Lanes {
    lanes: Vec<(Key, Lane)>,
    spare: Vec<Lane>,
    section: u32,
    sets_in_section: u32,
    /// Lanes of the current section.
    phases: [Option<usize>; PHASES],
}

impl Lanes {
    pub(crate) fn as_slice(&self) -> &[(Key, Lane)] {
        &self.lanes
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [(Key, Lane)] {
        &mut self.lanes
    }

    pub(crate) fn section(&self) -> u32 {
        self.section
    }

    pub(crate) fn next_section(&mut self) {
        self.section = self.section.saturating_add(1);
        self.sets_in_section = 0;
        self.phases = [None; PHASES];
    }

    pub(crate) fn phase(&mut self, phase: Phase) -> Option<&mut Lane> {
        let at = match self.phases.get(phase as usize).copied().flatten() {
            Some(at) => at,
            None => {
                let at = self.open(Key {
                    section: self.section,
                    phase,
                    set: 0,
                    additions: false,
                });
                if let Some(slot) = self.phases.get_mut(phase as usize) {
                    *slot = Some(at);
                }
                at
            }
        };
        self.lane(at)
    }

    /// Numbers a set for [`Lanes::open_elements`].
    pub(crate) fn next_set(&mut self) -> u32 {
        let set = self.sets_in_section;
        self.sets_in_section = set.saturating_add(1);
        set
    }

    pub(crate) fn open_elements(&mut self, set: u32, additions: bool) -> usize {
        self.open(Key {
            section: self.section,
            phase: Phase::Elements,
            set,
            additions,
        })
    }

    pub(crate) fn lane(&mut self, at: usize) -> Option<&mut Lane> {
        self.lanes.get_mut(at).map(|(_, lane)| lane)
    }

    fn open(&mut self, key: Key) -> usize {
        let lane = self.spare.pop().unwrap_or_default();
        self.lanes.push((key, lane));
        self.lanes.len() - 1
    }

    /// Puts the lanes into wire order; indices handed out before are void.
    pub(crate) fn sort(&mut self) {
        self.lanes.sort_unstable_by_key(|(key, _)| *key);
    }

    pub(crate) fn recycle(&mut self, pool: &mut Pool) {
        for (_, mut lane) in self.lanes.drain(..) {
            lane.recycle(pool);
            self.spare.push(lane);
        }
        self.section = 0;
        self.sets_in_section = 0;
        self.phases = [None; PHASES];
    }
}
