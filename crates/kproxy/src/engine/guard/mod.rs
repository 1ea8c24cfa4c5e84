//! Looks after our tables while the engine works: notices what others do to them, and puts it right.
//!
//! ```text
//! nf_tables events ──> Listener (a thread) ──wake──> tend: before each turn of a family
//!                                                      │  structure touched: read it, compare
//!                                                      │    a set or the table gone ──> rebuild
//!                                                      │    chains, rules           ──> mend, one transaction
//!                                                      │  rows touched: keyed reads ──> those rows alone
//!                                                      │  events lost: all of it, all rows in slices
//!                                                      └  a slice of all rows now and then, for ever
//! ```
//! Whoever keeps undoing that is left alone for longer and longer: see [`contention`].
//!
//! The listener is closed while much is loaded. What happens meanwhile shows in the generation number,
//! which every transaction, ours or not, moves on by one.

mod contention;
mod listener;
mod rows;
pub(super) mod structure;
mod tally;

pub use listener::Editor;
pub use tally::Interference;

use core::time::Duration;

use nft_batch::{Batch, BatchOptions, Errno, Outcome, SealedBatch, Transport};
use nl_codec::nft::Table;
use nl_codec::nft::table::TableFlags;
use svc_planner::plan::{Family, Transaction};
use svc_planner::{ExpectedRow, RowCursor};

use self::contention::{Contention, Verdict};
use self::listener::{Listener, ROWS_MAX, next};
use self::rows::{Fixed, Fixes};
use self::structure::Structure;
use super::{Engine, EngineError, FAMILIES, Netns, TABLE, Wait, inventory};
use crate::lower::{LowerError, nf_family};

/// A transaction with more rows is not listened to.
const BULK: usize = 512;
/// Rows compared at a time: some milliseconds.
const SLICE: usize = 2048;
/// Every row is compared once in this time, and in at most a slice's pause more.
const PASS: Duration = Duration::from_secs(8 * 60);
/// Rows compared at once when a table is gone on with.
const SAMPLE: u64 = 512;
/// When to look again at what could not be read, or without a listener.
const AGAIN: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug)]
pub(super) struct Guard {
    listener: Listener,
    /// While the listener is closed: the generation when that was, moved on by our transactions.
    /// Afterwards: the one when it was opened.
    generation: u32,
    /// By index of the engine's families.
    tables: [Watched; FAMILIES.len()],
    rows: Vec<ExpectedRow>,
}

/// One table.
#[derive(Debug, Default)]
struct Watched {
    /// The family has more to send.
    busy: bool,
    /// What the table is made of if nobody but us has changed it since it was read.
    baseline: Option<Structure>,
    /// Somebody may have changed that, in this generation at the earliest.
    structure: Option<u32>,
    /// Rows that somebody changed: set and key.
    rows: Vec<(Box<str>, Box<[u8]>)>,
    /// Any row may have been changed.
    all_rows: bool,
    by: Option<Editor>,
    /// A transaction was refused because of what is in the table, and none was committed since.
    doubted: bool,
    /// Something was seen since the last repair: the next one is another one.
    fresh: bool,
    /// What others did to chains and rules up to this generation has been dealt with.
    mended: Option<u32>,
    /// The same of everything.
    begun: Option<u32>,
    pass: Pass,
    contention: Contention,
    tally: Interference,
}

/// A walk over all rows.
#[derive(Debug, Clone, Copy, Default)]
struct Pass {
    cursor: RowCursor,
    due: Duration,
}

/// What to do about a transaction that was refused because of what is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubt {
    /// Begin anew.
    Rebuild,
    /// Try again: the table is looked at before.
    Look,
    /// Nothing: somebody fights.
    LetGo,
}

/// What looking after a table came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tended {
    /// There is more to look at, which must not keep others waiting.
    More,
    /// Nothing before this.
    Wait(Wait),
    /// The table is left alone until then.
    LetGo(Duration),
}

