//! Starting over beside what a table holds.

use super::{Inventory, Planner, Stage};
use crate::kernel::Kernel;
use crate::kernel::set::{SETS, SetId, SetState};
use crate::policy::masquerade::Masquerade;

impl Planner {
    pub(super) fn start_over(&mut self, found: Inventory) {
        let masquerade = Masquerade::new(self.model.family, &self.config, &self.model.node);
        self.kernel = Kernel::new(masquerade);
        self.kernel.sets = SetId::ALL.map(|id| SetState::new(id, found.free_generation(id), None));
        self.kernel.chain_suffix = found.free_suffix();
        self.model.forget_kernel();
        self.in_flight = None;
        self.due.clear();
        self.parked.clear();
        self.cramped.clear();
        self.lacking = [0; SETS];
        self.growth = None;
        self.leftovers.clear();
        self.refused.clear();
        self.committed = None;
        let is_empty = found.chains.is_empty() && found.sets.is_empty();
        self.stage = if is_empty {
            Stage::Absent
        } else {
            Stage::Foreign(found)
        };
    }
}
