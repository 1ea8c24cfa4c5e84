//! The open batch: where operations are collected.

use core::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashTable;
use nl_codec::msg::{Body, Family, Flags, Head, NftMsg};
use nl_codec::nft::elem::PutElem;
use nl_codec::nft::{Chain, ElemList, Rule, Set, Str, Table};

use crate::chunk::Pool;
use crate::order::{Lanes, Phase};
use crate::sealed::SealedBatch;
use crate::{BatchError, By, OpId, SetRef};

/// `NFT_NAME_MAXLEN` - 1.
const NAME_MAX: usize = 255;

/// Tells batches apart, so that a [`SetRef`] is only good in its own.
static NEXT_BATCH: AtomicU32 = AtomicU32::new(1);

/// What a batch may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchOptions {
    /// The batch may become several transactions when the send buffer cannot be made large enough.
    /// The cuts are around element messages: what is referred to goes first, then elements, then
    /// rules; deletions from and additions to one set stay together. New sets are referred to by
    /// name then, as an id does not outlive its transaction.
    pub split: bool,
    /// The kernel has the DESTROY messages (Linux 6.3). Without them, destroying tables, chains
    /// and sets is adding and deleting them in one batch.
    pub destroy: bool,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            split: false,
            destroy: true,
        }
    }
}

impl BatchOptions {
    /// Sets [`Self::split`].
    #[must_use]
    pub fn split(mut self, split: bool) -> Self {
        self.split = split;
        self
    }

    /// Sets [`Self::destroy`].
    #[must_use]
    pub fn destroy(mut self, destroy: bool) -> Self {
        self.destroy = destroy;
        self
    }
}

/// A set known to the batch.
#[derive(Debug)]
struct SetEntry {
    family: Family,
    /// Ends of the table's and the set's name in the name buffer, which begin at `start`.
    start: usize,
    table_end: usize,
    name_end: usize,
    id: Option<u32>,
    /// Section in which the lanes below are valid.
    section: u32,
    number: Option<u32>,
    deletions: Option<usize>,
    additions: Option<usize>,
}

/// Collects operations. Each method is one operation, encoded at once; the order of calls does not
/// matter within a section (see [`Batch::barrier`]): tables, sets, objects, flowtables and chains
/// are added first, then elements change (per set deletions before additions), then rules go, then
/// rules come, then sets, chains, objects, flowtables and tables go.
#[derive(Debug)]
pub struct Batch {
    pub(crate) lanes: Lanes,
    pub(crate) options: BatchOptions,
    pub(crate) generation: Option<u32>,
    pub(crate) starts: Vec<u32>,
    pool: Pool,
    sets: Vec<SetEntry>,
    by_name: HashTable<u32>,
    hasher: hashbrown::DefaultHashBuilder,
    names: Vec<u8>,
    next_id: u32,
    operations: u32,
    batch: u32,
}

impl Default for Batch {
    fn default() -> Self {
        Self::new(BatchOptions::default())
    }
}