impl<T: Transport> Engine<T> {
    /// Looks after the tables from here on. `wake` is called, on another thread, when somebody has
    /// changed one: [`sync`](Self::sync) or [`turn`](Self::turn) then put it right. To be called after
    /// [`adopt`](Self::adopt).
    ///
    /// # Errors
    /// [`EngineError::Listen`], [`EngineError::Netns`], [`EngineError::Query`].
    pub fn guard(
        &mut self,
        netns: &Netns,
        wake: impl Fn() + Send + 'static,
    ) -> Result<(), EngineError> {
        let mut listener = Listener::start(netns, self.connection.port(), wake)?;
        listener.open()?;
        let generation = self.connection.generation()?;
        let mut tables: [Watched; FAMILIES.len()] = Default::default();
        for (table, state) in tables.iter_mut().zip(&mut self.families) {
            table.baseline = state.adopted.take();
            if let Some(found) = table.baseline.as_ref().map(|it| it.generation)
                && found != generation
            {
                table.suspect(found);
            }
        }
        self.guard = Some(Box::new(Guard {
            listener,
            generation,
            tables,
            rows: Vec::new(),
        }));
        Ok(())
    }

    /// What others did to the table of a family, and what became of it.
    #[must_use]
    pub fn interference(&self, family: Family) -> Interference {
        let index = self.families().position(|other| other == family);
        let table = index.and_then(|index| self.guard.as_ref()?.tables.get(index));
        table.map_or_else(Interference::default, |table| Interference {
            contended_since: table.contention.since(),
            last_editor: table.by.clone(),
            ..table.tally.clone()
        })
    }

    /// To be called before anything is planned for a family.
    pub(super) fn tend(&mut self, index: usize) -> Result<Tended, EngineError> {
        self.with_guard(|guard, engine| guard.tend(engine, index))
            .unwrap_or(Ok(Tended::Wait(Wait::Change)))
    }

    /// To be called when there is nothing to send for a family; whether to take another turn.
    pub(super) fn rest(&mut self, index: usize) -> Result<bool, EngineError> {
        self.with_guard(|guard, engine| guard.rest(engine, index))
            .unwrap_or(Ok(false))
    }

    /// To be called before a transaction is sent.
    pub(super) fn before_commit(&mut self, index: usize, rows: usize) -> Result<(), EngineError> {
        self.with_guard(|guard, engine| guard.before_commit(engine, index, rows))
            .unwrap_or(Ok(()))
    }

    /// To be called when one was committed, in so many parts.
    pub(super) fn after_commit(&mut self, index: usize, transaction: &Transaction, parts: u32) {
        let intervals = self.families.get(index).is_some_and(|state| {
            let mut sets = state.planner.expected_sets().filter(|set| set.interval);
            sets.any(|set| transaction.elements.iter().any(|it| it.set == *set.name))
        });
        let Some(guard) = &mut self.guard else {
            return;
        };
        guard.count(parts);
        if let Some(table) = guard.tables.get_mut(index) {
            table.doubted = false;
        }
        if let Some(table) = guard.tables.get_mut(index)
            && (intervals || is_structural(transaction))
        {
            table.baseline = None;
        }
    }

    /// To be called when a table is begun anew because of `damage`.
    pub(super) fn note_rebuild(&mut self, index: usize, begun: u32) {
        let now = self.clock.now();
        let family = self.families.get(index).map(|state| state.family);
        let guard = self.guard.as_mut();
        let table = guard.and_then(|guard| guard.tables.get_mut(index));
        if let (Some(table), Some(family)) = (table, family) {
            table.fresh = true;
            table.begin_anew(begun, family, now);
        }
    }

    /// The kernel says that a table is not as the planner believes.
    pub(super) fn doubt(&mut self, index: usize) -> Doubt {
        let now = self.clock.now();
        let guard = self.guard.as_mut();
        let Some(table) = guard.and_then(|guard| guard.tables.get_mut(index)) else {
            return Doubt::Rebuild;
        };
        table.baseline = None;
        table.structure.get_or_insert(0);
        table.all_rows = true;
        if table.contention.pause(now).is_some() {
            Doubt::LetGo
        } else if core::mem::replace(&mut table.doubted, true) {
            Doubt::Rebuild
        } else {
            Doubt::Look
        }
    }

