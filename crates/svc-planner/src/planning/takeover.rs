//! Taking a table over: what it holds stays in force until ours is complete beside it.

use hashbrown::HashSet;
use serde::{Deserialize, Serialize};

use super::Work;
use crate::kernel::class::suffix_of;
use crate::kernel::layout::{chains, is_firewall};
use crate::kernel::set::SetId;
use crate::plan::{Chain, Name};

/// Names found in a table, see [`Planner::rebuild`](crate::Planner::rebuild).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Chains.
    pub chains: Vec<Chain>,
    /// Sets and maps.
    pub sets: Vec<Name>,
}

/// Names in a table that are not ours, to be deleted once no packet can be on its way there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Leftovers {
    /// Chains whose rules are to go.
    pub(crate) flush: Vec<Name>,
    /// Sets to delete, once no rule uses them.
    pub(crate) sets: Vec<Name>,
    /// Chains to delete, once no rule and no row leads to them.
    pub(crate) chains: Vec<Name>,
}

impl Leftovers {
    /// What is left of a table whose base chains were taken over.
    pub(crate) fn of(inventory: Inventory) -> Self {
        let ours: HashSet<Name> = chains().into_iter().map(|chain| chain.name).collect();
        let chains = inventory.chains.into_iter().map(|chain| chain.name);
        let chains: Vec<Name> = chains.filter(|name| !ours.contains(name)).collect();
        Self {
            flush: chains.clone(),
            sets: inventory.sets,
            chains,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flush.is_empty() && self.sets.is_empty() && self.chains.is_empty()
    }

    /// Forgets names; false if none of them is here.
    pub(crate) fn forget(&mut self, chains: &[&str], sets: &[&str]) -> bool {
        let len = |it: &Self| it.flush.len() + it.sets.len() + it.chains.len();
        let before = len(self);
        for names in [&mut self.flush, &mut self.chains] {
            names.retain(|name| !chains.contains(&&**name));
        }
        self.sets.retain(|name| !sets.contains(&&**name));
        len(self) < before
    }

    /// Splits off what one transaction deletes. A chain goes in a later transaction than the rows
    /// that led to it: kernels before 6.2 drop their references late.
    pub(crate) fn split(&mut self, limit: usize) -> Self {
        let take = |names: &mut Vec<Name>| names.split_off(names.len().saturating_sub(limit));
        let mut part = Self::default();
        if !self.flush.is_empty() {
            part.flush = take(&mut self.flush);
        } else if !self.sets.is_empty() {
            part.sets = take(&mut self.sets);
        } else {
            part.chains = take(&mut self.chains);
        }
        part
    }
}

impl Inventory {
    /// A generation of a set's name that is above all found.
    pub(crate) fn free_generation(&self, set: SetId) -> u32 {
        let generation = |name: &Name| {
            let rest = name.strip_prefix(set.name())?;
            match rest.strip_prefix('-') {
                None => rest.is_empty().then_some(0),
                Some(number) => number.parse::<u32>().ok(),
            }
        };
        let greatest = self.sets.iter().filter_map(generation).max();
        greatest.map_or(0, |generation| generation.saturating_add(1))
    }

    /// The chains of our firewall are among those found now.
    pub(crate) fn note_firewall(&mut self) {
        self.chains.retain(|chain| !is_firewall(&chain.name));
        let firewall = chains()
            .into_iter()
            .filter(|chain| is_firewall(&chain.name));
        self.chains.extend(firewall);
    }

    /// A suffix of class chains' names that is above all found.
    pub(crate) fn free_suffix(&self) -> u32 {
        let suffixes = self.chains.iter().map(|chain| suffix_of(&chain.name));
        let greatest = suffixes.flatten().max();
        greatest.map_or(0, |suffix| suffix.saturating_add(1))
    }
}

impl Work<'_> {
    /// Creates the sets beside those found.
    pub(crate) fn create_sets_beside(&mut self) {
        self.create_sets();
        self.adopt_configuration();
    }

