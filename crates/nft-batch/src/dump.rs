//! Dumps: all tables, chains, rules, sets or elements, decoded one by one out of the receive buffer.
//!
//! A dump is many system calls long, and others may commit meanwhile. The kernel flags a dump that
//! it noticed to be interrupted (`NLM_F_DUMP_INTR`), but not every one, so the generation is read
//! before and after, and each message's `res_id` (its low 16 bits) is compared.
//!
//! Dumping a set's elements takes time quadratic in their number (the kernel's walk starts anew for
//! each datagram): read big sets by key ([`Connection::element`]).
//!
//! Where a datagram's walk goes on is a number of rows, and a hash table that is being resized changes
//! their order: for a moment after many rows came or went, a dump may repeat some and miss others, within
//! one generation and without a flag. [`Connection::dump_elements`] reads again until none is repeated.

use core::mem;
use core::time::Duration;
use std::time::Instant;

use nl_codec::msg::{Body, Family, Flags, Head, NfMsg, NftMsg};
use nl_codec::nft::{Chain, Elem, ElemList, Flowtable, Obj, Rule, Set, Str, Table};
use nl_codec::{Attr, DecodeError};

use crate::transport::Transport;
use crate::{Connection, QueryError};

mod seen;

pub(crate) use self::seen::Seen;

/// How a dump went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// Nobody committed while the dump went on: what was read was there at one moment.
    pub consistent: bool,
    /// The generation before the dump.
    pub generation: u32,
    /// How often all was read: more than once if the kernel told elements twice.
    pub passes: u32,
}

impl Dump {
    /// This one and one more after it.
    fn and(self, next: Self) -> Self {
        Self {
            consistent: self.consistent && next.consistent && next.generation == self.generation,
            generation: self.generation,
            passes: self.passes + next.passes,
        }
    }
}

/// Number of the attribute that names the table, in tables themselves, too.
const TABLE: u16 = 1;
/// How often a set is read at most, and how long after the beginning it is still begun anew: packets
/// that add elements all the time may have one told twice each time, and big sets take seconds.
const MAX_PASSES: u32 = 8;
const AGAIN_WITHIN: Duration = Duration::from_secs(1);