    /// What a family's table is made of, for the next process; `None` while that is in doubt.
    pub(super) fn vouched(&mut self, index: usize) -> Result<Option<u64>, EngineError> {
        let table = self
            .guard
            .as_ref()
            .and_then(|guard| guard.tables.get(index));
        match table {
            Some(table) if table.is_suspect() => return Ok(None),
            Some(Watched {
                baseline: Some(baseline),
                ..
            }) => return Ok(Some(baseline.digest)),
            _ => {}
        }
        let Some(state) = self.families.get(index) else {
            return Ok(None);
        };
        let found = structure::read(&mut self.connection, state.family, &state.planner)?;
        Ok(found.map(|found| found.digest))
    }

    /// Compares some rows here and there of a table that is to be gone on with. If one in a hundred
    /// is wrong, it goes unnoticed here six times in a thousand; the pass will find it.
    pub(super) fn sample(
        &mut self,
        family: Family,
        planner: &svc_planner::Planner,
        seed: u64,
    ) -> Result<bool, EngineError> {
        let length = planner.walk_length();
        let mut fixes = Fixes::new(family);
        let mut rows = Vec::new();
        for number in 0..SAMPLE.min(length) {
            let step = seed.wrapping_add(number * length / SAMPLE.min(length)) % length;
            rows.clear();
            planner.expected_rows(&mut planner.walk_from(step), 1, &mut rows);
            rows.truncate(1);
            self.compare(&rows, &mut fixes)?;
        }
        Ok(fixes.rows == 0 && !fixes.set_missing)
    }

    fn with_guard<R>(&mut self, act: impl FnOnce(&mut Guard, &mut Self) -> R) -> Option<R> {
        let mut guard = self.guard.take()?;
        let result = act(&mut guard, self);
        self.guard = Some(guard);
        Some(result)
    }
}

impl Guard {
    fn tend<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
    ) -> Result<Tended, EngineError> {
        let tended = self.look(engine, index);
        self.count(core::mem::take(&mut engine.repairs));
        tended
    }

    fn look<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
    ) -> Result<Tended, EngineError> {
        self.collect();
        let now = engine.clock.now();
        let Self { tables, rows, .. } = self;
        let (Some(table), Some(state)) = (tables.get_mut(index), engine.families.get(index)) else {
            return Ok(Tended::Wait(Wait::Change));
        };
        let family = state.family;
        if table.contention.calm(now) {
            tracing::info!("table {family} {TABLE}: nobody changes it any more");
        }
        // Before that there is nothing to lose but what is being filled: its transactions fail then.
        if !state.planner.is_serving() {
            return Ok(Tended::Wait(table.calm_wait()));
        }
        if let Some(until) = table.contention.pause(now)
            && table.is_suspect()
        {
            return Ok(Tended::LetGo(until));
        }
        if let Some(since) = table.structure {
            return table.inspect(engine, index, since);
        }
        if !table.rows.is_empty() {
            return table.mend_sighted(engine, index);
        }
        if table.all_rows || table.pass.due <= now {
            return table.walk(engine, index, rows);
        }
        Ok(Tended::Wait(
            Wait::Until(table.pass.due).sooner(table.calm_wait()),
        ))
    }

    fn rest<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
    ) -> Result<bool, EngineError> {
        if let Some(table) = self.tables.get_mut(index) {
            table.busy = false;
        }
        if !self.listener.is_open() && !self.tables.iter().any(|table| table.busy) {
            self.listen(engine)?;
        }
        self.collect();
        let (Some(table), Some(state)) = (self.tables.get_mut(index), engine.families.get(index))
        else {
            return Ok(false);
        };
        if !state.planner.is_serving() {
            return Ok(false);
        }
        if table.is_suspect() {
            return Ok(true);
        }
        if table.baseline.is_none() {
            table.baseline = structure::read(&mut engine.connection, state.family, &state.planner)?;
        }
        Ok(false)
    }

    /// Opens the listener; what happened while it was closed and was not our doing is suspect.
    fn listen<T: Transport>(&mut self, engine: &mut Engine<T>) -> Result<(), EngineError> {
        self.listener.open()?;
        let generation = engine.connection.generation()?;
        if generation != self.generation {
            self.lose(self.generation);
        }
        self.generation = generation;
        Ok(())
    }

    fn before_commit<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        rows: usize,
    ) -> Result<(), EngineError> {
        if let Some(table) = self.tables.get_mut(index) {
            table.busy = true;
        }
        if rows <= BULK || !self.listener.is_open() {
            return Ok(());
        }
        let heard = self.listener.close()?;
        let heard = heard.filter(|heard| !is_before(*heard, self.generation));
        let heard = heard.unwrap_or(self.generation);
        let generation = engine.connection.generation()?;
        if heard != generation {
            self.lose(heard);
        }
        self.generation = generation;
        self.collect();
        Ok(())
    }

    /// Our own transactions.
    fn count(&mut self, parts: u32) {
        if !self.listener.is_open() {
            for _ in 0..parts {
                self.generation = next(self.generation);
            }
        }
    }

    /// Takes over what the listener has seen.
    fn collect(&mut self) {
        let seen = self.listener.take();
        for (table, sighting) in self.tables.iter_mut().zip(seen.tables) {
            if sighting.edits == 0 {
                continue;
            }
            table.tally.edits += sighting.edits;
            table.by = sighting.by.or_else(|| table.by.take());
            let is_over = |at: Option<u32>| at.is_some_and(|at| !is_before(at, sighting.last));
            if is_over(table.begun) {
                continue;
            }
            table.fresh = true;
            if !is_over(table.mended) {
                table.structure = table.structure.or(sighting.structure);
            }
            table.rows.extend(sighting.rows);
            table.all_rows |= sighting.more_rows;
            if table.rows.len() > ROWS_MAX {
                table.rows.clear();
                table.all_rows = true;
            }
        }
        if let Some(after) = seen.lost_after {
            self.lose(after);
        }
        if seen.broken {
            // It is opened again when there is nothing to send, and then the number will not fit.
            self.generation = 0;
        }
    }

    /// Anything may have happened after a generation.
    fn lose(&mut self, after: u32) {
        for table in &mut self.tables {
            table.tally.losses += 1;
            table.suspect(after);
        }
    }
}

