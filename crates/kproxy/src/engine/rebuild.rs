//! Beginning a table anew that is not as its planner believes.

use nft_batch::Transport;

use super::{Engine, EngineError, inventory};

impl<T: Transport> Engine<T> {
    /// Begins a table anew that is not as the planner believes.
    pub(super) fn rebuild(&mut self, index: usize) -> Result<(), EngineError> {
        self.distrust(index);
        let begun = self.begin_anew(index)?;
        self.note_rebuild(index, begun);
        Ok(())
    }

    /// Rebuilt, and nothing committed since: another rebuild at once will not help.
    pub(super) fn is_rebuilt(&self, index: usize) -> bool {
        self.families.get(index).is_some_and(|state| state.rebuilt)
    }

    /// Has a table begun anew with the family's next turn, whatever was read of it before.
    pub(super) fn distrust(&mut self, index: usize) {
        if let Some(state) = self.families.get_mut(index) {
            state.unread = true;
        }
    }

    /// Begins a table anew, beside whatever there is in the generation that is returned.
    pub(super) fn begin_anew(&mut self, index: usize) -> Result<u32, EngineError> {
        let generation = self.connection.generation()?;
        let Some(state) = self.families.get_mut(index) else {
            return Ok(generation);
        };
        // A table that is gone is one with nothing in it.
        let found = inventory::read(&mut self.connection, state.family)?;
        state.planner.rebuild(found.unwrap_or_default());
        state.planner.promise_clients();
        state.rebuilt = true;
        state.unread = false;
        Ok(generation)
    }
}
