//! What goes into the next transaction, in which order.

use core::time::Duration;

use super::{Next, Planner, Stage};
use crate::clock::ticks;
use crate::kernel::set::{SetId, expected_rows, size_for};
use crate::model::arena::NONE;
use crate::plan::{Datum, Key};
use crate::planning::draft::{Draft, Mirror, Step};
use crate::planning::growth::Growth;
use crate::planning::{Planned, Work};

/// Names deleted in one transaction.
const CLEAN_UP_NAMES: usize = 2000;

impl Planner {
    pub(super) fn assemble(&mut self, draft: &mut Draft, now: u64) {
        self.drop_expected();
        self.drafts += 1;
        let mirror = self.growth.as_ref().map(|growth| Mirror {
            set: growth.set,
            name: growth.state.name.clone(),
            cursor: growth.cursor,
        });
        draft.start(self.drafts, &self.kernel, mirror);
        if let Some(transaction) = &mut self.spare_transaction {
            draft.reclaim(transaction);
        }
        if let Stage::Guarded(found, until) = &self.stage {
            if *until <= now {
                let found = found.clone();
                if self.carry_clients(draft) {
                    return;
                }
                draft.step = Step::TakeOver;
                self.work(draft, now).switch_base_chains(&found);
            }
            return;
        }
        if self.mend_rules(draft, now)
            || self.clean_up(draft, now)
            || self.switch_to_bigger(draft, now)
        {
            return;
        }
        if !self.kernel.left.is_empty() {
            let left = core::mem::take(&mut self.kernel.left);
            self.work(draft, now).renumber(left);
            if !draft.is_empty() {
                return;
            }
        }
        if matches!(self.stage, Stage::Absent | Stage::Foreign(_)) {
            self.size_sets(draft);
        }
        self.change_rows(draft, now);
        self.grow(draft, now);
        if draft.is_empty()
            && self.parked.is_empty()
            && self.guarded.is_empty()
            && let Stage::Filling(found) = &self.stage
        {
            let found = found.clone();
            // Who finds an address open must have found it guarded.
            if !self.kernel.guards.is_empty() {
                draft.step = Step::Guard;
                self.work(draft, now).switch_firewall(&found);
            } else if !self.carry_clients(draft) {
                draft.step = Step::TakeOver;
                self.work(draft, now).switch_base_chains(&found);
            }
        }
        if draft.is_empty() {
            // It was the others' turn, but they had nothing to do.
            self.clean_up(draft, now);
        }
    }

    /// Puts the number of the state after this transaction into it.
    pub(super) fn mark(&self, draft: &mut Draft) {
        if let Some(key) = self.state() {
            draft.delete(SetId::State, 0, key);
        }
        let (instance, sequence) = self.next_state();
        draft.add(
            SetId::State,
            0,
            Key::State { instance, sequence },
            Datum::None,
        );
    }

    pub(super) const fn next_state(&self) -> (u32, u32) {
        match self.committed {
            None => (self.config.instance, 1),
            Some((instance, u32::MAX)) => (instance.wrapping_add(1), 0),
            Some((instance, sequence)) => (instance, sequence + 1),
        }
    }

    /// When there may be something to do again.
    pub(super) fn next_time(&self) -> Next {
        let due = self.due.front().map(|(time, _)| *time);
        let parked = self.parked.front().map(|(time, _)| *time);
        let leftovers = self.leftovers.front().map(|(time, _)| *time);
        if let Stage::Guarded(_, until) = &self.stage {
            return Next::WaitUntil(Duration::from_nanos(*until));
        }
        let guarded = self.guarded.keys().next().copied();
        let aside = self.aside.next();
        let times = [due, parked, guarded, leftovers, aside];
        match times.into_iter().flatten().min() {
            Some(time) => Next::WaitUntil(Duration::from_nanos(time)),
            None => Next::Idle,
        }
    }

    pub(super) fn work<'a>(&'a mut self, draft: &'a mut Draft, now: u64) -> Work<'a> {
        Work {
            model: &mut self.model,
            kernel: &mut self.kernel,
            draft,
            selection: &mut self.selection,
            placement: &mut self.placement,
            config: &self.config,
            now,
            hold: ticks(self.config.hold),
            in_force: self.stage == Stage::Serving,
        }
    }

    /// Gives the sets room for all that is known now.
    fn size_sets(&self, draft: &mut Draft) {
        let rows = expected_rows(&self.model);
        for (id, state) in SetId::ALL.into_iter().zip(&mut draft.sets) {
            if id.is_sized() {
                state.size = Some(size_for(rows[id as usize], self.config.max_rows));
            }
            if id == SetId::ClientAffinity {
                state.size = Some(self.config.max_affinity_clients);
            }
        }
    }

    /// Deletes names that are left over, in transactions of their own, in turn with others.
    fn clean_up(&mut self, draft: &mut Draft, now: u64) -> bool {
        let turn = core::mem::replace(&mut self.leftovers_turn, true);
        let Some((_, leftovers)) = self
            .leftovers
            .front()
            .filter(|(due, _)| turn && *due <= now)
        else {
            return false;
        };
        let mut rest = leftovers.clone();
        let part = rest.split(CLEAN_UP_NAMES);
        draft.transaction.flush_chains = part.flush;
        draft.transaction.delete_sets = part.sets;
        draft.transaction.delete_chains = part.chains;
        draft.step = Step::CleanUp(rest);
        self.leftovers_turn = false;
        true
    }

