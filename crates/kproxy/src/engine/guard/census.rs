//! Looking for rows that should not be there, where the kernel does not tell how many there are: in all
//! sets before Linux 6.17, and in sets of prefixes always, as another row may have taken the place of
//! one of ours there, whose rows cannot be read one by one.
//!
//! Clients that stick are counted as well: their rows come and go by themselves, but room may run short.
//!
//! The only way is a dump. It rests between datagrams, so that changes never wait for more than one of
//! them. What changes meanwhile may be missed; what looks surplus is read by key before it is deleted.

use core::hash::BuildHasher as _;
use core::time::Duration;
use std::hash::RandomState;

use nft_batch::{Connection, ElementWalk, QueryError, Socket, Walked};
use svc_planner::plan::{Family, Key, KeyType, Name};
use svc_planner::{ExpectedSet, Planner};

use super::super::TABLE;
use super::structure::Structure;
use crate::lower::{boundaries, boundary_of, key_bytes, key_of, nf_family};

/// Datagrams read at a time, of some hundred rows each.
const DATAGRAMS: u32 = 4;
/// Rows that so many hold at least.
const ROWS: u64 = 1024;
/// A set of prefixes is read in one go when that many attempts met somebody else's transactions.
const TRIES: u32 = 3;

/// How far it has got in the table of a family.
#[derive(Debug)]
pub(super) struct Census {
    pub(super) elements: ElementWalk<Socket>,
    /// Position of the next set among the planner's.
    position: usize,
    pub(super) walk: Option<Walk>,
    /// Not before this.
    pub(super) due: Duration,
    /// Clients that stick, at the last count; `None` where the kernel tells it itself.
    pub(super) clients: Option<u32>,
    pub(super) hasher: RandomState,
}

/// What there is to look at in a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Keys, one by one.
    Keys,
    /// Prefixes, all together.
    Prefixes,
    /// Clients; their number.
    Clients,
}

/// A set under way.
#[derive(Debug)]
pub(super) struct Walk {
    pub(super) set: Name,
    layout: KeyType,
    pub(super) content: Content,
    pub(super) rows: u64,
    /// Of the elements of a set of prefixes; does not depend on their order.
    pub(super) sum: u64,
    pub(super) tries: u32,
}

/// What a slice came to.
pub(super) enum Slice {
    /// There is more of the set.
    On,
    /// Nothing is wrong with it, or it cannot be told.
    Fine,
    /// A set of prefixes has others than it should.
    Other,
    /// Others kept changing something meanwhile.
    Disturbed,
    /// There are keys that it should not have.
    Surplus(Vec<Box<[u8]>>),
}

impl Census {
    /// The first one begins at this time.
    pub(super) fn new(connection: Connection, due: Duration) -> Self {
        Self {
            elements: ElementWalk::new(connection),
            position: 0,
            walk: None,
            due,
            clients: None,
            hasher: RandomState::new(),
        }
    }

    /// Begins anew, with the first set, at this time.
    pub(super) fn restart(&mut self, due: Duration) {
        (self.position, self.walk, self.due) = (0, None, due);
    }

    /// Begins a walk over the next set that needs one; `None` after the last.
    pub(super) fn begin(
        &mut self,
        family: Family,
        planner: &Planner,
        found: &Structure,
    ) -> Result<Option<Walk>, QueryError> {
        let mut sets = planner.expected_sets().skip(self.position);
        let next = sets.find(|set| {
            self.position += 1;
            is_counted(found, set)
        });
        let Some(set) = next else {
            return Ok(None);
        };
        let content = match (set.interval, set.dynamic) {
            (true, _) => Content::Prefixes,
            (_, true) => Content::Clients,
            _ => Content::Keys,
        };
        self.elements.begin(nf_family(family), TABLE, set.name)?;
        Ok(Some(Walk {
            set: set.name.clone(),
            layout: set.layout,
            content,
            rows: 0,
            sum: 0,
            tries: 0,
        }))
    }

    /// Slices that a set takes, about.
    pub(super) fn slices(&self, set: &ExpectedSet<'_>) -> u64 {
        let walk = self.walk.as_ref().filter(|walk| walk.set == *set.name);
        let seen = walk.map_or(0, |walk| walk.rows);
        let clients = self.clients.filter(|_| set.dynamic);
        let rows = set.rows.or(clients).unwrap_or_default();
        u64::from(rows).max(seen).div_ceil(ROWS).max(1)
    }
}

impl Walk {
    /// Reads some datagrams; tells how many rows they had, too.
    pub(super) fn slice(
        &mut self,
        elements: &mut ElementWalk<Socket>,
        family: Family,
        planner: &Planner,
        hasher: &RandomState,
    ) -> Result<(Slice, u64), QueryError> {
        let Self {
            set,
            layout,
            content,
            sum,
            ..
        } = self;
        let (mut keys, mut strange, mut rows) = (Vec::new(), Vec::new(), 0);
        let mut walked = Walked::On;
        let limit = if *content == Content::Prefixes && self.tries >= TRIES {
            u32::MAX
        } else {
            DATAGRAMS
        };
        for _ in 0..limit {
            walked = elements.step(|elem| {
                rows += 1;
                match *content {
                    Content::Clients => {}
                    Content::Prefixes => {
                        let boundary = boundary_of(elem);
                        *sum = sum.wrapping_add(boundary.map_or(1, |it| hasher.hash_one(it)));
                    }
                    Content::Keys => {
                        let bytes = elem.key_bytes().unwrap_or_default();
                        match key_of(family, *layout, bytes) {
                            Some(key) => keys.push(key),
                            None => strange.push(Box::from(bytes)),
                        }
                    }
                }
            })?;
            if walked != Walked::On {
                break;
            }
        }
        if planner.retain_surplus(set, &mut keys) {
            let bytes = |key: &Key| key_bytes(family, *layout, key);
            strange.extend(keys.iter().filter_map(bytes).map(|it| it.as_slice().into()));
        }
        let slice = match walked {
            _ if !strange.is_empty() => Slice::Surplus(strange),
            Walked::On => Slice::On,
            Walked::Done { .. } if *content != Content::Prefixes => Slice::Fine,
            Walked::Done { consistent: false } => Slice::Disturbed,
            Walked::Done { consistent: true } => match planner.expected_prefixes(set) {
                Some(expected) if sum_of(hasher, family, *layout, &expected) != *sum => {
                    Slice::Other
                }
                _ => Slice::Fine,
            },
        };
        Ok((slice, rows))
    }
}

/// Whether rows are to be counted in this set.
pub(super) fn is_counted(found: &Structure, set: &ExpectedSet<'_>) -> bool {
    let is_told = || found.set(set.name).is_some_and(|set| set.count.is_some());
    set.interval || !is_told()
}

fn sum_of(hasher: &RandomState, family: Family, layout: KeyType, rows: &[Key]) -> u64 {
    let mut sum = 0_u64;
    for row in rows {
        boundaries(family, layout, row, |boundary| {
            sum = sum.wrapping_add(hasher.hash_one(boundary));
        });
    }
    sum
}