/// Kinds of objects that are deleted by name or handle.
macro_rules! by_name_or_handle {
    ($object:expr, $name:ident, $by:expr) => {{
        let mut object = $object;
        match $by {
            By::Name(name) => object.$name = Some(name.into()),
            By::Handle(handle) => object.handle = Some(handle),
        }
        object
    }};
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new(options: BatchOptions) -> Self {
        Self {
            lanes: Lanes::default(),
            options,
            generation: None,
            starts: Vec::new(),
            pool: Pool::default(),
            sets: Vec::new(),
            by_name: HashTable::new(),
            hasher: hashbrown::DefaultHashBuilder::default(),
            names: Vec::new(),
            next_id: 1,
            operations: 0,
            batch: NEXT_BATCH.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Closes the batch.
    #[must_use]
    pub fn seal(self) -> SealedBatch {
        SealedBatch::new(self)
    }

    /// Number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.operations
    }

    /// Removes all operations and keeps options and buffers.
    pub fn clear(&mut self) {
        self.lanes.recycle(&mut self.pool);
        self.generation = None;
        self.sets.clear();
        self.by_name.clear();
        self.names.clear();
        self.next_id = 1;
        self.operations = 0;
        self.batch = NEXT_BATCH.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the transaction fail as [`crate::Outcome::GenerationMismatch`] unless `generation` is
    /// still current when it arrives. The generation is that of the whole network namespace: any
    /// transaction of anybody advances it.
    pub fn expect_generation(&mut self, generation: u32) {
        self.generation = Some(generation);
    }

    /// Starts a new section: everything added from here on is executed after everything before.
    /// Needed where an object goes and another of its name comes, as when a base chain changes its
    /// hook. The transaction stays one.
    pub fn barrier(&mut self) {
        self.lanes.next_section();
    }

    /// Creates a table, or changes its flags.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_table(&mut self, family: Family, table: &Table<'_>) -> Result<OpId, BatchError> {
        let what = "add table";
        required(what, "a name", table.name)?;
        check_name("table", table.name)?;
        self.push(
            what,
            Phase::AddTable,
            create(NftMsg::NEW_TABLE, family),
            table,
        )
    }

    /// Deletes a table with everything in it.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_table(&mut self, family: Family, table: By<'_>) -> Result<OpId, BatchError> {
        let table = by_name_or_handle!(Table::default(), name, table);
        check_name("table", table.name)?;
        self.push(
            "delete table",
            Phase::DeleteTable,
            Head::nft(NftMsg::DEL_TABLE, family),
            &table,
        )
    }

    /// Deletes a table if it exists.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn destroy_table(&mut self, family: Family, name: &str) -> Result<OpId, BatchError> {
        let table = Table::named(name);
        check_name("table", table.name)?;
        if self.options.destroy {
            return self.push(
                "destroy table",
                Phase::DeleteTable,
                Head::nft(NftMsg::DESTROY_TABLE, family),
                &table,
            );
        }
        let op = self.add_table(family, &table)?;
        let head = Head::nft(NftMsg::DEL_TABLE, family);
        self.push_as(op, "destroy table", Phase::DeleteTable, head, &table)
    }

    /// Creates a chain, or changes the policy of one.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_chain(&mut self, family: Family, chain: &Chain<'_>) -> Result<OpId, BatchError> {
        let what = "add chain";
        required(what, "a table", chain.table)?;
        required(what, "a name", chain.name)?;
        check_name("chain", chain.name)?;
        self.push(
            what,
            Phase::AddChain,
            create(NftMsg::NEW_CHAIN, family),
            chain,
        )
    }

    /// Deletes a chain with its rules. By name, its rules go before the sets which this section
    /// deletes; by handle they go after them (`DELRULE` takes no chain handle).
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_chain(
        &mut self,
        family: Family,
        table: &str,
        chain: By<'_>,
    ) -> Result<OpId, BatchError> {
        let mut body = by_name_or_handle!(Chain::default(), name, chain);
        body.table = Some(table.into());
        check_name("chain", body.name)?;
        let head = Head::nft(NftMsg::DEL_CHAIN, family);
        let By::Name(name) = chain else {
            return self.push("delete chain", Phase::DeleteChain, head, &body);
        };
        let op = self.flush_chain(family, table, name)?;
        self.push_as(op, "delete chain", Phase::DeleteChain, head, &body)
    }

    /// Deletes a chain if it exists.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn destroy_chain(
        &mut self,
        family: Family,
        table: &str,
        name: &str,
    ) -> Result<OpId, BatchError> {
        let chain = Chain::named(table, name);
        check_name("chain", chain.name)?;
        if self.options.destroy {
            let head = Head::nft(NftMsg::DESTROY_CHAIN, family);
            return self.push("destroy chain", Phase::DeleteChain, head, &chain);
        }
        let op = self.add_chain(family, &chain)?;
        let head = Head::nft(NftMsg::DEL_CHAIN, family);
        self.push_as(op, "destroy chain", Phase::DeleteChain, head, &chain)
    }

    /// Appends a rule to its chain, or with [`Rule::position`] puts it after that rule.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn add_rule(&mut self, family: Family, rule: &Rule<'_>) -> Result<OpId, BatchError> {
        let head = create(NftMsg::NEW_RULE, family).with_flags(Flags::APPEND);
        self.push_rule("add rule", head, rule)
    }

    /// Puts a rule at the beginning of its chain, or with [`Rule::position`] before that rule.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn insert_rule(&mut self, family: Family, rule: &Rule<'_>) -> Result<OpId, BatchError> {
        self.push_rule("insert rule", create(NftMsg::NEW_RULE, family), rule)
    }

    /// Puts a rule in the place of the one with its [`Rule::handle`].
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn replace_rule(&mut self, family: Family, rule: &Rule<'_>) -> Result<OpId, BatchError> {
        let what = "replace rule";
        required(what, "a handle", rule.handle)?;
        let head = Head::nft(NftMsg::NEW_RULE, family).with_flags(Flags::REPLACE);
        self.push_rule(what, head, rule)
    }

    /// Deletes one rule.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn delete_rule(
        &mut self,
        family: Family,
        table: &str,
        chain: &str,
        handle: u64,
    ) -> Result<OpId, BatchError> {
        let rule = Rule::at(table, chain, Some(handle));
        self.push(
            "delete rule",
            Phase::DeleteRule,
            Head::nft(NftMsg::DEL_RULE, family),
            &rule,
        )
    }

    /// Deletes all rules of a chain.
    ///
    /// # Errors
    /// See [`BatchError`].
    pub fn flush_chain(
        &mut self,
        family: Family,
        table: &str,
        chain: &str,
    ) -> Result<OpId, BatchError> {
        let rule = Rule::at(table, chain, None);
        check_name("chain", rule.chain)?;
        self.push(
            "flush chain",
            Phase::DeleteRule,
            Head::nft(NftMsg::DEL_RULE, family),
            &rule,
        )
    }

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

    pub(crate) fn push<'a, B: Body<'a>>(
        &mut self,
        what: &'static str,
        phase: Phase,
        head: Head,
        body: &B,
    ) -> Result<OpId, BatchError> {
        let op = self.next_op()?;
        self.push_as(op, what, phase, head, body)?;
        self.operations += 1;
        Ok(op)
    }

    /// Adds a message to the operation `op`.
    pub(crate) fn push_as<'a, B: Body<'a>>(
        &mut self,
        op: OpId,
        what: &'static str,
        phase: Phase,
        head: Head,
        body: &B,
    ) -> Result<OpId, BatchError> {
        let Some(lane) = self.lanes.phase(phase) else {
            return Err(BatchError::TooMany("phases"));
        };
        lane.push(&mut self.pool, op, &head, body)
            .map_err(|error| BatchError::Encode { what, error })?;
        Ok(op)
    }

    fn push_rule(
        &mut self,
        what: &'static str,
        head: Head,
        rule: &Rule<'_>,
    ) -> Result<OpId, BatchError> {
        required(what, "a table", rule.table)?;
        if rule.chain.is_none() && rule.chain_id.is_none() {
            let field = "a chain";
            return Err(BatchError::Missing { what, field });
        }
        self.push(what, Phase::AddRule, head, rule)
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
            ..
        } = self;
        let Some((entry, lane)) = entry_and_lane(sets, lanes, set.index, at) else {
            return Err(BatchError::ForeignSet);
        };
        // The kernel looks at the id in additions alone.
        let id = if additions { set.id } else { None };
        let body = element_list(entry, names, id);
        let mark = lane.mark();
        if let Err(error) = lane.push_elements(pool, op, &head(entry.family), &body, elements) {
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

    fn next_op(&self) -> Result<OpId, BatchError> {
        if self.operations == u32::MAX {
            return Err(BatchError::TooMany("operations"));
        }
        Ok(OpId(self.operations))
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
    fn table<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        names.get(self.start..self.table_end).unwrap_or_default()
    }

    fn name<'n>(&self, names: &'n [u8]) -> &'n [u8] {
        names.get(self.table_end..self.name_end).unwrap_or_default()
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
) -> Option<(&'b SetEntry, &'b mut crate::lane::Lane)> {
    Some((sets.get(usize::try_from(index).ok()?)?, lanes.lane(lane)?))
}

fn hash_set(
    hasher: &hashbrown::DefaultHashBuilder,
    family: Family,
    table: &[u8],
    name: &[u8],
) -> u64 {
    use core::hash::BuildHasher;
    hasher.hash_one((family.0, table, name))
}

fn create(msg: NftMsg, family: Family) -> Head {
    Head::nft(msg, family).with_flags(Flags::CREATE)
}

fn required<T>(what: &'static str, field: &'static str, value: Option<T>) -> Result<T, BatchError> {
    value.ok_or(BatchError::Missing { what, field })
}

pub(crate) fn check_name(what: &'static str, name: Option<Str<'_>>) -> Result<(), BatchError> {
    match name {
        Some(name) if name.as_bytes().len() > NAME_MAX => Err(BatchError::NameTooLong {
            what,
            len: name.as_bytes().len(),
            name: String::from_utf8_lossy(name.as_bytes().get(..64).unwrap_or_default())
                .into_owned(),
        }),
        _ => Ok(()),
    }
}
