//! What follows from a census of a table that is looked after.

use core::time::Duration;

use nft_batch::{Errno, Transport};

use super::super::{Engine, EngineError, TABLE, Wait};
use super::Tended;
use super::census::{Census, Content, Slice, is_counted};
use super::listener::ROWS_MAX;
use super::structure;
use super::watched::Watched;
use crate::lower::nf_family;

impl Watched {
    /// Reads some rows more, and looks for those that should not be there.
    pub(super) fn count<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        index: usize,
        pass: Duration,
    ) -> Result<Tended, EngineError> {
        let now = engine.clock.now();
        let Some(state) = engine.families.get(index) else {
            return Ok(Tended::Wait(Wait::Change));
        };
        let (family, planner) = (state.family, &state.planner);
        if self.baseline.is_none() {
            self.baseline = structure::read(&mut engine.connection, family, planner)?;
        }
        let Some(found) = &self.baseline else {
            self.census.restart(now + pass);
            return Ok(self.wait());
        };
        let counted = planner.expected_sets().filter(|set| is_counted(found, set));
        let steps: u64 = counted.map(|set| self.census.slices(&set)).sum();
        let steps = u32::try_from(steps).unwrap_or(u32::MAX);
        self.census.due = now + pass / steps.max(1);
        let mut begun = match self.census.walk.take() {
            Some(walk) => Ok(Some(walk)),
            None => self.census.begin(family, planner, found),
        };
        if matches!(begun, Ok(None)) && steps > 0 {
            self.tally.counts += 1;
            let due = self.census.due;
            self.census.restart(due);
            begun = self.census.begin(family, planner, found);
        }
        let mut walk = match begun {
            Ok(Some(walk)) => walk,
            Ok(None) => return Ok(self.wait()),
            Err(error) => {
                tracing::debug!("table {family} {TABLE}: rows not counted: {error}");
                return Ok(self.wait());
            }
        };
        let Census {
            elements, hasher, ..
        } = &mut self.census;
        let (slice, rows) = match walk.slice(elements, family, planner, hasher) {
            Ok(slice) => slice,
            Err(error) => {
                let is_ours = planner.expected_sets().any(|set| *set.name == walk.set);
                if error.errno() == Some(Errno::ENOENT) && is_ours {
                    // Its deletion is about to be seen, or was not.
                    let generation = engine.connection.generation()?;
                    self.structure.get_or_insert(generation);
                    return Ok(Tended::More);
                }
                let set = walk.set;
                tracing::debug!("table {family} {TABLE}: rows of {set} not counted: {error}");
                return Ok(self.wait());
            }
        };
        walk.rows += rows;
        if walk.content != Content::Clients {
            self.tally.compared += rows;
        }
        match slice {
            Slice::On => self.census.walk = Some(walk),
            Slice::Fine => {
                if walk.content == Content::Clients {
                    self.census.clients = Some(u32::try_from(walk.rows).unwrap_or(u32::MAX));
                }
            }
            Slice::Disturbed => {
                let begun = self
                    .census
                    .elements
                    .begin(nf_family(family), TABLE, &walk.set);
                (walk.rows, walk.sum, walk.tries) = (0, 0, walk.tries + 1);
                self.census.walk = begun.is_ok().then_some(walk);
            }
            Slice::Surplus(keys) if self.rows.len() + keys.len() <= ROWS_MAX => {
                self.fresh = true;
                let rows = keys.into_iter().map(|key| ((&*walk.set).into(), key));
                self.rows.extend(rows);
                self.census.walk = Some(walk);
                return Ok(Tended::More);
            }
            Slice::Surplus(_) | Slice::Other => {
                self.fresh = true;
                let what = format!("rows of {}; starting over beside it", walk.set);
                return self.rebuild(engine, index, &what);
            }
        }
        Ok(self.wait())
    }
}