impl<T: Transport> Connection<T> {
    /// Tables of `family` ([`Family::UNSPEC`]: all families).
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn dump_tables(
        &mut self,
        family: Family,
        mut each: impl FnMut(Family, &Table<'_>),
    ) -> Result<Dump, QueryError> {
        let what = "dump tables";
        let head = dump(NftMsg::GET_TABLE, family);
        self.dump(what, &head, &Table::default(), |msg| {
            each(msg.nfgen.family, &msg.body()?);
            Ok(())
        })
    }

    /// Chains of one table. The kernel sends the chains of all tables of the family; those of
    /// others are not decoded.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn dump_chains(
        &mut self,
        family: Family,
        table: &str,
        mut each: impl FnMut(&Chain<'_>),
    ) -> Result<Dump, QueryError> {
        let what = "dump chains";
        let mut filter = Chain::default();
        filter.table = Some(table.into());
        self.dump(what, &dump(NftMsg::GET_CHAIN, family), &filter, |msg| {
            if belongs(msg, table.as_bytes())? {
                each(&msg.body()?);
            }
            Ok(())
        })
    }

    /// Rules of one table, or of one of its chains.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn dump_rules(
        &mut self,
        family: Family,
        table: &str,
        chain: Option<&str>,
        mut each: impl FnMut(&Rule<'_>),
    ) -> Result<Dump, QueryError> {
        let what = "dump rules";
        let mut filter = Rule::default();
        filter.table = Some(table.into());
        filter.chain = chain.map(Str::from);
        self.dump(what, &dump(NftMsg::GET_RULE, family), &filter, |msg| {
            if belongs(msg, table.as_bytes())? {
                each(&msg.body()?);
            }
            Ok(())
        })
    }

    /// Sets and maps of one table, without their elements.
    ///
    /// # Errors
    /// See [`QueryError`]; ENOENT if the table does not exist.
    pub fn dump_sets(
        &mut self,
        family: Family,
        table: &str,
        mut each: impl FnMut(&Set<'_>),
    ) -> Result<Dump, QueryError> {
        let what = "dump sets";
        let mut filter = Set::default();
        filter.table = Some(table.into());
        self.dump(what, &dump(NftMsg::GET_SET, family), &filter, |msg| {
            if belongs(msg, table.as_bytes())? {
                each(&msg.body()?);
            }
            Ok(())
        })
    }

    /// Elements of one set, each once. While the kernel tells some twice (see the module), all is read
    /// again, up to eight times and within a second. Remembers 16 bytes of each element meanwhile.
    ///
    /// # Errors
    /// See [`QueryError`]; ENOENT if the table or set does not exist.
    pub fn dump_elements(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        mut each: impl FnMut(&Elem<'_>),
    ) -> Result<Dump, QueryError> {
        let filter = ElemList::named(table, set);
        let mut seen = mem::take(&mut self.seen);
        let dump = self.passes(family, &filter, &mut seen, &mut each);
        seen.forget();
        self.seen = seen;
        dump
    }

    /// Reads a set until no element is told twice.
    fn passes(
        &mut self,
        family: Family,
        filter: &ElemList<'_>,
        seen: &mut Seen,
        each: &mut impl FnMut(&Elem<'_>),
    ) -> Result<Dump, QueryError> {
        let what = "dump elements";
        let head = dump(NftMsg::GET_SETELEM, family);
        let begun = Instant::now();
        let mut before: Option<Dump> = None;
        loop {
            seen.begin_pass();
            let read = self.dump(what, &head, filter, |msg| {
                let list = msg.body::<ElemList<'_>>()?;
                for elem in list.elems.iter().flatten() {
                    let elem = elem?;
                    if seen.is_new(&elem) {
                        each(&elem);
                    }
                }
                Ok(())
            })?;
            let mut all = before.map_or(read, |before| before.and(read));
            let again = all.passes < MAX_PASSES && begun.elapsed() < AGAIN_WITHIN;
            if !seen.repeats() || !again {
                all.consistent &= !seen.repeats();
                return Ok(all);
            }
            before = Some(all);
        }
    }

    /// Stateful objects of one table.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn dump_objects(
        &mut self,
        family: Family,
        table: &str,
        mut each: impl FnMut(&Obj<'_>),
    ) -> Result<Dump, QueryError> {
        let what = "dump objects";
        let mut filter = Obj::default();
        filter.table = Some(table.into());
        self.dump(what, &dump(NftMsg::GET_OBJ, family), &filter, |msg| {
            if belongs(msg, table.as_bytes())? {
                each(&msg.body()?);
            }
            Ok(())
        })
    }

    /// Flowtables of one table.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn dump_flowtables(
        &mut self,
        family: Family,
        table: &str,
        mut each: impl FnMut(&Flowtable<'_>),
    ) -> Result<Dump, QueryError> {
        let what = "dump flowtables";
        let mut filter = Flowtable::default();
        filter.table = Some(table.into());
        let head = dump(NftMsg::GET_FLOWTABLE, family);
        self.dump(what, &head, &filter, |msg| {
            if belongs(msg, table.as_bytes())? {
                each(&msg.body()?);
            }
            Ok(())
        })
    }

    fn dump<'a, B: Body<'a>>(
        &mut self,
        what: &'static str,
        head: &Head,
        filter: &B,
        mut each: impl FnMut(&NfMsg<'_>) -> Result<(), DecodeError>,
    ) -> Result<Dump, QueryError> {
        let generation = self.generation()?;
        let low = generation.to_be_bytes();
        let low = u16::from_be_bytes([low[2], low[3]]);
        let mut same = true;
        let interrupted = self.query(what, head, filter, |msg| {
            same &= msg.nfgen.res_id == low;
            each(&msg)
        })?;
        let after = self.generation()?;
        Ok(Dump {
            consistent: same && !interrupted && after == generation,
            generation,
            passes: 1,
        })
    }
}

fn dump(msg: NftMsg, family: Family) -> Head {
    Head::nft(msg, family).with_flags(Flags::DUMP)
}

/// Whether a message is about an object of `table`. Messages about others are not looked into: they
/// may hold what only their makers understand.
pub(crate) fn belongs(msg: &NfMsg<'_>, table: &[u8]) -> Result<bool, DecodeError> {
    let mut name: Option<Attr<'_>> = None;
    for attr in msg.attrs() {
        let attr = attr?;
        if attr.kind == TABLE {
            name = Some(attr);
            break;
        }
    }
    match name {
        Some(name) => Ok(name.value::<Str<'_>>("table")?.as_bytes() == table),
        None => Ok(false),
    }
}
