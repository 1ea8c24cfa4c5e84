//! One table that is looked after: what is suspect about it, and how that is put right.

use core::time::Duration;

use nft_batch::{Batch, BatchOptions, Errno, Outcome, Transport, is_before, next_generation};
use nl_codec::nft::Table;
use nl_codec::nft::table::TableFlags;
use svc_planner::plan::{Family, KeyType};
use svc_planner::{ExpectedRow, RowCursor};

use super::super::{Engine, EngineError, TABLE, Wait, inventory};
use super::census::Census;
use super::contention::{Contention, Verdict};
use super::rows::{Fixed, Fixes};
use super::structure::{self, Structure};
use super::tally::Interference;
use super::{GuardOptions, Tended};
use crate::lower::nf_family;

/// Rows compared at a time: some milliseconds.
const SLICE: usize = 2048;
/// When to look again at what could not be read.
const AGAIN: Duration = Duration::from_millis(50);

/// One table.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) family: Family,
    /// The family has more to send.
    pub(super) busy: bool,
    /// What the table is made of if nobody but us has changed it since it was read.
    pub(super) baseline: Option<Structure>,
    /// Somebody may have changed that, in this generation at the earliest.
    pub(super) structure: Option<u32>,
    /// The table could not be read; not before this time again.
    pub(super) retry: Option<Duration>,
    /// Somebody was seen to.
    pub(super) sighted: bool,
    /// Rows that somebody changed: set and key.
    pub(super) rows: Vec<(Box<str>, Box<[u8]>)>,
    /// Sets any row of which may have been changed, and how far they have been compared.
    pub(super) sets: Vec<(Box<str>, RowCursor)>,
    /// Any row of any set may have been changed.
    pub(super) all_rows: bool,
    /// A transaction was refused because of what is in the table, and none was committed since.
    pub(super) doubted: bool,
    /// Something was seen since the last repair: the next one is another one.
    pub(super) fresh: bool,
    /// Something was seen since it was last asked.
    pub(super) news: bool,
    /// What others did to chains and rules up to this generation has been dealt with.
    pub(super) mended: Option<u32>,
    /// The same of everything.
    pub(super) begun: Option<u32>,
    pub(super) pass: Pass,
    pub(super) census: Census,
    pub(super) contention: Contention,
    pub(super) tally: Interference,
}

/// A walk over all rows.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pass {
    pub(super) cursor: RowCursor,
    pub(super) due: Duration,
}

impl Watched {
    pub(super) fn new(family: Family, options: GuardOptions, census: Census) -> Self {
        Self {
            family,
            busy: false,
            baseline: None,
            structure: None,
            retry: None,
            sighted: false,
            rows: Vec::new(),
            sets: Vec::new(),
            all_rows: false,
            doubted: false,
            fresh: false,
            news: false,
            mended: None,
            begun: None,
            pass: Pass::default(),
            census,
            contention: Contention::new(options),
            tally: Interference::default(),
        }
    }

    pub(super) fn is_suspect(&self) -> bool {
        self.structure.is_some() || !self.rows.is_empty() || !self.sets.is_empty() || self.all_rows
    }

    /// Any row of a set may have been changed: also one that was compared already.
    pub(super) fn suspect_set(&mut self, set: Box<str>) {
        self.rows.retain(|(other, _)| *other != set);
        match self.sets.iter_mut().find(|(known, _)| *known == set) {
            Some((_, cursor)) => *cursor = RowCursor::default(),
            None => self.sets.push((set, RowCursor::default())),
        }
    }

    pub(super) fn suspect(&mut self, after: u32) {
        self.structure.get_or_insert_with(|| next_generation(after));
        self.all_rows = true;
        self.fresh = true;
        self.news = true;
    }

