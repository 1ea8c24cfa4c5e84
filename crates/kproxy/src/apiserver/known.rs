//! Which objects the server has told of, and in which version: all that is kept of them. It takes
//! deletions of what a new list no longer holds, and lets through only what changed.

use core::hash::BuildHasher as _;
use std::collections::VecDeque;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::ingest::ObjectId;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Known {
    entries: HashTable<Entry>,
    hasher: DefaultHashBuilder,
    round: u32,
    /// The last deletions, for events that come out of order.
    deleted: VecDeque<(u64, Version)>,
}

/// How many deletions are remembered.
const DELETIONS: usize = 1_024;

#[derive(Debug)]
struct Entry {
    /// `namespace/name`.
    key: Box<str>,
    version: Version,
    round: u32,
}

/// `resourceVersion`: a number that grows (KEP-5504), or any text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    Number(u64),
    Hash(u64),
}

impl Version {
    pub(super) fn of(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default();
        text.parse().map_or_else(
            |_| Self::Hash(foldhash::fast::FixedState::default().hash_one(text)),
            Self::Number,
        )
    }

    /// Whether both can be compared, and this is the older one.
    const fn is_older_than(self, other: Self) -> bool {
        match (self, other) {
            (Self::Number(this), Self::Number(other)) => this < other,
            _ => false,
        }
    }
}

impl Known {
    /// How many objects there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// A list begins: what it does not hold is gone when it [ends](Self::end_list).
    pub(super) fn begin_list(&mut self) {
        self.round = self.round.wrapping_add(1);
    }

    /// A list holds this object; whether it differs from what is known.
    pub(super) fn listed(&mut self, id: &ObjectId, version: Version) -> bool {
        self.put(id, version, |known, version| known != version)
    }

    /// A list holds this object, which cannot be read: it stays as it is.
    pub(super) fn kept(&mut self, id: &ObjectId) {
        let round = self.round;
        if let Some(entry) = self.find(id) {
            entry.round = round;
        }
    }

    /// A watch tells that the object is so now; false if later news of it came before.
    pub(super) fn changed(&mut self, id: &ObjectId, version: Version) -> bool {
        let hash = self.hash(id);
        let overtaken =
            |(deleted, at): &(u64, Version)| *deleted == hash && version.is_older_than(*at);
        if self.deleted.iter().any(overtaken) {
            return false;
        }
        self.put(id, version, |known, version| {
            known != version && !version.is_older_than(known)
        })
    }

    /// A watch tells that the object is gone; false if later news of it came before, or it never was.
    pub(super) fn deleted(&mut self, id: &ObjectId, version: Version) -> bool {
        let hash = self.hash(id);
        let key = Key(id);
        let found = self.entries.find_entry(hash, |entry| key.is(&entry.key));
        let Ok(entry) = found else {
            return false;
        };
        if version.is_older_than(entry.get().version) {
            return false;
        }
        entry.remove();
        if self.deleted.len() == DELETIONS {
            self.deleted.pop_front();
        }
        self.deleted.push_back((hash, version));
        true
    }

    /// The list is complete: `on_gone` gets namespace and name of what it did not hold.
    pub(super) fn end_list(&mut self, mut on_gone: impl FnMut(&str, &str)) {
        let round = self.round;
        for entry in self.entries.extract_if(|entry| entry.round != round) {
            let (namespace, name) = entry.key.split_once('/').unwrap_or(("", &entry.key));
            on_gone(namespace, name);
        }
        // What is deleted from here on is deleted after this list.
        self.deleted.clear();
    }

    fn put(
        &mut self,
        id: &ObjectId,
        version: Version,
        differs: impl FnOnce(Version, Version) -> bool,
    ) -> bool {
        let round = self.round;
        if let Some(entry) = self.find(id) {
            entry.round = round;
            let differs = differs(entry.version, version);
            if differs {
                entry.version = version;
            }
            return differs;
        }
        let hash = self.hash(id);
        let entry = Entry {
            key: format!("{}/{}", id.namespace, id.name).into(),
            version,
            round,
        };
        let hasher = &self.hasher;
        self.entries
            .insert_unique(hash, entry, |entry| hash_of(hasher, entry.key.as_bytes()));
        true
    }

