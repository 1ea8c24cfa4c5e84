//! Endpoints that clients stick to: their numbers, and the rows of these.

use super::Work;
use super::draft::{Due, Undo};
use super::slots::slot_key;
use crate::clock::is_over;
use crate::kernel::group::endpoint_datum;
use crate::kernel::set::SetId;
use crate::kernel::sticky::{Event, Member, Sticky};
use crate::model::address::Target;
use crate::model::arena::NONE;
use crate::model::frontend::FrontendKey;
use crate::plan::{Key, Route};

/// So many departed frontends are kept in mind.
const DEPARTED: usize = 1024;

impl Work<'_> {
    /// Gives the endpoints wanted numbers. Those not wanted any more lose their clients at once, but
    /// not who has just chosen them.
    pub(super) fn set_members(&mut self, number: u32, targets: &[Target]) {
        let mut wanted = core::mem::take(&mut self.placement.sorted);
        wanted.clear();
        wanted.extend_from_slice(targets);
        wanted.sort_unstable();
        let is_unwanted = |member: &Member| wanted.binary_search(&member.target).is_err();
        let count = self.sticky(number).map_or(0, |it| it.members().len());
        for at in (0..count).rev() {
            if self
                .sticky(number)
                .is_some_and(|it| is_unwanted(&it.members()[at]))
            {
                self.leave(number, at);
            }
        }
        for target in &wanted {
            let sticky = self.sticky(number);
            if sticky.is_some_and(|sticky| sticky.member(*target).is_none()) {
                self.join(number, *target);
            }
        }
        self.placement.sorted = wanted;
    }

    /// Notes that a frontend leads from one group to another, or nowhere: its clients must not go on
    /// to endpoints of the former.
    pub(super) fn note_move(&mut self, key: FrontendKey, old: Option<Route>, new: Option<Route>) {
        let (old, new) = (old.map(Route::group), new.map(Route::group));
        if old == new {
            return;
        }
        if let Some(new) = new {
            let is_same = |other: &FrontendKey| {
                let same_address = other.address == key.address;
                let node_port = other.address.is_none() || key.address.is_none();
                (other.protocol, other.port) == (key.protocol, key.port)
                    && (same_address || node_port)
            };
            let departed = self.kernel.departed.iter();
            let left = departed.filter(|(other, group)| is_same(other) && *group != new);
            self.draft.left.extend(left.map(|(_, group)| *group));
        }
        let Some(old) = old.filter(|old| self.sticky(*old).is_some()) else {
            return;
        };
        let departed = &mut self.kernel.departed;
        if new.is_none() && departed.len() < DEPARTED {
            if !departed.contains(&(key, old)) {
                departed.push((key, old));
            }
        } else {
            self.draft.left.push(old);
        }
    }

    /// All groups whose clients stick and that take shortcuts are to get new numbers: who takes them
    /// is not who took them.
    pub(super) fn note_new_shortcuts(&mut self) {
        for (number, group) in self.kernel.groups.iter() {
            if group.sticky.is_some() {
                for route in group.facts.shortcuts.into_iter().flatten() {
                    self.draft.left.extend([number, route.group()]);
                }
            }
        }
    }

    /// Gives the endpoints of groups that lost a frontend new numbers, or none if nobody uses them.
    /// In a transaction of its own: no row may change twice in one.
    pub(crate) fn renumber(&mut self, mut left: Vec<u32>) {
        left.sort_unstable();
        left.dedup();
        for &number in &left {
            self.renumber_group(number);
        }
        self.draft.renumbered = left;
    }

    fn renumber_group(&mut self, number: u32) {
        let Some(group) = self.kernel.groups.at(number) else {
            return;
        };
        let is_used = group.facts.rows > 0 || group.facts.owner != NONE;
        let Some(sticky) = &group.sticky else {
            return;
        };
        let targets: Vec<Target> = sticky.members().iter().map(|it| it.target).collect();
        for at in (0..targets.len()).rev() {
            self.leave(number, at);
        }
        if !is_used {
            return;
        }
        for target in targets {
            self.add_member(number, target);
        }
        let Some(group) = self.kernel.groups.at(number) else {
            return;
        };
        for (slot, target) in group.slots.iter().enumerate() {
            let key = slot_key(number, slot);
            let datum = group.slot_datum(*target, self.model.family);
            self.draft.delete(SetId::StickySlots, number, key);
            self.draft.add(SetId::StickySlots, number, key, datum);
        }
    }

    /// Deletes what endpoints left behind that left long enough ago; all of them if `all`.
    pub(super) fn forget_endpoints(&mut self, number: u32, all: bool) {
        if all {
            let count = self.sticky(number).map_or(0, |it| it.members().len());
            for at in (0..count).rev() {
                self.leave(number, at);
            }
        }
        let (hold, now) = (self.hold, self.now);
        loop {
            let Some(sticky) = self.sticky_mut(number) else {
                return;
            };
            let mut leaving = sticky.leaving().iter();
            let Some(at) = leaving.position(|it| all || is_over(it.since, hold, now)) else {
                return;
            };
            let (member, event) = sticky.forget(at);
            let key = Key::EndpointId(member.id);
            self.draft.delete(SetId::ChosenEndpoints, number, key);
            self.note_event(number, member, event);
        }
    }

    /// Do clients of a group stick to endpoints?
    pub(super) fn is_sticky(&self, number: u32) -> bool {
        self.sticky(number).is_some()
    }

    /// Endpoints that have no number yet.
    pub(super) fn strangers(&self, number: u32, targets: &[Target]) -> usize {
        let Some(sticky) = self.sticky(number) else {
            return targets.len();
        };
        let is_stranger = |target: &&Target| sticky.member(**target).is_none();
        targets.iter().filter(is_stranger).count()
    }

    fn join(&mut self, number: u32, target: Target) {
        let back = self.sticky_mut(number).and_then(|it| it.come_back(target));
        let Some((member, event)) = back else {
            return self.add_member(number, target);
        };
        let datum = endpoint_datum(target, self.model.family);
        let key = Key::EndpointId(member.id);
        self.draft.add(SetId::StickyEndpoints, number, key, datum);
        self.note_event(number, member, event);
    }

    fn add_member(&mut self, number: u32, target: Target) {
        let kernel = &mut *self.kernel;
        let groups = &kernel.groups;
        let id = kernel.endpoint_ids.take(|list| {
            let sticky = groups.iter().filter_map(|(_, group)| group.sticky.as_ref());
            list.extend(sticky.flat_map(|sticky| sticky.all()).map(|it| it.id));
        });
        let member = Member { target, id };
        let Some(sticky) = self.sticky_mut(number) else {
            return;
        };
        let event = sticky.join(member);
        let datum = endpoint_datum(target, self.model.family);
        for set in [SetId::StickyEndpoints, SetId::ChosenEndpoints] {
            let key = Key::EndpointId(id);
            self.draft.add(set, number, key, datum.clone());
        }
        self.note_event(number, member, event);
    }

    fn leave(&mut self, number: u32, at: usize) {
        let Some(sticky) = self.sticky_mut(number) else {
            return;
        };
        let (member, event) = sticky.leave(at);
        let key = Key::EndpointId(member.id);
        self.draft.delete(SetId::StickyEndpoints, number, key);
        // Once is enough for all that leave together.
        if self.draft.released.last() != Some(&Due::Group(number)) {
            self.draft.released.push(Due::Group(number));
        }
        self.note_event(number, member, event);
    }

    fn note_event(&mut self, group: u32, member: Member, event: Event) {
        self.draft.undo.push(Undo::Member {
            group,
            member,
            event,
        });
    }

    fn sticky(&self, number: u32) -> Option<&Sticky> {
        self.kernel.groups.at(number)?.sticky.as_deref()
    }

    fn sticky_mut(&mut self, number: u32) -> Option<&mut Sticky> {
        self.kernel.groups.at_mut(number)?.sticky.as_deref_mut()
    }
}