    /// The table is begun anew; what others did up to a generation does not matter any more.
    pub(super) fn begin_anew(&mut self, begun: u32, now: Duration) {
        self.begun = Some(begun);
        self.tally.rebuilds += 1;
        self.repaired(now);
        self.baseline = None;
        self.structure = None;
        self.sighted = false;
        self.rows.clear();
        self.sets.clear();
        self.all_rows = false;
        self.pass.cursor = RowCursor::default();
        self.census.restart(now);
    }

    /// Nothing before the next slice of rows, if nothing happens.
    pub(super) fn wait(&self) -> Tended {
        let due = Wait::Until(self.pass.due.min(self.census.due));
        Tended::Wait(due.sooner(self.calm_wait()))
    }

    pub(super) fn calm_wait(&self) -> Wait {
        self.contention.calm_at().map_or(Wait::Change, Wait::Until)
    }

    /// Something is put right. What takes several steps counts once.
    fn repaired(&mut self, now: Duration) {
        if !core::mem::take(&mut self.fresh) {
            return;
        }
        let first = self.contention.since().is_none();
        let Verdict::LetGo(until) = self.contention.repaired(now) else {
            return;
        };
        self.tally.fights += u64::from(first);
        let pause = until.saturating_sub(now).as_secs();
        let (family, by) = (self.family, self.tally.changed_by());
        tracing::error!(
            "table {family} {TABLE}: {by} keeps changing it, another proxy perhaps; \
             it is left alone for {pause} s"
        );
    }

    fn say(&self, what: &str) {
        let (family, by) = (self.family, self.tally.changed_by());
        tracing::warn!("table {family} {TABLE} was changed by {by}: {what}");
    }