impl Watched {
    fn is_suspect(&self) -> bool {
        self.structure.is_some() || !self.rows.is_empty() || self.all_rows
    }

    fn suspect(&mut self, after: u32) {
        self.structure.get_or_insert(next(after));
        self.all_rows = true;
        self.fresh = true;
    }

    /// The table is begun anew; what others did up to a generation does not matter any more.
    fn begin_anew(&mut self, begun: u32, family: Family, now: Duration) {
        self.begun = Some(begun);
        self.tally.rebuilds += 1;
        self.repaired(family, now);
        self.baseline = None;
        self.structure = None;
        self.rows.clear();
        self.all_rows = false;
        self.pass.cursor = RowCursor::default();
    }

    fn calm_wait(&self) -> Wait {
        self.contention.calm_at().map_or(Wait::Change, Wait::Until)
    }

    /// Something is put right. What takes several steps counts once.
    fn repaired(&mut self, family: Family, now: Duration) {
        if !core::mem::take(&mut self.fresh) {
            return;
        }
        let first = self.contention.since().is_none();
        let Verdict::LetGo(until) = self.contention.repaired(now) else {
            return;
        };
        self.tally.fights += u64::from(first);
        let pause = until.saturating_sub(now).as_secs();
        let by = self
            .by
            .as_ref()
            .map_or("somebody".to_owned(), ToString::to_string);
        tracing::error!(
            "table {family} {TABLE}: {by} keeps changing it, another proxy perhaps; \
             it is left alone for {pause} s"
        );
    }

    fn say(&self, family: Family, what: &str) {
        let by = self
            .by
            .as_ref()
            .map_or("somebody".to_owned(), ToString::to_string);
        tracing::warn!("table {family} {TABLE} was changed by {by}: {what}");
    }

