//! Groups: the endpoint rows of a Service port and policy, shared by all frontends of it.

use smallvec::SmallVec;

use super::arena_number;
use super::layout::NODE_PORT_SHORTCUT;
use super::set::SetId;
use super::sticky::Sticky;
use crate::clock::IN_USE;
use crate::model::address::Target;
use crate::model::arena::Arena;
use crate::plan::{Datum, Family, Key, Route};

/// A group without its slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Service port, [`NONE`](crate::model::arena::NONE) once it has no use for the group.
    pub(crate) owner: u32,
    /// Rows that lead to it.
    pub(crate) rows: u32,
    /// Slots that are chosen from. Slots above are the tail: rows that packets on their way may
    /// still choose, kept on live endpoints.
    pub(crate) count: u32,
    /// Since when the tail is not chosen from.
    pub(crate) tail_since: u64,
    /// Since when no row leads to it and nobody owns it.
    pub(crate) unused_since: u64,
    /// Where pods and the node itself are sent instead. The second is for node ports, if clients
    /// stick to endpoints.
    pub(crate) shortcuts: [Option<Route>; 2],
}

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) facts: Facts,
    /// What the kernel holds, slot by slot.
    pub(crate) slots: SmallVec<[Target; 2]>,
    /// Numbers of the endpoints, if clients stick to them.
    pub(crate) sticky: Option<Box<Sticky>>,
    /// The last draft that noted what the facts were before.
    pub(crate) noted: u64,
}

impl Group {
    /// Its rows in one of the maps of endpoints and slots, in a fixed order.
    pub(crate) fn rows(
        &self,
        set: SetId,
        number: u32,
        family: Family,
    ) -> impl Iterator<Item = (Key, Datum)> {
        let has_slots = set == self.slot_set();
        let slots = has_slots.then_some(&self.slots[..]).into_iter().flatten();
        let slots = (0..).zip(slots).map(move |(slot, target)| {
            let key = Key::Slot {
                group: number,
                slot,
            };
            (key, self.slot_datum(*target, family))
        });
        let (members, leaving) = match (&self.sticky, set) {
            (Some(sticky), SetId::StickyEndpoints) => (sticky.members(), &[][..]),
            (Some(sticky), SetId::ChosenEndpoints) => (sticky.members(), sticky.leaving()),
            _ => (&[][..], &[][..]),
        };
        let leaving = leaving.iter().map(|leaving| &leaving.member);
        let endpoints = members.iter().chain(leaving).map(move |member| {
            let key = Key::EndpointId(member.id);
            (key, endpoint_datum(member.target, family))
        });
        slots.chain(endpoints)
    }

    /// The map with its slots.
    pub(crate) const fn slot_set(&self) -> SetId {
        if self.sticky.is_some() {
            SetId::StickySlots
        } else {
            SetId::Endpoints
        }
    }

    /// What a slot with an endpoint holds.
    pub(crate) fn slot_datum(&self, target: Target, family: Family) -> Datum {
        let id = self.sticky.as_ref().and_then(|sticky| sticky.id(target));
        id.map_or_else(|| endpoint_datum(target, family), Datum::EndpointId)
    }
}

/// An endpoint as rows hold it.
pub(crate) fn endpoint_datum(target: Target, family: Family) -> Datum {
    Datum::Endpoint {
        address: target.address.ip(family),
        port: target.port,
    }
}

/// Keys of a group's shortcuts.
pub(crate) fn shortcut_keys(number: u32) -> [Key; 2] {
    [number, number | NODE_PORT_SHORTCUT].map(Key::Group)
}

/// All groups, by number.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    arena: Arena<Group>,
}

/// Group number of rows that need none: nobody's.
pub(crate) const NO_GROUP: u32 = Route::MAX_GROUP;

impl Groups {
    /// Groups with given numbers; `None` if they contradict each other.
    pub(crate) fn numbered(groups: Vec<(u32, Group)>) -> Option<Self> {
        if groups.iter().any(|(number, _)| *number == 0) {
            return None;
        }
        let groups = groups
            .into_iter()
            .map(|(number, group)| (number - 1, group));
        Some(Self {
            arena: Arena::numbered(groups, NO_GROUP - 2)?,
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.arena
            .iter()
            .map(|(id, group)| (arena_number(id), group))
    }

    /// A new group; `None` if all numbers are in use.
    pub(crate) fn insert(&mut self, owner: u32, sticky: Option<Sticky>, draft: u64) -> Option<u32> {
        if self.arena.len() >= NO_GROUP as usize - 1 {
            return None;
        }
        let id = self.arena.insert(Group {
            facts: Facts {
                owner,
                rows: 0,
                count: 0,
                tail_since: IN_USE,
                unused_since: IN_USE,
                shortcuts: [None; 2],
            },
            slots: SmallVec::new(),
            sticky: sticky.map(Box::new),
            noted: draft,
        });
        Some(arena_number(id))
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Group> {
        self.arena.at(number.checked_sub(1)?)
    }

    pub(crate) fn at_mut(&mut self, number: u32) -> Option<&mut Group> {
        self.arena.at_mut(number.checked_sub(1)?)
    }

    /// Removes a group that never reached the kernel.
    pub(crate) fn remove(&mut self, number: u32) {
        self.arena.remove(number.wrapping_sub(1));
    }

    /// Takes a group out; its number stays reserved until [`free`](Self::free).
    pub(crate) fn take(&mut self, number: u32) -> Option<Group> {
        self.arena.take(number.checked_sub(1)?)
    }

    pub(crate) fn put_back(&mut self, number: u32, group: Group) {
        self.arena.put_back(number.wrapping_sub(1), group);
    }

    pub(crate) fn free(&mut self, number: u32) {
        self.arena.free(number.wrapping_sub(1));
    }

    pub(crate) fn len(&self) -> usize {
        self.arena.len()
    }

    /// One above the greatest number in use.
    pub(crate) fn end(&self) -> u32 {
        self.arena.end().saturating_add(1)
    }
}
