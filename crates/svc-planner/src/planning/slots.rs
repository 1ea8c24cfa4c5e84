//! Slots of groups: which row changes when endpoints come and go.
//!
//! A slot that packets may choose always holds an endpoint in use. New endpoints take the place of
//! gone ones; when there are fewer, the last ones move into the holes and their former slots, the
//! tail, stay as they are for a while.

use hashbrown::HashMap;

use super::Work;
use super::draft::{Due, Undo};
use crate::clock::{IN_USE, PENDING};
use crate::kernel::group::Facts;
use crate::kernel::set::SetId;
use crate::model::address::Target;
use crate::model::arena::NONE;
use crate::plan::{Datum, Key, Route};

/// From this many endpoints on membership is looked up by hash.
const MANY: usize = 16;

/// Endpoints wanted, and which of them have a slot.
struct Wanted<'a> {
    targets: &'a [Target],
    placed: Vec<bool>,
    positions: Option<HashMap<Target, usize>>,
}

impl<'a> Wanted<'a> {
    fn new(targets: &'a [Target]) -> Self {
        let positions = (targets.len() >= MANY).then(|| {
            (0..)
                .zip(targets)
                .map(|(position, target)| (*target, position))
                .collect()
        });
        Self {
            targets,
            placed: vec![false; targets.len()],
            positions,
        }
    }

    fn position(&self, target: Target) -> Option<usize> {
        match &self.positions {
            Some(positions) => positions.get(&target).copied(),
            None => self.targets.iter().position(|other| *other == target),
        }
    }

    fn missing(&self) -> Vec<Target> {
        let missing = self
            .targets
            .iter()
            .zip(&self.placed)
            .filter(|(_, placed)| !**placed);
        missing.map(|(target, _)| *target).collect()
    }

    /// Marks a target as placed; false if it is not wanted, or placed already.
    fn place(&mut self, target: Target) -> bool {
        let position = self.position(target);
        position.is_some_and(|position| !core::mem::replace(&mut self.placed[position], true))
    }
}

impl Work<'_> {
    /// Brings the slots of a group in line with the endpoints wanted, in any order, without
    /// duplicates.
    pub(super) fn set_slots(&mut self, number: u32, targets: &[Target]) {
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        let before = group.facts.count as usize;
        if before == targets.len() && group.slots.len() == before && group.slots == targets {
            return;
        }
        let count = targets.len();
        if group.slots.is_empty() {
            group.slots.reserve_exact(count);
            self.write_slots(number, targets);
            return self.set_count(number, count);
        }
        group
            .slots
            .reserve_exact(count.saturating_sub(group.slots.len()));
        let mut slots = group.slots.clone();
        let mut wanted = Wanted::new(targets);
        let mut holes = Vec::new();
        for (slot, target) in slots.iter().enumerate().take(before) {
            if !wanted.place(*target) {
                holes.push(slot);
            }
        }
        let mut missing = wanted.missing().into_iter();
        // Holes that remain in use first take new endpoints, then the last ones.
        let mut last = before;
        for &hole in holes.iter().filter(|hole| **hole < count) {
            if let Some(target) = missing.next() {
                slots[hole] = target;
                continue;
            }
            last -= 1;
            while holes.binary_search(&last).is_ok() {
                last -= 1;
            }
            slots[hole] = slots[last];
        }
        for (slot, target) in (before..).zip(missing) {
            match slots.get_mut(slot) {
                Some(tail) => *tail = target,
                None => slots.push(target),
            }
        }
        // What packets on their way may still choose leads to an endpoint in use, if there is one.
        if count > 0 {
            for slot in count..slots.len() {
                if wanted.position(slots[slot]).is_none() {
                    slots[slot] = slots[slot % count];
                }
            }
        }
        self.write_slots(number, &slots);
        self.set_count(number, count);
    }

    fn set_count(&mut self, number: u32, count: usize) {
        self.edit_group(number, |facts| {
            facts.count = u32::try_from(count).unwrap_or(u32::MAX)
        });
    }

    /// Changes a group, so that it can be taken back, and notes when it or its tail goes out of
    /// use.
    pub(super) fn edit_group(&mut self, number: u32, edit: impl FnOnce(&mut Facts)) {
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        let facts = &mut group.facts;
        if group.noted != self.draft.number {
            self.draft.undo.push(Undo::Group {
                number,
                facts: *facts,
            });
            group.noted = self.draft.number;
        }
        let before = facts.count;
        edit(facts);
        if facts.count < before {
            facts.tail_since = PENDING;
            self.draft.released.push(Due::Group(number));
        }
        if facts.rows > 0 || facts.owner != NONE {
            facts.unused_since = IN_USE;
        } else if facts.unused_since == IN_USE {
            facts.unused_since = PENDING;
            self.draft.released.push(Due::Group(number));
        }
    }

    /// Makes the group's shortcut lead somewhere else.
    pub(super) fn set_shortcut(&mut self, number: u32, shortcut: Option<Route>) {
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        let before = group.facts.shortcut;
        if before == shortcut {
            return;
        }
        let key = Key::Group(number);
        if before.is_some() {
            self.draft.delete(SetId::Shortcuts, number, key);
        }
        if let Some(route) = shortcut {
            self.draft
                .add(SetId::Shortcuts, number, key, Datum::Route(route));
        }
        self.edit_group(number, |facts| facts.shortcut = shortcut);
        self.recount(before, shortcut);
    }

    /// Deletes the slots from `count` on.
    pub(super) fn truncate_slots(&mut self, number: u32, count: usize) {
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        while group.slots.len() > count {
            let Some(target) = group.slots.pop() else {
                return;
            };
            let key = slot_key(number, group.slots.len());
            self.draft.delete(SetId::Endpoints, number, key);
            self.draft.undo.push(Undo::SlotRemoved {
                group: number,
                target,
            });
        }
    }

    fn write_slots(&mut self, number: u32, slots: &[Target]) {
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        for (slot, &target) in slots.iter().enumerate() {
            let key = slot_key(number, slot);
            let known = group.slots.get(slot).copied();
            if known == Some(target) {
                continue;
            }
            if let Some(before) = known {
                self.draft.delete(SetId::Endpoints, number, key);
                self.draft.undo.push(Undo::Slot {
                    group: number,
                    slot,
                    target: before,
                });
                group.slots[slot] = target;
            } else {
                self.draft.undo.push(Undo::SlotAdded { group: number });
                group.slots.push(target);
            }
            let address = target.address.ip(self.model.family);
            let datum = Datum::Endpoint {
                address,
                port: target.port,
            };
            self.draft.add(SetId::Endpoints, number, key, datum);
        }
    }
}

pub(super) fn slot_key(group: u32, slot: usize) -> Key {
    Key::Slot {
        group,
        slot: u32::try_from(slot).unwrap_or(u32::MAX),
    }
}
