//! Starting over beside what a table holds.

use super::carry::Carry;
use super::{Planner, Stage};
use crate::kernel::set::{SETS, SetId, SetState};
use crate::kernel::{Kernel, RuleSettings};
use crate::planning::takeover::Inventory;

impl Planner {
    /// Gives up what a [restored](Self::restore) table holds for Services that did not come.
    pub(super) fn drop_expected(&mut self) {
        if core::mem::take(&mut self.expects) {
            self.model.drop_expected_ports();
            let frontends = self.model.frontends.arena.iter();
            self.model
                .lost_frontends
                .extend(frontends.map(|(id, _)| id));
            let cluster_ips = self.model.cluster_ips.arena.iter();
            self.model
                .lost_cluster_ips
                .extend(cluster_ips.map(|(id, _)| id));
        }
    }

    pub(super) fn start_over(&mut self, found: Inventory) {
        self.kernel = Kernel::new(RuleSettings::new(&self.model, &self.config));
        self.kernel.sets = SetId::ALL.map(|id| SetState::new(id, found.free_generation(id), None));
        self.kernel.chain_suffix = found.free_suffix();
        self.drop_expected();
        self.model.forget_kernel();
        self.in_flight = None;
        self.due.clear();
        self.parked.clear();
        self.guarded.clear();
        self.cramped.clear();
        self.lacking = [0; SETS];
        self.growth = None;
        self.carry = Carry::default();
        self.leftovers.clear();
        self.refused.clear();
        self.aside.clear();
        self.limit = None;
        self.committed = None;
        self.damaged = None;
        let is_empty = found.chains.is_empty() && found.sets.is_empty();
        self.stage = if is_empty {
            Stage::Absent
        } else {
            Stage::Foreign(found)
        };
    }
}
