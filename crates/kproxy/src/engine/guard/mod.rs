//! Looks after our tables while the engine works: notices what others do to them, and puts it right.
//!
//! ```text
//! nf_tables events ──> Listener (a thread) ──wake──> tend: before each turn of a family
//!                                                      │  structure touched: read it, compare
//!                                                      │    a set or the table gone ──> rebuild
//!                                                      │    chains, rules           ──> mend, one transaction
//!                                                      │  rows touched: keyed reads ──> those rows alone
//!                                                      │  many of them: all rows of that set, in slices
//!                                                      │  events lost: all of it, all rows in slices
//!                                                      └  a slice of all rows now and then, for ever; a
//!                                                         dump in slices where the kernel counts no rows
//! ```
//! Whoever keeps undoing that is left alone for longer and longer: see [`contention`].
//!
//! The listener is closed while much is loaded. What happens meanwhile shows in the generation number,
//! which every transaction, ours or not, moves on by one.

mod census;
mod contention;
mod count;
mod listener;
mod rows;
pub(super) mod structure;
mod tally;
mod watched;

pub use listener::Editor;
pub use tally::Interference;

use core::time::Duration;
use std::os::fd::AsFd as _;

use nft_batch::{Connection, Fence, Transport, is_before};
use svc_planner::ExpectedRow;
use svc_planner::plan::{Family, Transaction};

use self::census::Census;
use self::listener::{Listener, ROWS_MAX};
use self::rows::Fixes;
use self::watched::Watched;
use super::{Engine, EngineError, TABLE, Wait};
use crate::family::FAMILIES;
use crate::netns::Netns;

/// A transaction with more rows is not listened to.
const BULK: usize = 512;
/// Rows compared at once when a table is gone on with.
const SAMPLE: u64 = 512;

/// How to look after the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GuardOptions {
    /// In this time every row is compared once, a slice at a time; the last slice may be that late.
    pub pass: Duration,
    /// Three repairs in this time are a fight. It is over when nothing was to be put right for as
    /// long.
    pub window: Duration,
    /// For how long a table is left alone then.
    pub first_pause: Duration,
    /// Each further pause is twice as long, up to this.
    pub longest_pause: Duration,
}

