//! Lists of source ranges: Services with equal ranges share one. The rows of a list in use never
//! change; a Service whose ranges change is switched to another list.

use std::sync::Arc;

use hashbrown::HashMap;
use ipnet::IpNet;

use crate::clock::IN_USE;
use crate::model::arena::Arena;

/// The list without a row: nobody is admitted. 0 is no list.
pub(crate) const NOBODY: u32 = 1;

/// The first list with rows.
const FIRST: u32 = 2;

/// A namespace is given one of so many parts of all rows at most.
const SHARES: u32 = 2;

/// How much of a list the kernel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Its rows come with the transaction in flight.
    Creating,
    /// Its rows are there and may be used from this time on.
    Ready(u64),
}

/// One list.
#[derive(Debug, Clone)]
pub(crate) struct List {
    /// Sorted, without overlap.
    pub(crate) ranges: Arc<[IpNet]>,
    /// Who came with it first; its rows count as this namespace's.
    pub(crate) namespace: Arc<str>,
    pub(crate) state: State,
    /// Rows of `firewall` that name it.
    pub(crate) users: u32,
    /// Since when none does.
    pub(crate) since: u64,
    /// The last draft that noted what this was before.
    pub(crate) noted: u64,
}

/// All lists, by number.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    arena: Arena<List>,
    index: HashMap<Arc<[IpNet]>, u32>,
    rows: u32,
    rows_of: HashMap<Arc<str>, u32>,
}

impl Lists {
    /// Lists with given numbers; `None` if they contradict each other.
    pub(crate) fn numbered(lists: Vec<(u32, List)>) -> Option<Self> {
        let mut all = Self::default();
        for (number, list) in &lists {
            if *number < FIRST {
                return None;
            }
            all.note(*number, list);
        }
        let lists = lists
            .into_iter()
            .map(|(number, list)| (number - FIRST, list));
        all.arena = Arena::numbered(lists, u32::MAX - FIRST - 1)?;
        Some(all)
    }

    pub(crate) fn find(&self, ranges: &[IpNet]) -> Option<u32> {
        self.index.get(ranges).copied()
    }

    pub(crate) fn at(&self, number: u32) -> Option<&List> {
        self.arena.at(number.checked_sub(FIRST)?)
    }

    pub(crate) fn at_mut(&mut self, number: u32) -> Option<&mut List> {
        self.arena.at_mut(number.checked_sub(FIRST)?)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &List)> {
        self.arena
            .iter()
            .map(|(id, list)| (id.saturating_add(FIRST), list))
    }

    /// A new list; `None` if there would be more than `max` rows, or more of one namespace than it
    /// is given.
    pub(crate) fn insert(
        &mut self,
        ranges: &[IpNet],
        namespace: &str,
        max: u32,
        draft: u64,
    ) -> Option<u32> {
        let more = u32::try_from(ranges.len()).ok()?;
        let own = self.rows_of.get(namespace).copied().unwrap_or_default();
        if self.rows.checked_add(more)? > max || own.checked_add(more)? > max.div_ceil(SHARES) {
            return None;
        }
        let namespace = match self.rows_of.get_key_value(namespace) {
            Some((known, _)) => Arc::clone(known),
            None => namespace.into(),
        };
        let list = List {
            ranges: ranges.into(),
            namespace,
            state: State::Creating,
            users: 0,
            since: IN_USE,
            noted: draft,
        };
        let id = self.arena.insert(list.clone());
        let number = id.saturating_add(FIRST);
        self.note(number, &list);
        Some(number)
    }

    /// Rows of all lists.
    pub(crate) fn rows(&self) -> u32 {
        self.rows
    }

    /// Removes a list that never reached the kernel.
    pub(crate) fn remove(&mut self, number: u32) {
        if self.take(number).is_some() {
            self.free(number);
        }
    }

    /// Takes a list out; its number stays reserved until [`free`](Self::free).
    pub(crate) fn take(&mut self, number: u32) -> Option<List> {
        let list = self.arena.take(number.checked_sub(FIRST)?)?;
        self.forget(number, &list);
        Some(list)
    }

    /// Gives a list out of use other ranges; the former are returned.
    pub(crate) fn change(&mut self, number: u32, ranges: Arc<[IpNet]>) -> Option<Arc<[IpNet]>> {
        let mut list = self.at(number)?.clone();
        self.forget(number, &list);
        let former = core::mem::replace(&mut list.ranges, ranges);
        self.note(number, &list);
        *self.at_mut(number)? = list;
        Some(former)
    }

    pub(crate) fn put_back(&mut self, number: u32, list: List) {
        self.note(number, &list);
        self.arena.put_back(number.saturating_sub(FIRST), list);
    }

    pub(crate) fn free(&mut self, number: u32) {
        self.arena.free(number.saturating_sub(FIRST));
    }

    /// What is left of a list out of use may equal another list, which is still found then.
    fn note(&mut self, number: u32, list: &List) {
        let rows = u32::try_from(list.ranges.len()).unwrap_or(u32::MAX);
        self.index.entry(Arc::clone(&list.ranges)).or_insert(number);
        self.rows = self.rows.saturating_add(rows);
        let own = self.rows_of.entry(Arc::clone(&list.namespace)).or_default();
        *own = own.saturating_add(rows);
    }

    fn forget(&mut self, number: u32, list: &List) {
        let rows = u32::try_from(list.ranges.len()).unwrap_or(u32::MAX);
        if self.index.get(&list.ranges) == Some(&number) {
            self.index.remove(&list.ranges);
        }
        self.rows = self.rows.saturating_sub(rows);
        if let Some(own) = self.rows_of.get_mut(&list.namespace) {
            *own = own.saturating_sub(rows);
            if *own == 0 {
                self.rows_of.remove(&list.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn equal_lists_share_a_number_until_it_is_free() {
        let mut lists = Lists::default();
        let (a, b) = (ranges(&["10.0.0.0/8"]), ranges(&["10.0.0.0/9"]));
        let first = lists.insert(&a, "ns", 100, 1).unwrap();
        assert_ne!(first, NOBODY);
        assert_eq!((lists.find(&a), lists.find(&b)), (Some(first), None));
        let list = lists.take(first).unwrap();
        assert_eq!(lists.find(&a), None);
        let second = lists.insert(&a, "ns", 100, 1).unwrap();
        assert_ne!(first, second);
        lists.remove(second);
        lists.put_back(first, list);
        assert_eq!(lists.find(&a), Some(first));
    }

    #[test]
    fn a_namespace_leaves_room_to_others() {
        let mut lists = Lists::default();
        let list = |number: u8| ranges(&[&format!("10.{number}.0.0/16"), "192.0.2.0/24"]);
        for number in 0..3 {
            assert!(lists.insert(&list(number), "greedy", 12, 1).is_some());
        }
        assert_eq!(lists.insert(&list(3), "greedy", 12, 1), None);
        assert!(lists.insert(&list(3), "modest", 12, 1).is_some());
        let first = lists.find(&list(0)).unwrap();
        lists.remove(first);
        assert!(lists.insert(&list(4), "greedy", 12, 1).is_some());
        assert!(lists.insert(&list(5), "modest", 12, 1).is_some());
        assert!(lists.insert(&list(6), "modest", 12, 1).is_some());
        assert_eq!(lists.insert(&list(7), "third", 12, 1), None);
    }
}
