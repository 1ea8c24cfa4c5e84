//! Elements of sets and maps.

use nl_codec::msg::{Family, Flags, Head, NftMsg};
use nl_codec::nft::elem::PutElem;
use nl_codec::nft::{ElemList, Str};

use super::set::SetEntry;
use super::{Batch, create};
use crate::lane::Lane;
use crate::order::Lanes;
use crate::{BatchError, OpId, SetRef};

impl Batch {
    /// Adds elements: rows that exist with the same data stay, other data is EEXIST.
    ///
    /// # Errors
    /// See [`BatchError`]; none of the elements is added then.
    pub fn add_elements(
        &mut self,
        set: SetRef,
        elements: impl IntoIterator<Item: PutElem>,
    ) -> Result<OpId, BatchError> {
        let head = |family| create(NftMsg::NEW_SETELEM, family);
        self.push_elements("add elements", set, true, head, elements)
    }

    /// Adds elements that must not exist.
    ///
    /// # Errors
    /// See [`BatchError`]; none of the elements is added then.
    pub fn create_elements(
        &mut self,
        set: SetRef,
        elements: impl IntoIterator<Item: PutElem>,
    ) -> Result<OpId, BatchError> {
        let head = |family| create(NftMsg::NEW_SETELEM, family).with_flags(Flags::EXCL);
        self.push_elements("create elements", set, true, head, elements)
    }

    /// Deletes elements, before any additions to the set.
    ///
    /// # Errors
    /// See [`BatchError`]; none of the elements is deleted then.
    pub fn delete_elements(
        &mut self,
        set: SetRef,
        elements: impl IntoIterator<Item: PutElem>,
    ) -> Result<OpId, BatchError> {
        let head = |family| Head::nft(NftMsg::DEL_SETELEM, family);
        self.push_elements("delete elements", set, false, head, elements)
    }

    /// Deletes those elements that exist.
    ///
    /// # Errors
    /// [`BatchError::Unsupported`] on kernels without DESTROY messages, as there is no other way.
    pub fn destroy_elements(
        &mut self,
        set: SetRef,
        elements: impl IntoIterator<Item: PutElem>,
    ) -> Result<OpId, BatchError> {
        if !self.options.destroy {
            return Err(BatchError::Unsupported("destroy elements"));
        }
        let head = |family| Head::nft(NftMsg::DESTROY_SETELEM, family);
        self.push_elements("destroy elements", set, false, head, elements)
    }

    /// Deletes all elements of a set, before any additions to it.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn flush_set(&mut self, set: SetRef) -> Result<OpId, BatchError> {
        let what = "flush set";
        let at = self.element_lane(set, false)?;
        let op = self.next_op()?;
        let Self {
            lanes,
            pool,
            sets,
            names,
            ..
        } = self;
        let Some((entry, lane)) = entry_and_lane(sets, lanes, set.index, at) else {
            return Err(BatchError::ForeignSet);
        };
        let body = element_list(entry, names, None);
        lane.push(
            pool,
            op,
            &Head::nft(NftMsg::DEL_SETELEM, entry.family),
            &body,
        )
        .map_err(|error| BatchError::Encode { what, error })?;
        self.operations += 1;
        Ok(op)
    }

    fn push_elements(
        &mut self,
        what: &'static str,
        set: SetRef,
        additions: bool,
        head: impl Fn(Family) -> Head,
        elements: impl IntoIterator<Item: PutElem>,
    ) -> Result<OpId, BatchError> {
        let at = self.element_lane(set, additions)?;
        let op = self.next_op()?;
        let Self {
            lanes,
            pool,
            sets,
            names,
            options,
            ..
        } = self;
        let Some((entry, lane)) = entry_and_lane(sets, lanes, set.index, at) else {
            return Err(BatchError::ForeignSet);
        };
        // The kernel looks at the id in additions alone.
        let id = if additions { set.id } else { None };
        let body = element_list(entry, names, id);
        let mark = lane.mark();
        let message = (&head(entry.family), &body);
        if let Err(error) = lane.push_elements(pool, op, message, options.isolate, elements) {
            lane.truncate(&mark);
            return Err(BatchError::Encode { what, error });
        }
        self.operations += 1;
        Ok(op)
    }

    /// The lane for changes of `set` in this section.
    fn element_lane(&mut self, set: SetRef, additions: bool) -> Result<usize, BatchError> {
        if set.batch != self.batch {
            return Err(BatchError::ForeignSet);
        }
        let section = self.lanes.section();
        let Self { lanes, sets, .. } = self;
        let entry = usize::try_from(set.index)
            .ok()
            .and_then(|index| sets.get_mut(index))
            .ok_or(BatchError::ForeignSet)?;
        if entry.section != section {
            entry.section = section;
            entry.number = None;
            entry.deletions = None;
            entry.additions = None;
        }
        let number = *entry.number.get_or_insert_with(|| lanes.next_set());
        let slot = if additions {
            &mut entry.additions
        } else {
            &mut entry.deletions
        };
        Ok(*slot.get_or_insert_with(|| lanes.open_elements(number, additions)))
    }
}

/// Which set an element message is about. With an id the name is left out: the kernel would search
/// the name first.
fn element_list<'a>(entry: &SetEntry, names: &'a [u8], id: Option<u32>) -> ElemList<'a> {
    let mut list = ElemList::default();
    list.table = Some(Str::new(entry.table(names)));
    list.set = id.is_none().then(|| Str::new(entry.name(names)));
    list.set_id = id;
    list
}

fn entry_and_lane<'b>(
    sets: &'b [SetEntry],
    lanes: &'b mut Lanes,
    index: u32,
    lane: usize,
) -> Option<(&'b SetEntry, &'b mut Lane)> {
    Some((sets.get(usize::try_from(index).ok()?)?, lanes.lane(lane)?))
}
