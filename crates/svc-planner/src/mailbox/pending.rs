//! The newest change of each object.

use core::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::object::{Change, EndpointSlice, ObjectName};

/// One change an object, in the order in which the objects were first heard of.
#[derive(Debug, Default)]
pub(super) struct Pending {
    changes: Vec<Change>,
    /// Places in `changes`, by the object's key.
    places: HashTable<usize>,
    hasher: DefaultHashBuilder,
    /// Services and slices among them.
    waiting: [u64; 2],
}

impl Pending {
    /// Notes a change. An earlier one of the same object is forgotten, its place is kept.
    pub(super) fn put(&mut self, change: Change) {
        let (changes, hasher) = (&mut self.changes, &self.hasher);
        let key = Key::of(&change);
        let hash = hasher.hash_one(key);
        let same = |&place: &usize| changes.get(place).map(Key::of) == Some(key);
        if let Some(&place) = self.places.find(hash, same) {
            if let Some(earlier) = changes.get_mut(place) {
                let earlier = core::mem::replace(earlier, change);
                if let Some(Change::EndpointSlice(slice)) = changes.get_mut(place) {
                    keep_triggers(slice, &earlier);
                }
            }
            return;
        }
        match key {
            Key::Service(_) => self.waiting[0] += 1,
            Key::EndpointSlice(_) => self.waiting[1] += 1,
            _ => {}
        }
        self.places.insert_unique(hash, changes.len(), |&place| {
            hasher.hash_one(changes.get(place).map_or(key, Key::of))
        });
        changes.push(change);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many Services and slices wait.
    pub(super) const fn waiting(&self) -> [u64; 2] {
        self.waiting
    }

    pub(super) fn into_changes(self) -> Vec<Change> {
        self.changes
    }
}

/// How many times of what changed a slice are kept, so that what waits stays bounded.
const TRIGGERS: usize = 32;

/// What changed a slice earlier is in force with it, too, and not before.
fn keep_triggers(slice: &mut EndpointSlice, earlier: &Change) {
    let Change::EndpointSlice(earlier) = earlier else {
        return;
    };
    let mut triggers = earlier.triggers.clone();
    triggers.extend(slice.triggers.drain(..));
    triggers.dedup();
    triggers.truncate(TRIGGERS);
    slice.triggers = triggers;
}

/// Which object a change is about. There is one own Node, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'c> {
    Service(&'c ObjectName),
    EndpointSlice(&'c ObjectName),
    Node,
    ServiceCidr(&'c str),
    HostAddresses,
}

impl<'c> Key<'c> {
    fn of(change: &'c Change) -> Self {
        match change {
            Change::Service(service) => Self::Service(&service.name),
            Change::ServiceGone(name) => Self::Service(name),
            Change::EndpointSlice(slice) => Self::EndpointSlice(&slice.name),
            Change::EndpointSliceGone(name) => Self::EndpointSlice(name),
            Change::Node(_) | Change::NodeGone => Self::Node,
            Change::ServiceCidr { name, .. } | Change::ServiceCidrGone(name) => {
                Self::ServiceCidr(name)
            }
            Change::HostAddresses(_) => Self::HostAddresses,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(name: &str) -> ObjectName {
        ObjectName {
            namespace: "default".into(),
            name: name.into(),
        }
    }

    fn any_change() -> impl Strategy<Value = Change> {
        let names = prop::sample::select(vec!["a", "b", "c"]);
        let address = any::<[u8; 4]>().prop_map(Into::into);
        prop_oneof![
            names.clone().prop_map(|it| Change::ServiceGone(name(it))),
            names
                .clone()
                .prop_map(|it| Change::EndpointSliceGone(name(it))),
            names
                .clone()
                .prop_map(|it| Change::ServiceCidrGone(it.into())),
            (names, 8_u8..=24).prop_map(|(name, length)| Change::ServiceCidr {
                name: name.into(),
                cidrs: [format!("10.0.0.0/{length}").parse().unwrap()]
                    .into_iter()
                    .collect(),
            }),
            Just(Change::NodeGone),
            address.prop_map(|it| Change::HostAddresses(vec![it])),
        ]
    }

    proptest! {
        #[test]
        fn last_change_at_the_first_ones_place(all in prop::collection::vec(any_change(), 0..40)) {
            let mut expected: Vec<Change> = Vec::new();
            for change in &all {
                let same = |other: &&mut Change| Key::of(other) == Key::of(change);
                match expected.iter_mut().find(same) {
                    Some(earlier) => *earlier = change.clone(),
                    None => expected.push(change.clone()),
                }
            }
            let mut pending = Pending::default();
            all.into_iter().for_each(|change| pending.put(change));
            prop_assert_eq!(pending.is_empty(), expected.is_empty());
            prop_assert_eq!(pending.into_changes(), expected);
        }
    }

    fn slice(triggers: &[u64]) -> Change {
        Change::EndpointSlice(EndpointSlice {
            name: name("a"),
            service: "web".into(),
            triggers: triggers.into(),
            ports: Default::default(),
            endpoints: Vec::new(),
        })
    }

    #[test]
    fn what_changed_a_slice_is_kept_until_it_is_gone() {
        let after = |changes: &[Change]| {
            let mut pending = Pending::default();
            changes.iter().cloned().for_each(|it| pending.put(it));
            match &pending.into_changes()[..] {
                [Change::EndpointSlice(slice)] => slice.triggers.to_vec(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(after(&[slice(&[1]), slice(&[]), slice(&[2])]), [1, 2]);
        // The same annotation again: something else changed.
        assert_eq!(after(&[slice(&[1]), slice(&[1])]), [1]);
        let gone = Change::EndpointSliceGone(name("a"));
        assert_eq!(after(&[slice(&[1]), gone, slice(&[2])]), [2]);
        let many: Vec<_> = (0..100).map(|it| slice(&[it])).collect();
        assert_eq!(after(&many), (0..32).collect::<Vec<_>>());
    }

    #[test]
    fn kinds_do_not_mix() {
        let mut pending = Pending::default();
        pending.put(Change::ServiceGone(name("a")));
        pending.put(Change::EndpointSliceGone(name("a")));
        pending.put(Change::ServiceCidrGone("a".into()));
        assert_eq!(pending.into_changes().len(), 3);
    }
}
