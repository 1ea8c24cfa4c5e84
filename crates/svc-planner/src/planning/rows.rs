//! Rows of frontends, ClusterIPs and hairpins.

use super::Work;
use super::draft::{Draft, Due, Undo};
use crate::clock::{IN_USE, PENDING};
use crate::kernel::hairpin::Hairpin;
use crate::kernel::set::SetId;
use crate::model::address::LocalTarget;
use crate::model::arena::NONE;
use crate::model::frontend::ClusterIps;
use crate::plan::{Datum, Family, Key, Route};

/// What a frontend's rows are to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// Balance.
    Route(Route),
    /// Refuse.
    Reject,
    /// Nothing: it is nobody's.
    Absent,
}

impl Work<'_> {
    /// Brings a frontend's rows in line.
    pub(super) fn set_frontend(&mut self, id: u32, goal: Goal) {
        let Some(frontend) = self.model.frontends.arena.at_mut(id) else {
            return;
        };
        let key = frontend.key.lower(self.model.family);
        let (routes, rejects) = match frontend.key.address {
            Some(_) => (SetId::Services, SetId::RejectServices),
            None => (SetId::NodePorts, SetId::RejectNodePorts),
        };
        let frontend_key = frontend.key;
        let before = (frontend.route, frontend.rejects, frontend.since);
        let route = match goal {
            Goal::Route(route) => Some(route),
            Goal::Reject | Goal::Absent => None,
        };
        if frontend.route != route {
            if frontend.route.is_some() {
                self.draft.delete(routes, id, key);
            }
            if let Some(route) = route {
                self.draft.add(routes, id, key, Datum::Route(route));
                if frontend.route.is_none() {
                    self.model.flows.note_new(frontend.key);
                }
            }
            frontend.route = route;
        }
        match goal {
            // A connection that missed the new row must still be refused.
            Goal::Route(_) if frontend.rejects && frontend.since == IN_USE => {
                frontend.since = PENDING;
                self.draft.released.push(Due::Frontend(id));
            }
            Goal::Route(_) => {}
            Goal::Reject => {
                if !frontend.rejects {
                    self.draft.add(rejects, id, key, Datum::None);
                }
                (frontend.rejects, frontend.since) = (true, IN_USE);
            }
            Goal::Absent => {
                if frontend.rejects {
                    self.draft.delete(rejects, id, key);
                }
                // It can be forgotten with the commit, not before.
                (frontend.rejects, frontend.since) = (false, PENDING);
                self.draft.released.push(Due::Frontend(id));
            }
        }
        let after = (frontend.route, frontend.rejects, frontend.since);
        if after != before {
            let (old, rejects, since) = before;
            self.draft.undo.push(Undo::Frontend {
                id,
                route: old,
                rejects,
                since,
            });
            self.recount(old, route);
            self.note_move(frontend_key, old, route);
        }
    }

    /// Counts the rows that lead to classes and groups.
    pub(super) fn recount(&mut self, old: Option<Route>, new: Option<Route>) {
        if old == new {
            return;
        }
        if let Some(new) = new {
            self.count(new, 1);
        }
        if let Some(old) = old {
            self.count(old, -1);
        }
    }

    fn count(&mut self, route: Route, by: i32) {
        self.edit_class(route.class(), |class| {
            class.rows = class.rows.saturating_add_signed(by);
        });
        self.edit_group(route.group(), |facts| {
            facts.rows = facts.rows.saturating_add_signed(by);
        });
    }

    /// Adds the rows of a Service's ClusterIPs.
    pub(super) fn add_cluster_ips(&mut self, service: u32) {
        let Some(service) = self.model.services.at(service) else {
            return;
        };
        let Some(spec) = &service.spec else {
            return;
        };
        let (ips, family) = (&mut self.model.cluster_ips, self.model.family);
        if service.cluster_ip != NONE {
            return add_cluster_ip(ips, service.cluster_ip, family, self.draft);
        }
        for address in spec.cluster_ips() {
            if let Some(id) = ips.find(address) {
                add_cluster_ip(ips, id, family, self.draft);
            }
        }
    }

    /// Deletes the row of a ClusterIP no Service has any more.
    pub(crate) fn drop_cluster_ip(&mut self, id: u32) {
        let Some(ip) = self
            .model
            .cluster_ips
            .arena
            .at_mut(id)
            .filter(|ip| ip.claims == 0)
        else {
            return;
        };
        if ip.leaves {
            return;
        }
        if !ip.present {
            return self.model.cluster_ips.remove(id);
        }
        (ip.present, ip.leaves) = (false, true);
        let key = Key::Address(ip.address.ip(self.model.family));
        self.draft.delete(SetId::ClusterIps, id, key);
        self.draft.undo.push(Undo::ClusterIp { id, present: true });
        self.draft.emptied_cluster_ips.push(id);
    }

    /// Deletes the rows of a frontend nobody owns.
    pub(crate) fn drop_frontend(&mut self, id: u32) {
        match self.model.frontends.arena.at(id) {
            Some(frontend)
                if frontend.is_unused()
                    && frontend.since != PENDING
                    && !self.kernel.guards.contains_key(&id) =>
            {
                self.model.frontends.remove(id);
            }
            Some(frontend) if frontend.owner.port == NONE => {
                self.note_gone(id);
                // Who reads that the guard is gone, reads later that the frontend is.
                self.set_guard(id, 0);
                self.set_frontend(id, Goal::Absent);
            }
            _ => {}
        }
    }

    /// Brings a port's hairpin rows in line with a sorted list.
    pub(super) fn set_hairpins(&mut self, id: u32, wanted: &[LocalTarget]) {
        let Some(port) = self
            .model
            .ports
            .at_mut(id)
            .filter(|port| port.hairpins != wanted)
        else {
            return;
        };
        let start = self.draft.hairpins.len();
        self.draft.hairpins.extend_from_slice(&port.hairpins);
        self.draft.undo.push(Undo::PortHairpins { id, start });
        port.hairpins.clear();
        port.hairpins.reserve_exact(wanted.len());
        port.hairpins.extend_from_slice(wanted);
        let missing = |from: &[LocalTarget], key: &LocalTarget| {
            from.binary_search_by_key(&key.target, |other| other.target)
                .is_err()
        };
        for key in wanted {
            if missing(&self.draft.hairpins[start..], key) {
                self.edit_hairpin(*key, 1);
            }
        }
        for at in start..self.draft.hairpins.len() {
            let key = self.draft.hairpins[at];
            if missing(wanted, &key) {
                self.edit_hairpin(key, -1);
            }
        }
    }

    fn edit_hairpin(&mut self, key: LocalTarget, by: i32) {
        let before = self.kernel.hairpins.get(&key).copied();
        self.draft.undo.push(Undo::Hairpin { key, value: before });
        let mut hairpin = before.unwrap_or_else(|| {
            self.draft
                .add(SetId::Hairpins, 0, self.model.hairpin_key(key), Datum::None);
            Hairpin::NEW
        });
        hairpin.uses = hairpin.uses.saturating_add_signed(by);
        hairpin.since = IN_USE;
        if hairpin.uses == 0 {
            hairpin.since = PENDING;
            self.draft.released.push(Due::Hairpin(key));
        }
        self.kernel.hairpins.insert(key, hairpin);
    }
}

/// Adds the row of a ClusterIP if it is not there.
fn add_cluster_ip(ips: &mut ClusterIps, id: u32, family: Family, draft: &mut Draft) {
    if let Some(ip) = ips.arena.at_mut(id)
        && !ip.present
    {
        ip.present = true;
        let key = Key::Address(ip.address.ip(family));
        draft.add(SetId::ClusterIps, id, key, Datum::None);
        draft.undo.push(Undo::ClusterIp { id, present: false });
    }
}
