//! From one process to the next: what is found in the kernel at the start, what is written down.

use nft_batch::Transport;
use svc_planner::plan::KeyType;
use svc_planner::{Planner, RestoreError};

use super::{Engine, EngineError, FamilyState, StateDir, TABLE, state, structure};

/// What a saved state is good for.
enum Restored {
    /// It describes the table, and the planner goes on from it.
    Yes,
    /// There is none.
    Nothing,
    /// It describes another table, or the table at another time.
    Other(Option<RestoreError>),
}

impl<T: Transport> Engine<T> {
    /// Finds out what tables of ours there are already. One that `state` describes is gone on with;
    /// any other is taken over: everything is built beside what is there, then the base chains are
    /// switched over, then the old goes. To be called before the first change is applied.
    ///
    /// A family whose table cannot be read is logged, and read with its first turn.
    ///
    /// # Errors
    /// [`EngineError::Query`], if no family's table can be read; [`EngineError::Owned`].
    pub fn adopt(&mut self, state: Option<&StateDir>) -> Result<(), EngineError> {
        let mut failures = Vec::new();
        for index in 0..self.families.len() {
            let Err(error) = self.adopt_family(index, state) else {
                continue;
            };
            if matches!(error, EngineError::Owned { .. }) {
                return Err(error);
            }
            if let Some(state) = self.families.get_mut(index) {
                state.unread = true;
                failures.push((state.family, error));
            }
        }
        if failures.len() < self.families.len() {
            for (family, error) in failures.drain(..) {
                tracing::error!("table {family} {TABLE}: {error}");
            }
        }
        match failures.into_iter().next() {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    fn adopt_family(&mut self, index: usize, state: Option<&StateDir>) -> Result<(), EngineError> {
        let family = self.families.get(index).map(|it| it.family);
        if let Some(family) = family {
            self.check_owner(family)?;
        }
        match (self.restore(index, state)?, family) {
            (Restored::Yes, _) => return Ok(()),
            (Restored::Other(why), Some(family)) => {
                let why =
                    why.map_or_else(|| "not as it was left".to_owned(), |why| why.to_string());
                tracing::warn!("table {family} {TABLE}: {why}: starting over beside it");
            }
            _ => {}
        }
        self.begin_anew(index).map(drop)
    }

    /// Goes on from `state` where it describes the tables of both families; `false` if it does not
    /// (yet). To be called before the first change is applied.
    ///
    /// # Errors
    /// [`EngineError::Query`].
    pub fn resume(&mut self, state: &StateDir) -> Result<bool, EngineError> {
        for index in 0..self.families.len() {
            if !matches!(self.restore(index, Some(state))?, Restored::Yes) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes down what the next process needs to go on where this one ends.
    ///
    /// # Errors
    /// [`EngineError::Query`], [`EngineError::State`].
    pub fn save(&mut self, state: &StateDir) -> Result<(), EngineError> {
        self.save_some(state, |_| true)
    }

    /// As [`save`](Self::save), for the families with transactions since.
    pub(super) fn save_changed(&mut self, state: &StateDir) -> Result<(), EngineError> {
        self.save_some(state, |family| family.unsaved)
    }

    pub(super) fn is_unsaved(&self) -> bool {
        self.families.iter().any(|family| family.unsaved)
    }

    fn save_some(
        &mut self,
        state: &StateDir,
        which: impl Fn(&FamilyState) -> bool,
    ) -> Result<(), EngineError> {
        let mut result = Ok(());
        for index in 0..self.families.len() {
            if self.families.get(index).is_some_and(&which) {
                let saved = self.save_family(index, state);
                result = result.and(saved);
            }
        }
        result
    }

    /// Goes on from a family's saved state if it fits the table.
    fn restore(&mut self, index: usize, state: Option<&StateDir>) -> Result<Restored, EngineError> {
        let Some(family) = self.families.get(index).map(|it| it.family) else {
            return Ok(Restored::Nothing);
        };
        let Some(state::Saved { digest, snapshot }) = state.and_then(|state| state.load(family))
        else {
            return Ok(Restored::Nothing);
        };
        let set = snapshot.state_set();
        if !self.has_row(family, &set, KeyType::State, &snapshot.state())? {
            return Ok(Restored::Other(None));
        }
        let (now, Some(state)) = (self.clock.now(), self.families.get(index)) else {
            return Ok(Restored::Nothing);
        };
        let (config, seed) = (state.config.clone(), u64::from(state.config.instance));
        let planner = match Planner::restore(config, snapshot, now) {
            Ok(planner) => planner,
            Err(error) => return Ok(Restored::Other(Some(error))),
        };
        let found = structure::read(&mut self.connection, family, &planner)?;
        let found = found.filter(|it| it.digest == digest && it.miscounted(&planner).is_none());
        if found.is_none() || !self.sample(family, &planner, seed)? {
            return Ok(Restored::Other(None));
        }
        if let Some(state) = self.families.get_mut(index) {
            state.planner = planner;
            state.adopted = found;
        }
        Ok(Restored::Yes)
    }

    /// Writes down what the next process needs to know of a family.
    fn save_family(&mut self, index: usize, state: &StateDir) -> Result<(), EngineError> {
        let digest = self.vouched(index)?;
        let Some(family) = self.families.get(index) else {
            return Ok(());
        };
        match (family.planner.live_snapshot(), digest) {
            (Some(snapshot), Some(digest)) => {
                state.save(family.family, &state::Saving { digest, snapshot })?;
            }
            // What was saved before will not be believed in, if it does not fit.
            (Some(_), None) => return Ok(()),
            (None, _) => state.remove(family.family),
        }
        if let Some(family) = self.families.get_mut(index) {
            family.unsaved = false;
        }
        Ok(())
    }
}
