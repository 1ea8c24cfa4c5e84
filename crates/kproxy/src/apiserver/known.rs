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
    /// `namespace/name` of all of them, one behind the other, and of some that are gone.
    names: Vec<u8>,
    /// So many bytes of `names` are of objects that are gone.
    stale: usize,
    hasher: DefaultHashBuilder,
    round: u32,
    /// The last deletions, for events that come out of order.
    deleted: VecDeque<(u64, Version)>,
}

/// How many deletions are remembered.
const DELETIONS: usize = 1_024;
/// So many bytes of names are not worth tidying up for.
const LITTLE: usize = 64 << 10;

#[derive(Debug, Clone, Copy)]
struct Entry {
    version: Version,
    /// Where its name is in `names`.
    at: u32,
    length: u32,
    round: u32,
}

impl Entry {
    fn name<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        let at = usize::try_from(self.at).unwrap_or(usize::MAX);
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let name = names.get(at..).and_then(|names| names.get(..length));
        name.unwrap_or_default()
    }
}

/// `resourceVersion`: a number that grows (KEP-5504), or the hash of any other text, which has the
/// highest bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(u64);

impl Version {
    /// Of an object of which no version is known.
    pub(super) const UNKNOWN: Self = Self(HASHED);

    pub(super) fn of(text: Option<&str>) -> Self {
        let text = text.unwrap_or_default();
        let number = text.parse().ok().filter(|number| number & HASHED == 0);
        let hash = || foldhash::fast::FixedState::default().hash_one(text) | HASHED;
        Self(number.unwrap_or_else(hash))
    }

    /// Whether both can be compared, and this is the older one.
    const fn is_older_than(self, other: Self) -> bool {
        (self.0 | other.0) & HASHED == 0 && self.0 < other.0
    }
}

const HASHED: u64 = 1 << 63;

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
        let (key, names) = (Key(id), &self.names);
        let found = self
            .entries
            .find_entry(hash, |entry| key.is(entry.name(names)));
        let Ok(entry) = found else {
            return false;
        };
        if version.is_older_than(entry.get().version) {
            return false;
        }
        let (entry, _) = entry.remove();
        self.stale += entry.name(&self.names).len();
        self.tidy_up();
        if self.deleted.len() == DELETIONS {
            self.deleted.pop_front();
        }
        self.deleted.push_back((hash, version));
        true
    }

    /// The list is complete: `on_gone` gets namespace and name of what it did not hold.
    pub(super) fn end_list(&mut self, mut on_gone: impl FnMut(&str, &str)) {
        let (round, names) = (self.round, &self.names);
        for entry in self.entries.extract_if(|entry| entry.round != round) {
            let name = entry.name(names);
            self.stale += name.len();
            let name = core::str::from_utf8(name).unwrap_or_default();
            let (namespace, name) = name.split_once('/').unwrap_or(("", name));
            on_gone(namespace, name);
        }
        self.tidy_up();
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
        let at = u32::try_from(self.names.len());
        let key = [id.namespace.as_bytes(), b"/", id.name.as_bytes()];
        let length = u32::try_from(key.iter().map(|part| part.len()).sum::<usize>());
        // More than 4 GiB of names is no cluster.
        if let (Ok(at), Ok(length)) = (at, length) {
            key.iter()
                .for_each(|part| self.names.extend_from_slice(part));
            let entry = Entry {
                version,
                at,
                length,
                round,
            };
            let (hasher, names) = (&self.hasher, &self.names);
            let hashed = |entry: &Entry| hasher.hash_one(entry.name(names));
            self.entries.insert_unique(hash, entry, hashed);
        }
        true
    }

    fn find(&mut self, id: &ObjectId) -> Option<&mut Entry> {
        let hash = self.hash(id);
        let (key, names) = (Key(id), &self.names);
        self.entries
            .find_mut(hash, |entry| key.is(entry.name(names)))
    }

    fn hash(&self, id: &ObjectId) -> u64 {
        let parts = [id.namespace.as_bytes(), b"/", id.name.as_bytes()];
        self.hasher.hash_one(parts.concat().as_slice())
    }

    /// Drops the names of what is gone once they are most of all.
    fn tidy_up(&mut self) {
        if self.stale < LITTLE || self.stale < self.names.len() / 2 {
            return;
        }
        let mut names = Vec::with_capacity(self.names.len() - self.stale);
        for entry in &mut self.entries {
            // Fewer than before, so there is a number for each.
            let at = u32::try_from(names.len()).unwrap_or_default();
            names.extend_from_slice(entry.name(&self.names));
            entry.at = at;
        }
        self.names = names;
        self.stale = 0;
    }
}

/// The key of an object, without making it.
#[derive(Clone, Copy)]
struct Key<'a>(&'a ObjectId);

impl Key<'_> {
    fn is(self, key: &[u8]) -> bool {
        let rest = key.strip_prefix(self.0.namespace.as_bytes());
        rest.and_then(|rest| rest.strip_prefix(b"/")) == Some(self.0.name.as_bytes())
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
        Version::of(Some(&number.to_string()))
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
    fn names_of_what_is_gone_do_not_pile_up() {
        let mut known = Known::default();
        for round in 0..20_u64 {
            for number in 0..1_000 {
                assert!(known.changed(&id("team", &format!("{round}-{number}")), v(round + 1)));
            }
            known.begin_list();
            for number in 0..500 {
                assert!(!known.listed(&id("team", &format!("{round}-{number}")), v(round + 1)));
            }
            let left_out = gone(&mut known).len();
            assert!(left_out >= 500 && known.len() == 500, "{left_out}");
        }
        assert!(known.names.len() < 4 * LITTLE, "{}", known.names.len());
        assert!(known.deleted(&id("team", "19-7"), v(30)));
        assert_eq!(known.len(), 499);
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