    /// Points the base chains at our rules. Rules of all base chains found go: none of them is to
    /// judge a packet any more.
    pub(crate) fn switch_base_chains(&mut self, found: &Inventory) {
        let moved = self.take_chains(found, chains());
        let transaction = &mut self.draft.transaction;
        let ours: HashSet<Name> = transaction.flush_chains.iter().cloned().collect();
        // A chain that is deleted must not be jumped to from anywhere.
        let others = found
            .chains
            .iter()
            .filter(|chain| moved || chain.base.is_some());
        let others = others
            .map(|chain| chain.name.clone())
            .filter(|name| !ours.contains(name));
        transaction.flush_chains.extend(others);
        self.add_fixed_rules(&|_| true);
    }

    /// Points only those base chains at our rules that packets meet before they are translated.
    pub(crate) fn switch_firewall(&mut self, found: &Inventory) {
        let firewall = chains()
            .into_iter()
            .filter(|chain| is_firewall(&chain.name));
        self.take_chains(found, firewall.collect());
        self.add_fixed_rules(&is_firewall);
    }

    /// Makes chains ours and empty; true if one had to be deleted for that.
    pub(crate) fn take_chains(&mut self, found: &Inventory, chains: Vec<Chain>) -> bool {
        let transaction = &mut self.draft.transaction;
        let mut moved = false;
        for chain in &chains {
            let is_it = |other: &&Chain| other.name == chain.name;
            let Some(other) = found.chains.iter().find(is_it) else {
                continue;
            };
            transaction.flush_chains.push(chain.name.clone());
            if other.base != chain.base {
                transaction.replace_chains.push(chain.name.clone());
                moved = true;
            }
        }
        // Those that are there as well: a policy may have been changed.
        transaction.add_chains.extend(chains);
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inventory(chains: &[&str], sets: &[&str]) -> Inventory {
        Inventory {
            chains: chains
                .iter()
                .map(|name| Chain {
                    name: (*name).into(),
                    base: None,
                })
                .collect(),
            sets: sets.iter().map(|name| (*name).into()).collect(),
        }
    }

    #[test]
    fn names_of_a_rebuilt_table_are_free() {
        let found = inventory(
            &["internal-3", "external-local-2-4", "services"],
            &["services", "services-3", "cluster-addresses", "service-ips"],
        );
        assert_eq!(found.free_suffix(), 5);
        assert_eq!(found.free_generation(SetId::Services), 4);
        assert_eq!(found.free_generation(SetId::ClusterIps), 1);
        assert_eq!(found.free_generation(SetId::Endpoints), 0);
        let none = ["services", "service-X/y", "stick", "sticky-internal-3"];
        assert_eq!(inventory(&none, &[]).free_suffix(), 0);
        for (name, suffix) in [
            ("sticky-internal-3-10800", 1),
            ("sticky-nodeport-external-local-3-10800-7", 8),
            ("stick-10800", 1),
            ("stick-10800-2", 3),
        ] {
            assert_eq!(inventory(&[name], &[]).free_suffix(), suffix, "{name}");
        }
    }

    #[test]
    fn leftovers_go_rules_first_then_sets_then_chains() {
        let mut left = Leftovers::of(inventory(&["services", "a", "b", "c"], &["s"]));
        let mut steps = Vec::new();
        while !left.is_empty() {
            let part = left.split(2);
            steps.push((part.flush.len(), part.sets.len(), part.chains.len()));
        }
        assert_eq!(
            steps,
            [(2, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 2), (0, 0, 1)]
        );
    }

    #[test]
    fn names_that_are_gone_are_forgotten() {
        let mut left = Leftovers::of(inventory(&["a", "b", "s"], &["s", "t"]));
        assert!(!left.forget(&["c"], &["a"]));
        assert!(left.forget(&["a", "s"], &["t"]));
        assert_eq!(left, Leftovers::of(inventory(&["b"], &["s"])));
        assert!(left.forget(&["b"], &["s"]) && left.is_empty());
    }
}
