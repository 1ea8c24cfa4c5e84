//! The open batch: where operations are collected.

mod chain;
mod element;
mod object;
mod rule;
mod set;
mod table;

use core::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashTable;
use nl_codec::msg::{Body, Family, Flags, Head, NftMsg};
use nl_codec::nft::Str;

use self::set::SetEntry;
use crate::chunk::Pool;
use crate::order::{Lanes, Phase};
use crate::sealed::SealedBatch;
use crate::{BatchError, OpId};

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
    /// Every element gets a message of its own: the kernel names the first bad element of each
    /// message, and so all of them. Longer and slower; for a batch that was refused.
    pub isolate: bool,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            split: false,
            destroy: true,
            isolate: false,
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

    /// Sets [`Self::isolate`].
    #[must_use]
    pub fn isolate(mut self, isolate: bool) -> Self {
        self.isolate = isolate;
        self
    }
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

    /// What it may do.
    #[must_use]
    pub fn options(&self) -> BatchOptions {
        self.options
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

    fn next_op(&self) -> Result<OpId, BatchError> {
        if self.operations == u32::MAX {
            return Err(BatchError::TooMany("operations"));
        }
        Ok(OpId(self.operations))
    }
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

/// Kinds of objects that are deleted by name or handle.
macro_rules! by_name_or_handle {
    ($object:expr, $name:ident, $by:expr) => {{
        let mut object = $object;
        match $by {
            $crate::By::Name(name) => object.$name = Some(name.into()),
            $crate::By::Handle(handle) => object.handle = Some(handle),
        }
        object
    }};
}
use by_name_or_handle;