    /// Switches all rules over to a bigger set that has all rows.
    fn switch_to_bigger(&mut self, draft: &mut Draft, now: u64) -> bool {
        let Some(growth) = self.growth.as_ref().filter(|growth| growth.cursor == NONE) else {
            return false;
        };
        let growth = growth.clone();
        let state = &mut draft.sets[growth.set as usize];
        let rows = state.rows;
        *state = growth.state.clone();
        state.rows = rows;
        draft.mirror = None;
        draft.step = Step::Switch(growth);
        let fixed = self.stage == Stage::Serving;
        self.work(draft, now).rewrite_rules(fixed);
        true
    }

    /// Starts to replace a set that is nearly full, or copies more of it.
    fn grow(&mut self, draft: &mut Draft, now: u64) {
        let mut growth = match &self.growth {
            Some(growth) => growth.clone(),
            None => {
                let max = self.config.max_rows;
                let wanted = SetId::ALL.into_iter().find_map(|set| {
                    Growth::wanted(set, draft.set(set), self.lacking[set as usize], max)
                });
                let Some(growth) = wanted else {
                    return;
                };
                draft
                    .transaction
                    .add_sets
                    .push(growth.state.declare(growth.set));
                draft.mirror = Some(Mirror {
                    set: growth.set,
                    name: growth.state.name.clone(),
                    cursor: 0,
                });
                growth
            }
        };
        // Half a chunk at least, however much else there is to do.
        let part = self.limit.map_or(self.config.chunk, |limit| limit.items);
        let limit = part.max(draft.rows() + part.div_ceil(2));
        let (set, cursor) = (growth.set, growth.cursor);
        growth.cursor = self.work(draft, now).copy_rows(set, cursor, limit);
        draft.step = Step::Grow(growth);
    }

    fn change_rows(&mut self, draft: &mut Draft, now: u64) {
        let chunk = self.config.chunk;
        let fixed = self.stage == Stage::Serving;
        let create = match self.stage {
            Stage::Absent | Stage::Foreign(_) => {
                draft.step = Step::Create;
                true
            }
            Stage::Filling(_) | Stage::Guarded(..) | Stage::Serving => false,
        };
        let in_force = self.stage == Stage::Absent;
        let mut work = Work {
            model: &mut self.model,
            kernel: &mut self.kernel,
            draft,
            selection: &mut self.selection,
            placement: &mut self.placement,
            config: &self.config,
            now,
            hold: ticks(self.config.hold),
            in_force: fixed,
        };
        match (create, in_force) {
            (true, true) => {
                work.create_sets();
                work.create_chains();
            }
            (true, false) => work.create_sets_beside(),
            (false, _) => work.refresh_rules(fixed),
        }
        work.set_node_rows();
        let limit = self.limit.map_or(usize::MAX, |limit| limit.items);
        if self.limit.is_some() && !work.draft.is_empty() {
            // What fails is to be found: one thing at a time.
            return;
        }
        let ports_wait = !work.model.queue.is_empty() || !self.parked.is_empty();
        work.retire_due(&mut self.due, ports_wait, |draft| {
            draft.has_room(chunk, limit)
        });
        while let Some(id) = self.aside.pop(now) {
            if let Some(port) = work.model.ports.at_mut(id) {
                port.set_aside = false;
                work.model.queue(id);
            }
        }
        while let Some((_, ports)) = self.parked.pop_front_if(|(time, _)| *time <= now) {
            for id in ports {
                work.model.queue(id);
            }
        }
        while let Some(ports) = self
            .guarded
            .first_entry()
            .filter(|ports| *ports.key() <= now)
        {
            for id in ports.remove() {
                work.model.queue(id);
            }
        }
        while work.draft.has_room(chunk, limit)
            && let Some(id) = work.model.lost_frontends.pop()
        {
            let before = work.draft.size();
            work.drop_frontend(id);
            work.draft.count_item(before, None);
        }
        while work.draft.has_room(chunk, limit)
            && let Some(id) = work.model.queue.pop_front()
        {
            let Some(port) = work.model.ports.at_mut(id) else {
                continue;
            };
            port.queued = false;
            if port.set_aside {
                continue;
            }
            self.refused.remove(&id);
            let before = work.draft.size();
            let planned = work.plan_port(id);
            work.draft.count_item(before, Some(id));
            match planned {
                Planned::Done => work.draft.ports.push(id),
                Planned::Partly(reason) => {
                    work.draft.ports.push(id);
                    self.refused.insert(id, reason);
                }
                Planned::Parked => work.draft.parked.push(id),
                Planned::NoRoom(set, rows) => {
                    let lacking = &mut self.lacking[set as usize];
                    *lacking = lacking.saturating_add(rows);
                    self.cramped.push(id);
                }
                Planned::Refused(reason) => {
                    self.refused.insert(id, reason);
                }
            }
        }
        while work.draft.has_room(chunk, limit)
            && let Some(id) = work.model.lost_cluster_ips.pop()
        {
            let before = work.draft.size();
            work.drop_cluster_ip(id);
            work.draft.count_item(before, None);
        }
    }
}
