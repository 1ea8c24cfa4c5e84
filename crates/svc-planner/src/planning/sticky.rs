//! Endpoints that clients stick to: their numbers, and the rows of these.

use super::Work;
use super::draft::{Due, Undo};
use super::slots::slot_key;
use crate::clock::is_over;
use crate::kernel::group::{Groups, NO_GROUP, endpoint_datum};
use crate::kernel::set::SetId;
use crate::kernel::sticky::{Event, Member, Sticky};
use crate::model::address::Target;
use crate::model::arena::NONE;
use crate::model::frontend::FrontendKey;
use crate::plan::{EndpointId, Key, Route};

/// So many departed frontends are kept in mind.
const DEPARTED: usize = 1024;

impl Work<'_> {
    /// Gives the endpoints wanted numbers. Those not wanted any more lose their clients at once, but
    /// not who has just chosen them.
    pub(super) fn set_members(&mut self, number: u32, targets: &[Target], twin: u32) {
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
                self.join(number, *target, twin);
            }
        }
        self.placement.sorted = wanted;
    }

    /// Notes that a frontend leads from one group to another, or nowhere: its clients must not go on
    /// to endpoints of the former. If both are of one Service port, they may, where the rules find
    /// their numbers.
    pub(super) fn note_move(&mut self, key: FrontendKey, old: Option<Route>, new: Option<Route>) {
        let group = |route: Option<Route>| route.map(Route::group).filter(|it| *it != NO_GROUP);
        let (old, new) = (group(old), group(new));
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
            let left = departed.filter(|(other, group)| {
                is_same(other) && *group != new && !are_twins(&self.kernel.groups, *group, new)
            });
            self.draft.left.extend(left.map(|(_, group)| *group));
        }
        let is_left = |old: &u32| {
            self.sticky(*old).is_some()
                && new.is_none_or(|new| !are_twins(&self.kernel.groups, *old, new))
        };
        let Some(old) = old.filter(is_left) else {
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

    /// The other group of a group's Service port, 0 if there is none.
    fn twin(&self, number: u32) -> u32 {
        let owner = self.kernel.groups.at(number).map(|group| group.facts.owner);
        let Some(port) = owner.and_then(|owner| self.model.ports.at(owner)) else {
            return 0;
        };
        if port.cluster_group == number {
            port.local_group
        } else {
            port.cluster_group
        }
    }

    /// Gives the endpoints of groups that lost a frontend new numbers, or none if nobody uses them;
    /// with them those of their twins, whose numbers are the same. In a transaction of its own: no row
    /// may change twice in one.
    pub(crate) fn renumber(&mut self, mut left: Vec<u32>) {
        let twins: Vec<u32> = left.iter().map(|number| self.twin(*number)).collect();
        left.extend(twins.into_iter().filter(|twin| *twin != 0));
        left.sort_unstable();
        left.dedup();
        let released: Vec<_> = left.iter().map(|&it| (it, self.release(it))).collect();
        for (number, targets) in released {
            self.number_anew(number, targets);
        }
        self.draft.renumbered = left;
    }

    /// Takes a group's endpoints their numbers.
    fn release(&mut self, number: u32) -> Vec<Target> {
        let Some(sticky) = self.sticky(number) else {
            return Vec::new();
        };
        let targets: Vec<Target> = sticky.members().iter().map(|it| it.target).collect();
        for at in (0..targets.len()).rev() {
            self.leave(number, at);
        }
        targets
    }

    fn number_anew(&mut self, number: u32, targets: Vec<Target>) {
        let Some(group) = self.kernel.groups.at(number) else {
            return;
        };
        let is_used = group.facts.rows > 0 || group.facts.owner != NONE;
        if !is_used || group.sticky.is_none() {
            return;
        }
        let twin = self.twin(number);
        for target in targets {
            self.add_member(number, target, twin);
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

    /// A group that a Service port let go not long ago.
    pub(super) fn orphan(&self, port: u32, local: bool) -> Option<u32> {
        let mut orphans = self.kernel.orphans.iter();
        let orphan = orphans.find(|(number, former)| {
            let group = self.kernel.groups.at(*number);
            let group = group.filter(|group| group.facts.owner == NONE);
            let sticky = group.and_then(|group| group.sticky.as_ref());
            *former == port && sticky.is_some_and(|sticky| sticky.is_local() == local)
        });
        orphan.map(|(number, _)| *number)
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

    fn join(&mut self, number: u32, target: Target, twin: u32) {
        let back = self.sticky_mut(number).and_then(|it| it.come_back(target));
        let Some((member, event)) = back else {
            return self.add_member(number, target, twin);
        };
        let datum = endpoint_datum(target, self.model.family);
        let key = Key::EndpointId(member.id);
        self.draft.add(SetId::StickyEndpoints, number, key, datum);
        self.note_event(number, member, event);
    }

    fn add_member(&mut self, number: u32, target: Target, twin: u32) {
        let id = match self.number_of_twin(number, target, twin) {
            Some(id) => id,
            None => self.new_number(number),
        };
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

    /// The number that fits the one an endpoint has in the other group, unless rows of a group that
    /// is about to go have it still.
    fn number_of_twin(&self, number: u32, target: Target, twin: u32) -> Option<EndpointId> {
        let own = self.sticky(number)?;
        let other = self.sticky(twin)?;
        let id = other.member(target)?.twin();
        let orphans = self.kernel.orphans.iter();
        let mut orphans = orphans.filter_map(|(orphan, _)| self.sticky(*orphan));
        let is_taken = own.has(id) || orphans.any(|orphan| orphan.has(id));
        (own.is_local() != other.is_local() && !is_taken).then_some(id)
    }

    fn new_number(&mut self, number: u32) -> EndpointId {
        let is_local = self.sticky(number).is_some_and(Sticky::is_local);
        let kernel = &mut *self.kernel;
        let groups = &kernel.groups;
        let id = kernel.endpoint_ids.take(|list| {
            let sticky = groups.iter().filter_map(|(_, group)| group.sticky.as_ref());
            list.extend(sticky.flat_map(|sticky| sticky.all()).map(|it| it.id));
        });
        if is_local { id.twin() } else { id }
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

/// Are these the groups of one Service port?
fn are_twins(groups: &Groups, one: u32, other: u32) -> bool {
    let owner = |number| groups.at(number).map(|group| group.facts.owner);
    owner(one).is_some_and(|it| it != NONE && owner(other) == Some(it))
}
