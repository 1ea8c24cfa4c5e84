//! What a table is made of, condensed: its flags, chains, rules and sets with their handles, not their
//! rows. Handles are never used twice in a table, and a rule that is replaced gets a new one: whatever
//! was deleted, flushed, replaced or added by somebody else shows.

use core::hash::Hasher as _;

use nft_batch::{Connection, Errno, QueryError, Transport};
use nl_codec::nft::table::TableFlags;
use svc_planner::Planner;
use svc_planner::plan::{Family, Name, Transaction};

use super::super::TABLE;
use super::super::fnv::Fnv;
use crate::lower::nf_family;

/// How often a reading is tried again that others' transactions interrupt.
const TRIES: usize = 4;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Structure {
    /// Of everything.
    pub(in super::super) digest: u64,
    /// When it was read.
    pub(in super::super) generation: u32,
    /// Its base chains are not hooked.
    pub(super) dormant: bool,
    /// The sets.
    pub(super) sets: Vec<FoundSet>,
}

/// A set in the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundSet {
    pub(super) name: Name,
    pub(super) handle: Option<u64>,
    /// Number of elements, told by Linux 6.17 and later.
    pub(super) count: Option<u32>,
}

impl Structure {
    pub(super) fn set(&self, name: &str) -> Option<&FoundSet> {
        self.sets.iter().find(|set| *set.name == *name)
    }

    /// A set that does not hold as many elements as the planner believes, if the kernel tells.
    pub(in super::super) fn miscounted(&self, planner: &Planner) -> Option<Name> {
        let mut counts = self.counts(planner);
        let miscounted = counts.find(|(_, found, expected)| found != expected);
        miscounted.map(|(set, ..)| set.clone())
    }

    /// Sets that hold fewer elements than the planner believes.
    pub(super) fn short_of(&self, planner: &Planner) -> Vec<Name> {
        let short = self
            .counts(planner)
            .filter(|(_, found, expected)| found < expected);
        short.map(|(set, ..)| set.clone()).collect()
    }

    /// Sets of which both numbers of elements are known: the kernel's and the planner's.
    fn counts<'a>(&self, planner: &'a Planner) -> impl Iterator<Item = (&'a Name, u32, u32)> {
        let sets = planner.expected_sets().filter(|set| !set.interval);
        sets.filter_map(|expected| {
            let found = self.set(expected.name)?.count?;
            Some((expected.name, found, expected.rows?))
        })
    }
}

/// Reads it; `None` if there is no such table, or others kept changing the ruleset meanwhile. Of the
/// chains only those that `planner` believes in are read, by name; others show by the number of
/// objects in the table.
pub(in super::super) fn read<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
    planner: &Planner,
) -> Result<Option<Structure>, QueryError> {
    for _ in 0..TRIES {
        let before = connection.generation()?;
        let read = read_once(connection, family, planner);
        let after = connection.generation()?;
        match read {
            _ if before != after => {}
            Ok((digest, mut structure)) => {
                structure.digest = digest;
                structure.generation = before;
                return Ok(Some(structure));
            }
            Err(error) if error.errno() == Some(Errno::ENOENT) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn read_once<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
    planner: &Planner,
) -> Result<(u64, Structure), QueryError> {
    let nf = nf_family(family);
    let mut hasher = Fnv::default();
    let mut structure = connection.table_info(nf, TABLE, |table| {
        let flags = table.flags.unwrap_or(TableFlags::empty());
        // An owner comes and goes with its process.
        let lasting = flags - TableFlags::OWNER;
        entry(&mut hasher, 0, None, table.handle);
        hasher.write_u32(lasting.bits());
        hasher.write_u32(table.in_use.unwrap_or_default());
        Structure {
            digest: 0,
            generation: 0,
            dormant: flags.contains(TableFlags::DORMANT),
            sets: Vec::new(),
        }
    })?;
    for name in planner.expected_chains() {
        let read = connection.chain_info(nf, TABLE, &name, |chain| {
            let policy = chain.policy.map_or(u32::MAX, |policy| policy.0);
            (chain.handle, policy)
        });
        let (handle, policy) = match read {
            Ok(read) => read,
            Err(error) if error.errno() == Some(Errno::ENOENT) => (None, u32::MAX),
            Err(error) => return Err(error),
        };
        entry(&mut hasher, 1, Some(name.as_bytes()), handle);
        hasher.write_u32(policy);
    }
    connection.dump_rules(nf, TABLE, None, |rule| {
        entry(
            &mut hasher,
            2,
            rule.chain.map(|name| name.as_bytes()),
            rule.handle,
        );
    })?;
    connection.dump_sets(nf, TABLE, |set| {
        entry(
            &mut hasher,
            3,
            set.name.map(|name| name.as_bytes()),
            set.handle,
        );
        if let Some(name) = set.name.and_then(|name| name.to_str()) {
            structure.sets.push(FoundSet {
                name: name.into(),
                handle: set.handle,
                count: set.count,
            });
        }
    })?;
    // Rows of interval sets cannot be read one by one: that many must do.
    for expected in planner.expected_sets().filter(|set| set.interval) {
        let count = structure.set(expected.name).and_then(|set| set.count);
        entry(
            &mut hasher,
            4,
            Some(expected.name.as_bytes()),
            count.map(u64::from),
        );
    }
    Ok((hasher.finish(), structure))
}

/// What tells an entry from others.
fn entry(hasher: &mut Fnv, kind: u8, name: Option<&[u8]>, handle: Option<u64>) {
    hasher.write_u8(kind);
    hasher.write(name.unwrap_or_default());
    hasher.write_u8(0);
    hasher.write_u64(handle.unwrap_or_default());
}

/// Whether a transaction changes more than rows.
pub(super) fn is_structural(transaction: &Transaction) -> bool {
    transaction.add_table
        || transaction.delete_table
        || !transaction.add_sets.is_empty()
        || !transaction.add_chains.is_empty()
        || !transaction.add_rules.is_empty()
        || !transaction.delete_sets.is_empty()
        || !transaction.delete_chains.is_empty()
        || !transaction.flush_chains.is_empty()
        || !transaction.replace_chains.is_empty()
}
