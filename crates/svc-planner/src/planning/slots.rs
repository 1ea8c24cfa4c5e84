//! Slots of groups: which row changes when endpoints come and go.
//!
//! A slot that packets may choose always holds an endpoint in use. New endpoints take the place of
//! gone ones; when there are fewer, the last ones move into the holes and their former slots, the
//! tail, stay as they are for a while.

use hashbrown::HashMap;

use super::Work;
use super::draft::{Due, Undo};
use crate::clock::{IN_USE, PENDING};
use crate::kernel::group::{Facts, shortcut_keys};
use crate::kernel::set::SetId;
use crate::model::address::Target;
use crate::model::arena::NONE;
use crate::plan::{Datum, Key, Route};

/// From this many endpoints on membership is looked up by hash.
const MANY: usize = 16;

/// Who goes into which slot; kept between uses for its buffers.
#[derive(Debug, Default)]
pub(crate) struct Placement {
    /// The slots as they are to be.
    slots: Vec<Target>,
    /// Which of the endpoints wanted have a slot.
    placed: Vec<bool>,
    /// Where they are in the list, if it is long.
    positions: HashMap<Target, usize>,
    /// Slots whose endpoint is not wanted any more.
    holes: Vec<usize>,
    /// Endpoints wanted, in order.
    pub(super) sorted: Vec<Target>,
}

impl Placement {
    /// Works out the slots of a group with `slots`, of which `before` are in use, for the endpoints
    /// `wanted`.
    fn place(&mut self, slots: &[Target], before: usize, wanted: &[Target]) {
        self.start(slots, wanted);
        for (slot, target) in slots.iter().enumerate().take(before) {
            let position = self.position(wanted, *target);
            let is_first = position
                .is_some_and(|position| !core::mem::replace(&mut self.placed[position], true));
            if !is_first {
                self.holes.push(slot);
            }
        }
        let (slots, holes) = (&mut self.slots, &self.holes);
        let missing = wanted.iter().zip(&self.placed);
        let mut missing = missing.filter_map(|(target, placed)| (!placed).then_some(*target));
        let count = wanted.len();
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
            for slot in count..self.slots.len() {
                if self.position(wanted, self.slots[slot]).is_none() {
                    self.slots[slot] = self.slots[slot % count];
                }
            }
        }
    }

    fn start(&mut self, slots: &[Target], wanted: &[Target]) {
        self.slots.clear();
        self.slots.extend_from_slice(slots);
        self.placed.clear();
        self.placed.resize(wanted.len(), false);
        self.holes.clear();
        self.positions.clear();
        if wanted.len() >= MANY {
            let positions = (0..)
                .zip(wanted)
                .map(|(position, target)| (*target, position));
            self.positions.extend(positions);
        }
    }

    fn position(&self, wanted: &[Target], target: Target) -> Option<usize> {
        if wanted.len() >= MANY {
            self.positions.get(&target).copied()
        } else {
            wanted.iter().position(|other| *other == target)
        }
    }
}

impl Work<'_> {
    /// Brings the slots of a group in line with the endpoints wanted, in any order, without
    /// duplicates. `twin` is the other group of its Service port, 0 if there is none.
    pub(super) fn set_slots(&mut self, number: u32, targets: &[Target], twin: u32) {
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        let before = group.facts.count as usize;
        let count = targets.len();
        let sticky = group.sticky.as_ref();
        let are_members = sticky.is_none_or(|sticky| sticky.members().len() == count);
        if before == count && are_members && group.slots[..] == *targets {
            return;
        }
        if group.sticky.is_some() {
            self.set_members(number, targets, twin);
        }
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        if group.slots.is_empty() {
            group.slots.reserve_exact(count);
            self.write_slots(number, targets);
            return self.set_count(number, count);
        }
        group
            .slots
            .reserve_exact(count.saturating_sub(group.slots.len()));
        self.placement.place(&group.slots, before, targets);
        let slots = core::mem::take(&mut self.placement.slots);
        self.write_slots(number, &slots);
        self.placement.slots = slots;
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
            if group.sticky.is_some() {
                self.draft.left.push(number);
            }
        }
    }

    /// Makes the group's shortcuts lead somewhere else.
    pub(super) fn set_shortcuts(&mut self, number: u32, shortcuts: [Option<Route>; 2]) {
        let Some(group) = self.kernel.groups.at_mut(number) else {
            return;
        };
        let all_before = group.facts.shortcuts;
        if all_before == shortcuts {
            return;
        }
        let keys = shortcut_keys(number);
        for ((key, before), shortcut) in keys.into_iter().zip(all_before).zip(shortcuts) {
            if before == shortcut {
                continue;
            }
            if before.is_some() {
                self.draft.delete(SetId::Shortcuts, number, key);
            }
            if let Some(route) = shortcut {
                self.draft
                    .add(SetId::Shortcuts, number, key, Datum::Route(route));
            }
        }
        self.edit_group(number, |facts| facts.shortcuts = shortcuts);
        for (before, shortcut) in all_before.into_iter().zip(shortcuts) {
            self.recount(before, shortcut);
        }
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
            self.draft.delete(group.slot_set(), number, key);
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
            let set = group.slot_set();
            let datum = group.slot_datum(target, self.model.family);
            if let Some(before) = known {
                self.draft.delete(set, number, key);
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
            self.draft.add(set, number, key, datum);
        }
    }
}

pub(super) fn slot_key(group: u32, slot: usize) -> Key {
    Key::Slot {
        group,
        slot: u32::try_from(slot).unwrap_or(u32::MAX),
    }
}
