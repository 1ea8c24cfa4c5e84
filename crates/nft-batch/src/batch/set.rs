//! Sets and maps, and which of them the batch knows.

use core::hash::BuildHasher;

use nl_codec::msg::{Family, Head, NftMsg};
use nl_codec::nft::{Set, Str};

use super::{Batch, by_name_or_handle, check_name, create, required};
use crate::order::Phase;
use crate::{BatchError, By, OpId, SetRef};

/// A set known to the batch.
#[derive(Debug)]
pub(super) struct SetEntry {
    pub(super) family: Family,
    /// Ends of the table's and the set's name in the name buffer, which begin at `start`.
    start: usize,
    table_end: usize,
    name_end: usize,
    id: Option<u32>,
    /// Section in which the lanes below are valid.
    pub(super) section: u32,
    pub(super) number: Option<u32>,
    pub(super) deletions: Option<usize>,
    pub(super) additions: Option<usize>,
}

impl Batch {
    /// Creates a set or map. Its id is chosen here ([`Set::id`] is not looked at).
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_set(&mut self, family: Family, set: &Set<'_>) -> Result<SetRef, BatchError> {
        self.push_set(Phase::AddSet, family, set)
    }

    /// Creates a set or map in front of those of [`Batch::add_set`]: the kernel searches sets by
    /// name in the order of their creation, so this is for the ones that change often.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_hot_set(&mut self, family: Family, set: &Set<'_>) -> Result<SetRef, BatchError> {
        self.push_set(Phase::AddHotSet, family, set)
    }

    /// A set or map by name: an existing one, or one that this batch creates.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn set(&mut self, family: Family, table: &str, name: &str) -> Result<SetRef, BatchError> {
        check_name("set", Some(Str::from(name)))?;
        let (table, name) = (table.as_bytes(), name.as_bytes());
        if let Some(index) = self.find_set(family, table, name) {
            let id = self.entry(index).and_then(|entry| entry.id);
            return Ok(self.set_ref(index, id));
        }
        let index = self.intern_set(family, table, name, None)?;
        Ok(self.set_ref(index, None))
    }

    /// Deletes a set or map with its elements.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_set(
        &mut self,
        family: Family,
        table: &str,
        set: By<'_>,
    ) -> Result<OpId, BatchError> {
        let mut body = by_name_or_handle!(Set::default(), name, set);
        body.table = Some(table.into());
        check_name("set", body.name)?;
        let head = Head::nft(NftMsg::DEL_SET, family);
        self.push("delete set", Phase::DeleteSet, head, &body)
    }

    /// Deletes a set or map if it exists. On kernels without DESTROY it is created and deleted,
    /// which fails if one of another type exists.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn destroy_set(&mut self, family: Family, set: &Set<'_>) -> Result<OpId, BatchError> {
        let what = "destroy set";
        let table = required(what, "a table", set.table)?;
        let name = required(what, "a name", set.name)?;
        check_name("set", set.name)?;
        let mut body = Set::default();
        body.table = Some(table);
        body.name = Some(name);
        if self.options.destroy {
            let head = Head::nft(NftMsg::DESTROY_SET, family);
            return self.push(what, Phase::DeleteSet, head, &body);
        }
        let op = OpId(self.operations);
        self.add_set(family, set)?;
        let head = Head::nft(NftMsg::DEL_SET, family);
        self.push_as(op, what, Phase::DeleteSet, head, &body)
    }

    fn push_set(
        &mut self,
        phase: Phase,
        family: Family,
        set: &Set<'_>,
    ) -> Result<SetRef, BatchError> {
        let what = "add set";
        let table = required(what, "a table", set.table)?.as_bytes();
        let name = required(what, "a name", set.name)?.as_bytes();
        check_name("set", set.name)?;
        let id = self.next_id;
        if id == u32::MAX {
            return Err(BatchError::TooMany("sets"));
        }
        let mut body = *set;
        body.id = Some(id);
        self.push(what, phase, create(NftMsg::NEW_SET, family), &body)?;
        self.next_id += 1;
        // In a batch that may be split, the set can be an existing one by the time it is used.
        let id = (!self.options.split).then_some(id);
        let index = match self.find_set(family, table, name) {
            // A set that was referred to by name before, or one that is created anew after a
            // barrier: from here on the name means the new one.
            Some(index) => {
                if let Some(entry) = self.entry_mut(index) {
                    entry.id = id;
                }
                index
            }
            None => self.intern_set(family, table, name, id)?,
        };
        Ok(self.set_ref(index, id))
    }

    /// Name of the set that this batch creates with `id`.
    pub(crate) fn set_name(&self, id: u32) -> Option<Str<'_>> {
        let entry = self.sets.iter().find(|entry| entry.id == Some(id))?;
        Some(Str::new(entry.name(&self.names)))
    }

    fn set_ref(&self, index: u32, id: Option<u32>) -> SetRef {
        SetRef {
            index,
            batch: self.batch,
            id,
        }
    }

    fn entry(&self, index: u32) -> Option<&SetEntry> {
        self.sets.get(usize::try_from(index).ok()?)
    }

    fn entry_mut(&mut self, index: u32) -> Option<&mut SetEntry> {
        self.sets.get_mut(usize::try_from(index).ok()?)
    }

    fn find_set(&self, family: Family, table: &[u8], name: &[u8]) -> Option<u32> {
        let hash = hash_set(&self.hasher, family, table, name);
        let same = |index: &u32| {
            self.entry(*index).is_some_and(|entry| {
                entry.family == family
                    && entry.table(&self.names) == table
                    && entry.name(&self.names) == name
            })
        };
        self.by_name.find(hash, same).copied()
    }

    fn intern_set(
        &mut self,
        family: Family,
        table: &[u8],
        name: &[u8],
        id: Option<u32>,
    ) -> Result<u32, BatchError> {
        let index = u32::try_from(self.sets.len()).map_err(|_| BatchError::TooMany("sets"))?;
        let start = self.names.len();
        self.names.extend_from_slice(table);
        let table_end = self.names.len();
        self.names.extend_from_slice(name);
        self.sets.push(SetEntry {
            family,
            start,
            table_end,
            name_end: self.names.len(),
            id,
            section: self.lanes.section(),
            number: None,
            deletions: None,
            additions: None,
        });
        let Self {
            by_name,
            sets,
            names,
            hasher,
            ..
        } = self;
        by_name.insert_unique(hash_set(hasher, family, table, name), index, |index| {
            usize::try_from(*index)
                .ok()
                .and_then(|index| sets.get(index))
                .map_or(0, |entry| {
                    hash_set(hasher, entry.family, entry.table(names), entry.name(names))
                })
        });
        Ok(index)
    }
}

impl SetEntry {
    pub(super) fn table<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        names.get(self.start..self.table_end).unwrap_or_default()
    }

    pub(super) fn name<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        names.get(self.table_end..self.name_end).unwrap_or_default()
    }
}

fn hash_set(
    hasher: &hashbrown::DefaultHashBuilder,
    family: Family,
    table: &[u8],
    name: &[u8],
) -> u64 {
    hasher.hash_one((family.0, table, name))
}