    /// Finds out what became of the table's chains, rules and sets.
    pub(super) fn inspect<T: Transport>(
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
                Ok(()) => {
                    self.retry = Some(now + AGAIN);
                    Ok(Tended::Wait(Wait::Until(now + AGAIN)))
                }
                Err(error) => Err(error.into()),
            };
        };
        self.retry = None;
        let baseline = self.baseline.take();
        let baseline = baseline.filter(|it| is_before(it.generation, since));
        if baseline
            .as_ref()
            .is_some_and(|it| it.digest == found.digest)
        {
            self.structure = None;
            self.sighted = false;
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
        let certain = core::mem::take(&mut self.sighted) || baseline.is_some();
        if certain {
            self.say("putting its chains and rules back in place");
        } else {
            tracing::info!("table {family} {TABLE}: making sure of its chains and rules");
        }
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
        if certain {
            self.repaired(now);
        }
        Ok(Tended::More)
    }

    pub(super) fn rebuild<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        what: &str,
    ) -> Result<Tended, EngineError> {
        let begun = engine.begin_anew(index)?;
        self.say(what);
        self.begin_anew(begun, engine.clock.now());
        Ok(Tended::More)
    }

    /// Puts rows right that somebody changed.
    pub(super) fn mend_sighted<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
    ) -> Result<Tended, EngineError> {
        let mut fixes = Fixes::new(self.family);
        let mut suspects = core::mem::take(&mut self.rows);
        // Deleted and added again, it is still put right once.
        suspects.sort_unstable();
        suspects.dedup();
        for row in suspects {
            if !engine.compare_sighted(index, &row, &mut fixes)? {
                let what = format!("rows of {}; starting over beside it", row.0);
                return self.rebuild(engine, index, &what);
            }
        }
        self.put_right(engine, &fixes)
    }

    /// Compares some rows of a suspect set.
    pub(super) fn walk_set<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        rows: &mut Vec<ExpectedRow>,
    ) -> Result<Tended, EngineError> {
        let (Some((set, mut cursor)), Some(state)) = (self.sets.pop(), engine.families.get(index))
        else {
            return Ok(Tended::More);
        };
        let (family, planner) = (state.family, &state.planner);
        let known = planner.expected_sets().find(|it| **it.name == *set);
        match known {
            // Clients come and go in a dynamic one.
            Some(known) if known.dynamic => return Ok(Tended::More),
            Some(known) if known.interval => {
                let what = format!("rows of {set}; starting over beside it");
                return self.rebuild(engine, index, &what);
            }
            Some(_) => {}
            None => return Ok(Tended::More),
        }
        rows.clear();
        let done = planner.expected_rows_of(&set, &mut cursor, SLICE, rows);
        self.tally.compared += rows.len() as u64;
        let mut fixes = Fixes::new(family);
        engine.compare(rows, &mut fixes)?;
        rows.clear();
        if !done {
            self.sets.push((set, cursor));
        }
        self.put_right(engine, &fixes)?;
        if done && self.structure.is_none() {
            self.recount(engine, index)?;
        }
        Ok(Tended::More)
    }

    /// Makes sure that there are no rows but those that were compared.
    fn recount<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
    ) -> Result<(), EngineError> {
        let Some(state) = engine.families.get(index) else {
            return Ok(());
        };
        let found = structure::read(&mut engine.connection, state.family, &state.planner)?;
        let Some(set) = found.and_then(|found| found.miscounted(&state.planner)) else {
            return Ok(());
        };
        if self.sets.iter().any(|(suspect, _)| **suspect == *set) {
            return Ok(());
        }
        let what = format!("surplus rows in {set}; starting over beside it");
        self.rebuild(engine, index, &what)?;
        Ok(())
    }

    /// Compares some rows more.
    pub(super) fn walk<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        pass: Duration,
        rows: &mut Vec<ExpectedRow>,
    ) -> Result<Tended, EngineError> {
        let Some(state) = engine.families.get(index) else {
            return Ok(Tended::Wait(Wait::Change));
        };
        let (family, planner) = (state.family, &state.planner);
        if self.pass.cursor == RowCursor::default() {
            // A walk of its own accord: what it finds nobody has seen.
            self.fresh |= !self.all_rows;
            // What is known to lack rows comes first.
            let found = structure::read(&mut engine.connection, family, planner)?;
            let short = found.map_or_else(Vec::new, |found| found.short_of(planner));
            for set in &short {
                self.suspect_set((**set).into());
            }
            if !short.is_empty() {
                return Ok(Tended::More);
            }
        }
        rows.clear();
        let done = planner.expected_rows(&mut self.pass.cursor, SLICE, rows);
        let total: u64 = planner
            .expected_sets()
            .map(|set| u64::from(set.rows.unwrap_or_default()))
            .sum();
        let slices = total.div_ceil(SLICE as u64).max(1);
        let pause = pass / u32::try_from(slices).unwrap_or(u32::MAX);
        self.pass.due = engine.clock.now() + pause;
        self.tally.compared += rows.len() as u64;
        let mut fixes = Fixes::new(family);
        engine.compare(rows, &mut fixes)?;
        rows.clear();
        if fixes.rows > 0 {
            // Where there is one there may be more.
            self.all_rows = true;
        }
        let tended = self.put_right(engine, &fixes)?;
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
            Tended::Wait(_) if !self.is_suspect() => self.wait(),
            Tended::Wait(_) => Tended::More,
            tended => tended,
        }
    }

    fn put_right<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        fixes: &Fixes,
    ) -> Result<Tended, EngineError> {
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
                self.say(&format!("{} rows put right", fixes.rows));
                self.tally.rows += fixes.rows;
            }
            Fixed::Refused => {
                self.say("rows and what they lead to");
                let generation = engine.connection.generation()?;
                self.structure.get_or_insert(generation);
                self.baseline = None;
                self.all_rows = true;
            }
        }
        self.repaired(now);
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
    rows.retain(|row| row.layout == KeyType::State);
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
    batch.add_table(nf, &table)?;
    let mut sealed = batch.seal();
    match engine.connection.commit(&mut sealed) {
        Outcome::Committed(_) => {
            engine.repairs += 1;
            Ok(())
        }
        other => Err(EngineError::NotCommitted(other.to_string())),
    }
}