    /// Finds out what became of the table's chains, rules and sets.
    fn inspect<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        since: u32,
    ) -> Result<Tended, EngineError> {
        let Some(state) = engine.families.get(index) else {
            return Ok(Tended::Wait(Wait::Change));
        };
        let (family, planner) = (state.family, &state.planner);
        let now = engine.clock.now();
        let found = structure::read(&mut engine.connection, family, planner)?;
        let Some(found) = found else {
            let table = engine
                .connection
                .table_info(nf_family(family), TABLE, |_| ());
            return match table {
                Err(error) if error.errno() == Some(Errno::ENOENT) => {
                    self.rebuild(engine, index, "it is gone; making it anew")
                }
                // Others change the ruleset all the time.
                Ok(()) => Ok(Tended::Wait(Wait::Until(now + AGAIN))),
                Err(error) => Err(error.into()),
            };
        };
        let baseline = self.baseline.take();
        let baseline = baseline.filter(|it| is_before(it.generation, since));
        if baseline
            .as_ref()
            .is_some_and(|it| it.digest == found.digest)
        {
            self.structure = None;
            self.baseline = baseline;
            return Ok(Tended::More);
        }
        let replaced = |name: &str| match (found.set(name), baseline.as_ref()) {
            (None, _) => true,
            (Some(set), Some(before)) => before
                .set(name)
                .is_some_and(|before| before.handle != set.handle),
            (Some(_), None) => false,
        };
        let gone = planner.expected_sets().find(|set| replaced(set.name));
        if let Some(set) = gone.map(|set| set.name.clone()) {
            let what = format!("set {set} is gone; starting over beside it");
            return self.rebuild(engine, index, &what);
        }
        self.say(family, "putting its chains and rules back in place");
        if found.dormant {
            wake_up(engine, family)?;
        }
        // The transaction that mends the rules replaces this row.
        let marker = planner_state(engine, index);
        let mut fixes = Fixes::new(family);
        engine.compare(&marker, &mut fixes)?;
        engine.fix(&fixes)?;
        let inventory = inventory::read(&mut engine.connection, family)?.unwrap_or_default();
        if let Some(state) = engine.families.get_mut(index) {
            state.planner.mend(inventory);
        }
        self.structure = None;
        self.mended = Some(found.generation);
        self.tally.mends += 1;
        self.repaired(family, now);
        Ok(Tended::More)
    }

    fn rebuild<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        what: &str,
    ) -> Result<Tended, EngineError> {
        let begun = engine.begin_anew(index)?;
        if let Some(family) = engine.families.get(index).map(|state| state.family) {
            self.say(family, what);
            self.begin_anew(begun, family, engine.clock.now());
        }
        Ok(Tended::More)
    }

    /// Puts rows right that somebody changed.
    fn mend_sighted<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
    ) -> Result<Tended, EngineError> {
        let Some(family) = engine.families.get(index).map(|state| state.family) else {
            return Ok(Tended::Wait(Wait::Change));
        };
        let mut fixes = Fixes::new(family);
        for row in core::mem::take(&mut self.rows) {
            if !engine.compare_sighted(index, &row, &mut fixes)? {
                let what = format!("rows of {}; starting over beside it", row.0);
                return self.rebuild(engine, index, &what);
            }
        }
        self.put_right(engine, index, &fixes)
    }

    /// Compares some rows more.
    fn walk<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        rows: &mut Vec<ExpectedRow>,
    ) -> Result<Tended, EngineError> {
        let Some(state) = engine.families.get(index) else {
            return Ok(Tended::Wait(Wait::Change));
        };
        let (family, planner) = (state.family, &state.planner);
        // A walk of its own accord: what it finds nobody has seen.
        self.fresh |= self.pass.cursor == RowCursor::default() && !self.all_rows;
        rows.clear();
        let done = planner.expected_rows(&mut self.pass.cursor, SLICE, rows);
        let total: u64 = planner
            .expected_sets()
            .map(|set| u64::from(set.rows.unwrap_or_default()))
            .sum();
        let slices = total.div_ceil(SLICE as u64).max(1);
        let pause = PASS / u32::try_from(slices).unwrap_or(u32::MAX);
        self.pass.due = engine.clock.now() + pause;
        self.tally.compared += rows.len() as u64;
        let mut fixes = Fixes::new(family);
        engine.compare(rows, &mut fixes)?;
        rows.clear();
        if fixes.rows > 0 {
            // Where there is one there may be more.
            self.all_rows = true;
        }
        let tended = self.put_right(engine, index, &fixes)?;
        if !done || self.structure.is_some() {
            return Ok(self.after_slice(tended));
        }
        let hurried = core::mem::take(&mut self.all_rows);
        self.pass.cursor = RowCursor::default();
        self.tally.passes += 1;
        if fixes.rows > 0 {
            // To be sure that it was the last.
            self.all_rows = true;
        }
        let Some(state) = engine.families.get(index) else {
            return Ok(tended);
        };
        let found = structure::read(&mut engine.connection, family, &state.planner)?;
        if let Some(set) = found.and_then(|found| found.miscounted(&state.planner)) {
            let what = format!("surplus rows in {set}; starting over beside it");
            return self.rebuild(engine, index, &what);
        }
        if hurried {
            tracing::info!("table {family} {TABLE}: all rows compared");
        }
        Ok(self.after_slice(tended))
    }

    fn after_slice(&self, tended: Tended) -> Tended {
        match tended {
            Tended::Wait(_) if !self.is_suspect() => {
                Tended::Wait(Wait::Until(self.pass.due).sooner(self.calm_wait()))
            }
            Tended::Wait(_) => Tended::More,
            tended => tended,
        }
    }

    fn put_right<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        fixes: &Fixes,
    ) -> Result<Tended, EngineError> {
        let Some(family) = engine.families.get(index).map(|state| state.family) else {
            return Ok(Tended::Wait(Wait::Change));
        };
        let now = engine.clock.now();
        if fixes.set_missing {
            // Its deletion is about to be seen, or was not.
            let generation = engine.connection.generation()?;
            self.structure.get_or_insert(generation);
            return Ok(Tended::More);
        }
        match engine.fix(fixes)? {
            Fixed::Nothing => return Ok(Tended::Wait(Wait::Change)),
            Fixed::Done => {
                self.say(family, &format!("{} rows put right", fixes.rows));
                self.tally.rows += fixes.rows;
            }
            Fixed::Refused => {
                self.say(family, "rows and what they lead to");
                let generation = engine.connection.generation()?;
                self.structure.get_or_insert(generation);
                self.baseline = None;
                self.all_rows = true;
            }
        }
        self.repaired(family, now);
        Ok(Tended::More)
    }
}

