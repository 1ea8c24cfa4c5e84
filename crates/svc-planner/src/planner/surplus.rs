//! What the table holds and should not: which of some keys no row of ours has, and all rows of the sets
//! of prefixes, which cannot be asked for one by one.

use std::collections::HashSet;

use super::Planner;
use crate::kernel::set::{SETS, SetId};
use crate::plan::{EndpointId, Key};

impl Planner {
    /// Leaves in `keys` only those that a set of ours has no row for. False, with `keys` as they were,
    /// if that cannot be told now: it is no set of ours, its rows are prefixes or added by rules, it is
    /// being filled, or a transaction is in flight.
    pub fn retain_surplus(&self, set: &str, keys: &mut Vec<Key>) -> bool {
        let mut states = self.set_states().enumerate();
        let found = states.find(|(_, (_, state))| *state.name == *set);
        let Some((position, (id, _))) = found.filter(|_| self.in_flight.is_none()) else {
            return false;
        };
        if position >= SETS || id.is_interval() || id.is_dynamic() {
            return false;
        }
        match id {
            // Found by looking through all groups: once for all of them.
            SetId::StickyEndpoints | SetId::ChosenEndpoints => {
                let mut ids: HashSet<EndpointId> = keys.iter().filter_map(endpoint_id).collect();
                for (number, group) in self.kernel.groups.iter() {
                    for (key, _) in group.rows(id, number, self.model.family) {
                        if let Some(endpoint) = endpoint_id(&key) {
                            ids.remove(&endpoint);
                        }
                    }
                }
                keys.retain(|key| endpoint_id(key).is_none_or(|id| ids.contains(&id)));
            }
            _ => keys.retain(|key| !matches!(self.expected_row(set, key), Some(Some(_)))),
        }
        true
    }

    /// All rows of a set of prefixes of ours; `None` if it is none, or a transaction is in flight.
    #[must_use]
    pub fn expected_prefixes(&self, set: &str) -> Option<Vec<Key>> {
        let mut states = self.set_states();
        let (id, _) = states.find(|(_, state)| *state.name == *set)?;
        if self.in_flight.is_some() {
            return None;
        }
        let kernel = &self.kernel;
        match id {
            SetId::ServiceCidrs => {
                let cidrs = kernel.settings.service_cidrs.iter();
                Some(cidrs.copied().map(Key::Prefix).collect())
            }
            SetId::SourceRanges => {
                let rows = kernel.lists.iter().flat_map(|(list, held)| {
                    let ranges = held.ranges.iter();
                    ranges.map(move |range| Key::Source {
                        list,
                        range: *range,
                    })
                });
                Some(rows.collect())
            }
            _ => None,
        }
    }
}

const fn endpoint_id(key: &Key) -> Option<EndpointId> {
    match key {
        Key::EndpointId(id) => Some(*id),
        _ => None,
    }
}