    fn find(&mut self, id: &ObjectId) -> Option<&mut Entry> {
        let hash = self.hash(id);
        let key = Key(id);
        self.entries.find_mut(hash, |entry| key.is(&entry.key))
    }

    fn hash(&self, id: &ObjectId) -> u64 {
        let parts = [id.namespace.as_bytes(), b"/", id.name.as_bytes()];
        hash_of(&self.hasher, &parts.concat())
    }
}

fn hash_of(hasher: &DefaultHashBuilder, key: &[u8]) -> u64 {
    hasher.hash_one(key)
}

/// The key of an object, without making it.
#[derive(Clone, Copy)]
struct Key<'a>(&'a ObjectId);

impl Key<'_> {
    fn is(self, key: &str) -> bool {
        let rest = key.strip_prefix(&*self.0.namespace);
        rest.and_then(|rest| rest.strip_prefix('/')) == Some(&*self.0.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Kind;

    fn id(namespace: &str, name: &str) -> ObjectId {
        ObjectId {
            kind: Kind::Service,
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    fn v(number: u64) -> Version {
        Version::Number(number)
    }

    fn gone(known: &mut Known) -> Vec<String> {
        let mut gone = Vec::new();
        known.end_list(|namespace, name| gone.push(format!("{namespace}/{name}")));
        gone.sort();
        gone
    }

    #[test]
    fn a_list_replaces_what_was_and_tells_only_what_differs() {
        let mut known = Known::default();
        known.begin_list();
        assert!(known.listed(&id("a", "x"), v(1)));
        assert!(known.listed(&id("a", "y"), v(2)));
        assert!(known.listed(&id("b", "x"), v(3)));
        assert_eq!(gone(&mut known), Vec::<String>::new());
        assert!(known.changed(&id("a", "z"), v(4)));

        known.begin_list();
        assert!(!known.listed(&id("a", "x"), v(1)));
        // Older, as after etcd was restored from a backup: the list is right.
        assert!(known.listed(&id("b", "x"), v(2)));
        known.kept(&id("a", "y"));
        assert_eq!(gone(&mut known), ["a/z"]);
        assert_eq!(known.len(), 3);
    }

    #[test]
    fn a_list_that_is_cut_removes_nothing() {
        let mut known = Known::default();
        known.begin_list();
        known.listed(&id("a", "x"), v(1));
        known.listed(&id("a", "y"), v(1));
        gone(&mut known);
        known.begin_list();
        known.listed(&id("a", "x"), v(1));
        // It broke; the next one is complete.
        known.begin_list();
        known.listed(&id("a", "y"), v(1));
        assert_eq!(gone(&mut known), ["a/x"]);
    }

    #[test]
    fn late_news_are_no_news() {
        let mut known = Known::default();
        assert!(known.changed(&id("a", "x"), v(5)));
        assert!(!known.changed(&id("a", "x"), v(5)));
        assert!(!known.changed(&id("a", "x"), v(4)));
        assert!(!known.deleted(&id("a", "x"), v(4)));
        assert!(known.deleted(&id("a", "x"), v(7)));
        assert!(!known.deleted(&id("a", "x"), v(8)));
        // What was overtaken by the deletion does not bring it back; a new object does.
        assert!(!known.changed(&id("a", "x"), v(6)));
        assert!(known.changed(&id("a", "x"), v(9)));
        assert!(!known.deleted(&id("a", "never"), v(9)));
    }

    #[test]
    fn versions_that_are_no_numbers_only_differ() {
        let mut known = Known::default();
        let version = |text| Version::of(Some(text));
        assert!(known.changed(&id("", "n"), version("b")));
        assert!(known.changed(&id("", "n"), version("a")));
        assert!(!known.changed(&id("", "n"), version("a")));
        assert_eq!(Version::of(None), Version::of(Some("")));
    }
}
