//! Names that were to be deleted and are not there any more.

use core::time::Duration;

use super::Planner;
use crate::clock::ticks;
use crate::planning::draft::Step;

impl Planner {
    /// The kernel refused the transaction handed out, since these chains and sets do not exist: somebody
    /// else deleted them. If it was to delete what is left of another table, they are forgotten, and the
    /// rest is tried again at once. False if that was not so; the transaction is still in flight then.
    pub fn vanished(&mut self, now: Duration, chains: &[&str], sets: &[&str]) -> bool {
        let draft = self.in_flight.as_ref();
        if !draft.is_some_and(|draft| matches!(draft.step, Step::CleanUp(_))) {
            return false;
        }
        let Some((_, names)) = self.leftovers.front_mut() else {
            return false;
        };
        if !names.forget(chains, sets) {
            return false;
        }
        self.rejected(now, &[]);
        if let Some((due, names)) = self.leftovers.front_mut() {
            *due = ticks(now);
            if names.is_empty() {
                self.leftovers.pop_front();
            }
        }
        true
    }
}
