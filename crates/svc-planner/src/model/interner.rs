//! Strings that many objects share, counted so that they go when their last user does.

use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::arena::Arena;

#[derive(Debug)]
struct Entry {
    text: Box<str>,
    uses: u32,
}

/// Namespaces, port names and lists of zones.
#[derive(Debug, Default)]
pub(crate) struct Interner {
    entries: Arena<Entry>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Interner {
    /// The number of a string, to be given back with [`release`](Self::release).
    pub(crate) fn acquire(&mut self, text: &str) -> u32 {
        if let Some(id) = self.find(text) {
            if let Some(entry) = self.entries.at_mut(id) {
                entry.uses = entry.uses.saturating_add(1);
            }
            return id;
        }
        let id = self.entries.insert(Entry {
            text: text.into(),
            uses: 1,
        });
        let (entries, hasher) = (&self.entries, &self.hasher);
        self.index.insert_unique(hasher.hash_one(text), id, |&id| {
            hasher.hash_one(entries.at(id).map_or("", |entry| &entry.text))
        });
        id
    }

    pub(crate) fn release(&mut self, id: u32) {
        let Some(entry) = self.entries.at_mut(id) else {
            return;
        };
        entry.uses = entry.uses.saturating_sub(1);
        if entry.uses > 0 {
            return;
        }
        let hash = self.hasher.hash_one(&*entry.text);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == id) {
            found.remove();
        }
        self.entries.remove(id);
    }

    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        let same = |&id: &u32| self.text(id) == text;
        self.index.find(self.hasher.hash_one(text), same).copied()
    }

    pub(crate) fn text(&self, id: u32) -> &str {
        self.entries.at(id).map_or("", |entry| &entry.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_live_as_long_as_they_are_used() {
        let mut names = Interner::default();
        let a = names.acquire("a");
        let b = names.acquire("b");
        assert_eq!(names.acquire("a"), a);
        names.release(a);
        assert_eq!((names.text(a), names.text(b)), ("a", "b"));
        names.release(a);
        assert_eq!(names.find("a"), None);
        assert_eq!(names.acquire("c"), a);
    }
}
