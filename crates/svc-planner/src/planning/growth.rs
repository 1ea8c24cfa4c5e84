//! Replacing a set by a bigger one: its rows are copied bit by bit, later changes are written to
//! both, then all rules are switched over in one transaction.

use super::Work;
use crate::kernel::set::{SetId, SetState, size_for};
use crate::model::arena::NONE;
use crate::plan::{Datum, Key, Name};

/// A set on its way to a bigger one.
#[derive(Debug, Clone)]
pub(crate) struct Growth {
    pub(crate) set: SetId,
    /// The bigger set.
    pub(crate) state: SetState,
    /// Name of the smaller one.
    pub(crate) replaced: Name,
    /// Rows of items below are in both sets; [`NONE`] once all are.
    pub(crate) cursor: u32,
}

impl Growth {
    /// The bigger set to take the place of one that is nearly full, or lacks room for `needed` more
    /// rows.
    pub(crate) fn wanted(set: SetId, now: &SetState, needed: u32, max: u32) -> Option<Self> {
        let size = now.size.filter(|size| set.is_sized() && *size < max)?;
        if needed <= now.room() && now.room() > size / 8 {
            return None;
        }
        let rows = now.rows.saturating_add(needed).max(size);
        let state = SetState::new(set, now.generation + 1, Some(size_for(rows, max)));
        Some(Self {
            set,
            state,
            replaced: now.name.clone(),
            cursor: 0,
        })
    }
}

impl Work<'_> {
    /// Copies rows until the transaction is full; gives the new cursor.
    pub(crate) fn copy_rows(&mut self, set: SetId, mut cursor: u32, chunk: usize) -> u32 {
        let end = match set {
            SetId::Endpoints
            | SetId::StickySlots
            | SetId::StickyEndpoints
            | SetId::ChosenEndpoints => self.kernel.groups.end(),
            SetId::ClusterIps => self.model.cluster_ips.arena.end(),
            _ => self.model.frontends.arena.end(),
        };
        while cursor < end {
            if self.draft.rows() >= chunk {
                return cursor;
            }
            match set {
                SetId::Endpoints
                | SetId::StickySlots
                | SetId::StickyEndpoints
                | SetId::ChosenEndpoints => self.copy_endpoints(set, cursor),
                SetId::ClusterIps => self.copy_cluster_ip(cursor),
                _ => self.copy_frontend(set, cursor),
            }
            cursor += 1;
        }
        NONE
    }

    fn copy_endpoints(&mut self, set: SetId, number: u32) {
        let Some(group) = self.kernel.groups.at(number) else {
            return;
        };
        for (key, datum) in group.rows(set, number, self.model.family) {
            self.draft.copy(key, datum);
        }
    }

    fn copy_cluster_ip(&mut self, id: u32) {
        if let Some(ip) = self.model.cluster_ips.arena.at(id).filter(|ip| ip.present) {
            self.draft
                .copy(Key::Address(ip.address.ip(self.model.family)), Datum::None);
        }
    }

    fn copy_frontend(&mut self, set: SetId, id: u32) {
        let Some(frontend) = self.model.frontends.arena.at(id) else {
            return;
        };
        let (has_address, key) = (frontend.key.address.is_some(), frontend.key);
        let key = key.lower(self.model.family);
        let route = frontend.route.map(Datum::Route);
        let reject = frontend.rejects.then_some(Datum::None);
        let guard = self.kernel.guards.get(&id);
        let guard = guard.map(|guard| Datum::List(guard.list));
        let datum = match (set, has_address) {
            (SetId::Services, true) | (SetId::NodePorts, false) => route,
            (SetId::RejectServices, true) | (SetId::RejectNodePorts, false) => reject,
            (SetId::Firewall, true) => guard,
            _ => None,
        };
        if let Some(datum) = datum {
            self.draft.copy(key, datum);
        }
    }
}
