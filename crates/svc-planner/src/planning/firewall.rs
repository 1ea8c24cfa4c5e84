//! Rows that restrict load-balancer addresses to source ranges.
//!
//! A packet looks for its guard before it is translated. So the ranges of a list come a while
//! before the first guard that names it and go a while after the last; a guard comes the hold time
//! before its frontend leads to what it protects, and may go with it.

use std::sync::Arc;

use ipnet::IpNet;

use super::Work;
use super::draft::{Due, Undo};
use super::port::Planned;
use crate::clock::{IN_USE, PENDING, is_over};
use crate::kernel::guard::{FRESH, Guard};
use crate::kernel::set::SetId;
use crate::kernel::source_list::{List, NOBODY, State};
use crate::model::service::Role;
use crate::plan::{Datum, Key};
use crate::report::Reason;

/// How many times the hold time a list out of use is kept while there are ports to be planned.
const WANTED_HOLDS: u64 = 60;

/// So many rows of a set of ranges are moved, when one before them is deleted, in the time in which one
/// is compared.
const MOVED_PER_COMPARED: u64 = 32;

/// What a port's load-balancer addresses are restricted to.
#[derive(Debug, Clone)]
pub(super) struct Restriction {
    /// List number, 0 if everybody is admitted.
    pub(super) list: u32,
    /// It is not what the Service asks for, or worth a warning.
    pub(super) reason: Option<Reason>,
}

impl Restriction {
    const NONE: Self = Self {
        list: 0,
        reason: None,
    };

    /// The list for a frontend: addresses of other kinds are open to everybody.
    pub(super) fn of(&self, role: Role) -> u32 {
        if role == Role::LoadBalancer {
            self.list
        } else {
            0
        }
    }
}

