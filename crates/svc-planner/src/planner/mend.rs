//! Putting chains and rules back in place, without touching a row.

use super::{Planner, Stage};
use crate::kernel::layout::chains;
use crate::plan::{Chain, Name};
use crate::planning::draft::{Draft, Step};
use crate::planning::takeover::{Inventory, Leftovers};

impl Planner {
    /// Somebody changed chains or rules; `found` is in the table now. The next transaction puts all of
    /// ours as they should be and takes out of force whatever else there is, which is deleted later.
    /// Rows stay: no connection moves. If sets of ours are gone as well, or ours is not the table in
    /// force yet, only [`rebuild`](Self::rebuild) helps.
    pub fn mend(&mut self, found: Inventory) {
        if self.stage == Stage::Serving {
            self.damaged = Some(found);
        }
    }

    pub(super) fn mend_rules(&mut self, draft: &mut Draft, now: u64) -> bool {
        let Some(found) = self.damaged.take() else {
            return false;
        };
        let mut ours: Vec<Chain> = chains();
        let suffix = self.kernel.chain_suffix;
        let classes = self.kernel.classes.chains(suffix);
        ours.extend(classes.map(|name| Chain { name, base: None }));
        let foreign = self.foreign(&found, &ours);
        self.work(draft, now).take_chains(&found, ours);
        let transaction = &mut draft.transaction;
        transaction.add_table = true;
        transaction
            .flush_chains
            .extend(foreign.flush.iter().cloned());
        // Nothing leads to a base chain, and its policy might drop.
        let is_base = |name: &Name| {
            let mut chains = found.chains.iter();
            chains.any(|chain| chain.name == *name && chain.base.is_some())
        };
        let bases = foreign.chains.iter().filter(|name| is_base(name));
        transaction.delete_chains.extend(bases.cloned());
        let foreign = Leftovers {
            flush: Vec::new(),
            chains: foreign
                .chains
                .iter()
                .filter(|name| !is_base(name))
                .cloned()
                .collect(),
            sets: foreign.sets,
        };
        draft.step = Step::Mend(found, foreign);
        let mut work = self.work(draft, now);
        work.adopt_configuration();
        work.add_all_rules();
        true
    }

    /// What is neither ours nor waits to be deleted.
    fn foreign(&self, found: &Inventory, ours: &[Chain]) -> Leftovers {
        let left = || self.leftovers.iter().map(|(_, names)| names);
        let is_left = |name: &Name| {
            left().any(|left| {
                [&left.flush, &left.chains, &left.sets]
                    .iter()
                    .any(|names| names.contains(name))
            })
        };
        let chains = found.chains.iter().map(|chain| &chain.name);
        let chains: Vec<Name> = chains
            .filter(|name| !ours.iter().any(|chain| chain.name == **name) && !is_left(name))
            .cloned()
            .collect();
        let sets = found
            .sets
            .iter()
            .filter(|name| !self.expected_sets().any(|set| set.name == *name) && !is_left(name));
        Leftovers {
            flush: chains.clone(),
            sets: sets.cloned().collect(),
            chains,
        }
    }
}