impl Default for GuardOptions {
    fn default() -> Self {
        Self {
            pass: Duration::from_secs(8 * 60),
            window: Duration::from_secs(60),
            first_pause: Duration::from_secs(10),
            longest_pause: Duration::from_secs(300),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Guard {
    listener: Listener,
    options: GuardOptions,
    /// Whether others committed while the listener was closed.
    fence: Fence,
    /// By index of the engine's families.
    tables: Vec<Watched>,
    rows: Vec<ExpectedRow>,
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
    /// [`EngineError::Listen`], [`EngineError::Start`], [`EngineError::Query`].
    pub fn guard(
        &mut self,
        netns: &Netns,
        options: GuardOptions,
        wake: impl Fn() + Send + 'static,
    ) -> Result<(), EngineError> {
        let (mut fence, ear) = Fence::new();
        let mut listener = Listener::start(netns, self.connection.port(), ear, wake)?;
        listener.open()?;
        let generation = self.connection.generation()?;
        // Nothing was missed before the first time.
        let _ = fence.opened(generation);
        // Not with the first thing a process does.
        let first = self.clock.now() + options.pass / 8;
        let namespace = netns.open()?;
        let open = || match &namespace {
            Some(namespace) => Connection::open_in(namespace.as_fd()),
            None => Connection::open(),
        };
        let families = self.families.iter_mut().map(|state| {
            let connection = open().map_err(|error| EngineError::Listen(error.to_string()))?;
            let census = Census::new(connection, first);
            let mut table = Watched::new(state.family, options, census);
            table.baseline = state.adopted.take();
            if let Some(found) = table.baseline.as_ref().map(|it| it.generation)
                && found != generation
            {
                table.suspect(found);
            }
            Ok(table)
        });
        let tables = families.collect::<Result<_, EngineError>>()?;
        self.guard = Some(Box::new(Guard {
            listener,
            options,
            fence,
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
            ..table.tally.clone()
        })
    }

    /// Whether nothing is sent for a family just now, because somebody keeps changing its table back.
    #[must_use]
    pub fn is_left_alone(&self, family: Family) -> bool {
        let Some(guard) = &self.guard else {
            return false;
        };
        let now = self.clock.now();
        let mut tables = guard.tables.iter().filter(|it| it.family == family);
        tables.any(|table| table.is_suspect() && table.contention.pause(now).is_some())
    }

    /// Whether somebody was seen to change the table of a family since this was last asked: a reason
    /// not to wait out a long pause after a failure.
    pub(crate) fn take_news(&mut self, family: Family) -> bool {
        let Some(guard) = &mut self.guard else {
            return false;
        };
        guard.collect();
        let mut tables = guard.tables.iter_mut();
        let table = tables.find(|it| it.family == family);
        table.is_some_and(|table| core::mem::take(&mut table.news))
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
            && (intervals || structure::is_structural(transaction))
        {
            table.baseline = None;
        }
    }

    /// To be called when a table is begun anew because the kernel refused what the planner believes to
    /// fit it: `begun` is the generation from which on it counts what others do.
    pub(super) fn note_rebuild(&mut self, index: usize, begun: u32) {
        let guard = self.guard.as_mut();
        if let Some(table) = guard.and_then(|guard| guard.tables.get_mut(index)) {
            table.fresh = true;
        }
        self.note_begun_anew(index, begun);
    }

    /// The same when it is not known that anybody changed it.
    pub(super) fn note_begun_anew(&mut self, index: usize, begun: u32) {
        let now = self.clock.now();
        let guard = self.guard.as_mut();
        if let Some(table) = guard.and_then(|guard| guard.tables.get_mut(index)) {
            table.begin_anew(begun, now);
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
    /// Clients that stick in the table of a family, at the last count, if they were counted.
    pub(super) fn counted_clients(&self, index: usize) -> Option<u32> {
        self.tables.get(index)?.census.clients
    }

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
        let Self {
            tables,
            rows,
            options,
            ..
        } = self;
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
        if let Some(until) = table.retry.filter(|until| now < *until) {
            return Ok(Tended::Wait(Wait::Until(until)));
        }
        if let Some(since) = table.structure {
            return table.inspect(engine, index, since);
        }
        if !table.rows.is_empty() {
            return table.mend_sighted(engine, index);
        }
        if !table.sets.is_empty() {
            return table.walk_set(engine, index, rows);
        }
        // In turn, if both are due.
        let count_first = !table.all_rows && table.census.due < table.pass.due;
        if (table.all_rows || table.pass.due <= now) && !count_first {
            return table.walk(engine, index, options.pass, rows);
        }
        if table.census.due <= now {
            return table.count(engine, index, options.pass);
        }
        Ok(table.wait())
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
            let now = engine.clock.now();
            return Ok(table.retry.is_none_or(|time| time <= now));
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
        if let Some(after) = self.fence.opened(generation) {
            self.lose(after);
        }
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
        self.listener.close()?;
        let generation = engine.connection.generation()?;
        if let Some(after) = self.fence.closed(generation) {
            self.lose(after);
        }
        self.collect();
        Ok(())
    }

    /// Our own transactions.
    fn count(&mut self, parts: u32) {
        self.fence.committed(parts);
    }

    /// Takes over what the listener has seen.
    fn collect(&mut self) {
        let seen = self.listener.take();
        for (family, sighting) in FAMILIES.into_iter().zip(seen.tables) {
            let mut tables = self.tables.iter_mut();
            let table = tables.find(|table| table.family == family);
            let Some(table) = table.filter(|_| sighting.edits > 0) else {
                continue;
            };
            table.tally.edits += sighting.edits;
            if sighting.by.is_some() {
                table.tally.last_editor = sighting.by;
            }
            let is_over = |at: Option<u32>| at.is_some_and(|at| !is_before(at, sighting.last));
            if is_over(table.begun) {
                continue;
            }
            table.fresh = true;
            table.news = true;
            if !is_over(table.mended) {
                table.structure = table.structure.or(sighting.structure);
                table.sighted |= sighting.structure.is_some();
            }
            table.rows.extend(sighting.rows);
            for set in sighting.sets {
                table.suspect_set(set);
            }
            table.all_rows |= sighting.any_row;
            if table.rows.len() > ROWS_MAX {
                for (set, _) in core::mem::take(&mut table.rows) {
                    table.suspect_set(set);
                }
            }
        }
        if let Some(after) = self.fence.take_missed() {
            self.lose(after);
        }
        if seen.broken {
            // It is opened again when there is nothing to send.
            self.fence.broke();
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