/// The row that marks the state.
fn planner_state<T: Transport>(engine: &Engine<T>, index: usize) -> Vec<ExpectedRow> {
    let Some(state) = engine.families.get(index) else {
        return Vec::new();
    };
    let planner = &state.planner;
    let mut rows = Vec::new();
    let last = planner.walk_length().saturating_sub(1);
    planner.expected_rows(&mut planner.walk_from(last), usize::MAX, &mut rows);
    rows.retain(|row| row.layout == svc_planner::plan::KeyType::State);
    rows
}

/// Has a dormant table's base chains hooked again.
fn wake_up<T: Transport>(engine: &mut Engine<T>, family: Family) -> Result<(), EngineError> {
    let nf = nf_family(family);
    let read = engine.connection.table_info(nf, TABLE, |table| table.flags);
    let flags = read?.unwrap_or(TableFlags::empty());
    let mut batch = Batch::new(BatchOptions::default());
    let mut table = Table::named(TABLE);
    table.flags = Some(flags - TableFlags::DORMANT);
    batch.add_table(nf, &table).map_err(LowerError::from)?;
    let mut sealed: SealedBatch = batch.seal();
    match engine.connection.commit(&mut sealed) {
        Outcome::Committed(_) => {
            engine.repairs += 1;
            Ok(())
        }
        other => Err(EngineError::NotCommitted(other.to_string())),
    }
}

/// Whether a transaction changes more than rows.
fn is_structural(transaction: &Transaction) -> bool {
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

/// Whether a generation is older than another; they wrap around.
const fn is_before(generation: u32, other: u32) -> bool {
    let behind = other.wrapping_sub(generation);
    behind != 0 && behind < u32::MAX / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_wrap_around() {
        assert!(is_before(1, 2) && !is_before(2, 2) && !is_before(3, 2));
        assert!(is_before(u32::MAX, 1) && !is_before(1, u32::MAX));
        assert_eq!(next(u32::MAX), 1);
    }
}