impl Work<'_> {
    /// What restricts a port's load-balancer addresses, put in force as far as it can be at once.
    pub(super) fn restrict(&mut self, id: u32) -> Result<Restriction, Planned> {
        let restriction = self.restriction(id)?;
        if restriction.list == 0 {
            return Ok(restriction);
        }
        for (frontend, role) in self.owned_frontends(id) {
            let wanted = restriction.of(role);
            let guard = self.kernel.guards.get(&frontend);
            match guard.map(|guard| guard.list) {
                _ if wanted == 0 => {}
                // What another Service's list protects is not open to the sources in ours. Nobody
                // passes until the frontend leads to our endpoints.
                Some(list) if self.leads_elsewhere(frontend, id) => {
                    if list != wanted {
                        self.set_guard(frontend, NOBODY);
                    }
                }
                _ => self.set_guard(frontend, wanted),
            }
        }
        Ok(restriction)
    }

    /// May a frontend lead to a port's endpoints now? If not, the port is planned again when it may.
    pub(super) fn may_lead(&mut self, frontend: u32, id: u32, list: u32) -> bool {
        if list == 0 || !self.in_force || self.leads_to(frontend, id) {
            return true;
        }
        let guard = self.kernel.guards.get(&frontend);
        let guard = guard.filter(|guard| guard.list == list || guard.list == NOBODY);
        let ripe = guard.map_or(FRESH, |guard| guard.ripe);
        if ripe > self.now {
            self.draft.guarded.push((ripe, id));
        }
        ripe <= self.now
    }

    /// Brings a frontend's guard in line; 0 is none.
    pub(super) fn set_guard(&mut self, id: u32, list: u32) {
        let before = self.kernel.guards.get(&id).copied();
        let former = before.map_or(0, |guard| guard.list);
        if former == list {
            return;
        }
        let Some(frontend) = self.model.frontends.arena.at(id) else {
            return;
        };
        let key = frontend.key.lower(self.model.family);
        match before {
            // It is of this transaction.
            Some(guard) if guard.ripe == FRESH => {
                self.draft.take_back_row(SetId::Firewall, id, &key);
            }
            Some(_) => self.draft.delete(SetId::Firewall, id, key),
            None => {}
        }
        if list == 0 {
            self.kernel.guards.remove(&id);
        } else {
            self.draft.add(SetId::Firewall, id, key, Datum::List(list));
            self.kernel.guards.insert(id, Guard { list, ripe: FRESH });
            self.draft.guards.push(id);
        }
        self.draft.undo.push(Undo::Guard { id, guard: before });
        self.edit_list(list, |list| list.users = list.users.saturating_add(1));
        self.edit_list(former, |list| list.users = list.users.saturating_sub(1));
    }

    /// Is it a list out of use that ports may still be about to use? Of many Services at once some come
    /// after others for longer than the hold time.
    pub(super) fn may_be_wanted(&self, due: Due) -> bool {
        let Due::List(number) = due else {
            return false;
        };
        let long = self.hold.saturating_mul(WANTED_HOLDS);
        let list = self.kernel.lists.at(number);
        list.is_some_and(|list| list.users == 0 && !is_over(list.since, long, self.now))
    }

    /// How many of a list's rows can be deleted while the kernel compares so many, and how many it
    /// compares for them, at most. It looks for each row from the first of the set on and moves those
    /// after it (`nft_pipapo_remove`); a list's own rows lie in order, so that its first comes after
    /// those of others only.
    pub(super) fn deletable(&self, due: Due, compared: u64) -> (usize, u64) {
        let Due::List(number) = due else {
            return (usize::MAX, 0);
        };
        let own = self.unused(number).map_or(0, |list| list.ranges.len());
        let own = u64::try_from(own).unwrap_or(u64::MAX);
        let all = u64::from(self.kernel.lists.rows());
        let each = all.saturating_sub(own) + all / MOVED_PER_COMPARED + 1;
        let rows = own.min((compared / each).max(1));
        (usize::try_from(rows).unwrap_or(usize::MAX), rows * each)
    }

    /// A list that has been out of use for long.
    fn unused(&self, number: u32) -> Option<&List> {
        let list = self.kernel.lists.at(number)?;
        (list.users == 0 && is_over(list.since, self.hold, self.now)).then_some(list)
    }

    /// Deletes a list that has been out of use for long, or its first rows. Is it gone?
    pub(super) fn retire_list(&mut self, number: u32, rows: usize) -> bool {
        let Some(list) = self.unused(number) else {
            return true;
        };
        let ranges = Arc::clone(&list.ranges);
        let (first, rest) = ranges.split_at(rows.min(ranges.len()));
        for range in first {
            self.draft
                .delete(SetId::SourceRanges, 0, source_key(number, *range));
        }
        if !rest.is_empty() {
            if let Some(former) = self.kernel.lists.change(number, rest.into()) {
                self.draft.undo.push(Undo::ListShortened(number, former));
            }
            return false;
        }
        if let Some(list) = self.kernel.lists.take(number) {
            self.draft
                .undo
                .push(Undo::ListRemoved(number, Box::new(list)));
            self.draft.freed_lists.push(number);
        }
        true
    }

    fn restriction(&mut self, id: u32) -> Result<Restriction, Planned> {
        let model = &*self.model;
        let Some(port) = model.ports.at(id) else {
            return Ok(Restriction::NONE);
        };
        let Some(service) = model.services.at(port.service) else {
            return Ok(Restriction::NONE);
        };
        let spec = service.spec.as_ref().filter(|spec| spec.is_restricted());
        let Some(sources) = spec.and_then(|spec| model.admitted(spec)) else {
            return Ok(Restriction::NONE);
        };
        if sources.is_empty() {
            return Ok(Restriction {
                list: NOBODY,
                reason: Some(Reason::SourceRangesOfOtherFamily),
            });
        }
        let known = self.kernel.lists.find(&sources);
        let number = match known {
            Some(number) => number,
            None => {
                let namespace = model.names.text(service.namespace);
                let (max, draft) = (self.config.max_source_ranges, self.draft.number);
                let lists = &mut self.kernel.lists;
                let Some(number) = lists.insert(&sources, namespace, max, draft) else {
                    return Ok(Restriction {
                        list: NOBODY,
                        reason: Some(Reason::SourceRangesFull),
                    });
                };
                for range in sources.iter() {
                    let key = source_key(number, *range);
                    self.draft.add(SetId::SourceRanges, 0, key, Datum::None);
                }
                self.draft.undo.push(Undo::ListAdded(number));
                self.draft.created_lists.push(number);
                number
            }
        };
        let state = self.kernel.lists.at(number).map(|list| list.state);
        match state {
            Some(State::Ready(from)) if from <= self.now => {}
            _ if !self.in_force => {}
            _ => return Err(Planned::Parked),
        }
        Ok(Restriction {
            list: number,
            reason: None,
        })
    }

    /// Does a frontend's row lead to a port's endpoints?
    fn leads_to(&self, frontend: u32, id: u32) -> bool {
        let frontend = self.model.frontends.arena.at(frontend);
        let Some(route) = frontend.and_then(|frontend| frontend.route) else {
            return false;
        };
        let group = self.kernel.groups.at(route.group());
        group.is_some_and(|group| group.facts.owner == id)
    }

    /// Does a frontend's row lead to another port's endpoints?
    fn leads_elsewhere(&self, frontend: u32, id: u32) -> bool {
        let is_routed = self.model.frontends.arena.at(frontend);
        let is_routed = is_routed.is_some_and(|frontend| frontend.route.is_some());
        is_routed && !self.leads_to(frontend, id)
    }

    /// Changes a list, so that it can be taken back, and notes when it goes out of use.
    fn edit_list(&mut self, number: u32, edit: impl FnOnce(&mut List)) {
        let Some(list) = self.kernel.lists.at_mut(number) else {
            return;
        };
        if list.noted != self.draft.number {
            self.draft.undo.push(Undo::List {
                number,
                users: list.users,
                since: list.since,
            });
            list.noted = self.draft.number;
        }
        edit(list);
        if list.users > 0 {
            list.since = IN_USE;
        } else if list.since == IN_USE {
            list.since = PENDING;
            self.draft.released.push(Due::List(number));
        }
    }
}

fn source_key(list: u32, range: IpNet) -> Key {
    Key::Source { list, range }
}
