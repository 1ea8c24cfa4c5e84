//! What follows from a commit, and from a rejection.

use super::{Planner, Stage};
use crate::clock::{PENDING, ticks};
use crate::kernel::class::State;
use crate::kernel::guard::FRESH;
use crate::kernel::set::SETS;
use crate::kernel::source_list;
use crate::planning::draft::{Draft, Due, Step, Undo};
use crate::planning::takeover::Leftovers;
use crate::report::Reason;

/// After a rejection leftovers are tried again only so many times the hold time later.
const LEFTOVERS_PATIENCE: u64 = 10;

/// What a transaction made free.
#[derive(Debug, Clone, Copy)]
struct Freed {
    classes: bool,
    groups: bool,
    /// Of any set.
    rows: bool,
}

impl Planner {
    /// What a transaction changed is the truth now.
    pub(super) fn finish(&mut self, mut draft: Box<Draft>, now: u64) {
        let hold = ticks(self.config.hold);
        // No packet is on its way through rules that were not there.
        let settle = ticks(self.config.settle);
        let (rest, whole_way) = match self.stage {
            Stage::Serving => (settle, hold),
            // One may be on its way through a base chain that had no rules yet.
            Stage::Absent => (0, settle),
            Stage::Foreign(_) | Stage::Filling(_) | Stage::Guarded(..) => (0, 0),
        };
        let ready = now.saturating_add(rest);
        let ripe = now.saturating_add(whole_way);
        let mut sets = draft.sets.iter().zip(&self.kernel.sets);
        let freed = Freed {
            classes: !draft.deleted_classes.is_empty(),
            groups: !draft.freed_groups.is_empty(),
            rows: sets.any(|(new, old)| new.rows < old.rows),
        };
        core::mem::swap(&mut self.kernel.sets, &mut draft.sets);
        for due in draft.released.drain(..) {
            if self.stamp(due, now) {
                self.due.push_back((now.saturating_add(hold), due));
            }
        }
        for number in draft.freed_groups.drain(..) {
            self.kernel.groups.free(number);
            self.kernel.orphans.retain(|(orphan, _)| *orphan != number);
            self.kernel.departed.retain(|(_, group)| *group != number);
        }
        self.kernel.left.append(&mut draft.left);
        if !draft.renumbered.is_empty() {
            // Nobody is remembered by their former numbers any more.
            let renumbered = &draft.renumbered;
            let departed = &mut self.kernel.departed;
            departed.retain(|(_, group)| renumbered.binary_search(group).is_err());
        }
        for number in draft.created_classes.drain(..) {
            if let Some(class) = self.kernel.classes.at_mut(number) {
                class.state = State::Ready(ready);
                class.since = now;
                self.due
                    .push_back((now.saturating_add(hold), Due::Class(number)));
            }
        }
        for number in draft.deleted_classes.drain(..) {
            self.kernel.classes.remove(number);
        }
        for number in draft.created_lists.drain(..) {
            if let Some(list) = self.kernel.lists.at_mut(number) {
                list.state = source_list::State::Ready(ready);
                if list.users == 0 {
                    list.since = now;
                    self.due
                        .push_back((now.saturating_add(hold), Due::List(number)));
                }
            }
        }
        for number in draft.freed_lists.drain(..) {
            self.kernel.lists.free(number);
        }
        for id in draft.guards.drain(..) {
            if let Some(guard) = self.kernel.guards.get_mut(&id) {
                guard.ripe = ripe;
            }
        }
        for id in draft.emptied_cluster_ips.drain(..) {
            let Some(ip) = self.model.cluster_ips.arena.at_mut(id) else {
                continue;
            };
            ip.leaves = false;
            if ip.claims == 0 && !ip.present {
                self.model.cluster_ips.remove(id);
            }
        }
        for id in draft.ports.drain(..) {
            self.aside.forget(id);
            if self.model.ports.at(id).is_some_and(|port| port.is_gone()) {
                self.model.ports.remove(id);
            } else {
                self.model.note_port(id, self.config.reconcile_sctp);
            }
        }
        if !draft.parked.is_empty() {
            let parked = core::mem::take(&mut draft.parked);
            self.parked.push_back((ready, parked));
        }
        for (time, id) in draft.guarded.drain(..) {
            let time = if time == FRESH { ripe } else { time };
            self.guarded.entry(time).or_default().push(id);
        }
        self.retry_refused(freed);
        let step = core::mem::replace(&mut draft.step, Step::Rows);
        self.finish_step(step, now);
        self.keep(draft);
    }

    /// What a transaction changed is not so.
    pub(super) fn take_back(&mut self, mut draft: Box<Draft>, now: u64) {
        for undo in &draft.undo {
            match undo {
                Undo::Frontend { id, .. } => self.model.lost_frontends.push(*id),
                Undo::Guard { id, .. } => self.model.lost_frontends.push(*id),
                Undo::ClusterIp { id, .. } => self.model.lost_cluster_ips.push(*id),
                _ => {}
            }
        }
        draft.take_back(&mut self.model, &mut self.kernel);
        for due in draft.consumed.drain(..) {
            self.due.push_front((now, due));
        }
        self.kernel.left.append(&mut draft.renumbered);
        for port in draft.parked.drain(..).rev() {
            self.model.queue_first(port);
        }
        for port in draft.ports.drain(..).rev() {
            self.model.queue_first(port);
        }
        match core::mem::replace(&mut draft.step, Step::Rows) {
            Step::Mend(found, _) => self.damaged = Some(found),
            Step::Carry => self.give_up_clients(),
            Step::CleanUp(_) => {
                if let Some((due, _)) = self.leftovers.front_mut() {
                    let patience = ticks(self.config.hold).saturating_mul(LEFTOVERS_PATIENCE);
                    *due = now.saturating_add(patience);
                }
            }
            _ => {}
        }
        self.keep(draft);
    }

    /// Keeps a draft that is done with for its buffers.
    fn keep(&mut self, mut draft: Box<Draft>) {
        draft.clear();
        self.spare_draft = Some(draft);
    }

    fn finish_step(&mut self, step: Step, now: u64) {
        match step {
            Step::Rows => {}
            Step::Create => {
                self.stage = match core::mem::replace(&mut self.stage, Stage::Serving) {
                    Stage::Foreign(found) => Stage::Filling(found),
                    _ => Stage::Serving,
                };
            }
            Step::Grow(growth) => self.growth = Some(growth),
            Step::Switch(growth) => {
                self.growth = None;
                self.lacking = [0; SETS];
                for id in core::mem::take(&mut self.cramped) {
                    self.model.queue(id);
                }
                let sets = vec![growth.replaced];
                self.leave(
                    Leftovers {
                        sets,
                        ..Leftovers::default()
                    },
                    now,
                );
            }
            Step::Guard => {
                if let Stage::Filling(mut found) =
                    core::mem::replace(&mut self.stage, Stage::Serving)
                {
                    found.note_firewall();
                    let until = now.saturating_add(ticks(self.config.hold));
                    self.stage = Stage::Guarded(found, until);
                }
            }
            Step::Carry => self.carried(),
            Step::TakeOver => {
                if let Stage::Filling(found) | Stage::Guarded(found, _) =
                    core::mem::replace(&mut self.stage, Stage::Serving)
                {
                    self.leave(Leftovers::of(found), now);
                }
            }
            Step::Mend(_, foreign) => {
                if !foreign.is_empty() {
                    self.leave(foreign, now);
                }
            }
            Step::CleanUp(rest) => {
                self.leftovers.pop_front();
                if !rest.is_empty() {
                    // Chains outlive the rows that led to them.
                    let last_step = rest.flush.is_empty() && rest.sets.is_empty();
                    let hold = if last_step {
                        ticks(self.config.hold)
                    } else {
                        0
                    };
                    self.leftovers.push_front((now.saturating_add(hold), rest));
                }
            }
        }
    }

    fn leave(&mut self, leftovers: Leftovers, now: u64) {
        let due = now.saturating_add(ticks(self.config.hold));
        self.leftovers.push_back((due, leftovers));
    }

    /// Plans ports again that lacked what became free.
    fn retry_refused(&mut self, freed: Freed) {
        let lacked = |reason: &Reason| match reason {
            Reason::NoClass { .. } | Reason::AffinityTimeout { .. } => freed.classes,
            Reason::NoGroup => freed.groups,
            Reason::MapFull { .. } | Reason::SourceRangesFull => freed.rows,
            _ => false,
        };
        let refused = self.refused.iter().filter(|(_, reason)| lacked(reason));
        let mut ids: Vec<u32> = refused.map(|(id, _)| *id).collect();
        // Hashing must not decide who comes first.
        ids.sort_unstable();
        for id in ids {
            self.model.queue(id);
        }
    }

    /// Notes when something went out of use; false if there is nothing left to do about it.
    pub(super) fn stamp(&mut self, due: Due, now: u64) -> bool {
        let stamp = |since: &mut u64| {
            let pending = *since == PENDING;
            if pending {
                *since = now;
            }
            pending
        };
        match due {
            Due::Frontend(id) => {
                let Some(frontend) = self.model.frontends.arena.at_mut(id) else {
                    return false;
                };
                if frontend.is_unused() {
                    if !self.kernel.guards.contains_key(&id) {
                        self.model.frontends.remove(id);
                    }
                    return false;
                }
                stamp(&mut frontend.since)
            }
            Due::Group(number) => self.kernel.groups.at_mut(number).is_some_and(|group| {
                let mut any = stamp(&mut group.facts.tail_since);
                any |= stamp(&mut group.facts.unused_since);
                let sticky = group.sticky.iter_mut();
                for leaving in sticky.flat_map(|sticky| sticky.leaving_mut()) {
                    any |= stamp(&mut leaving.since);
                }
                any
            }),
            Due::NodePortIps => stamp(&mut self.kernel.settings.node_port_ips_since),
            Due::Class(number) => self
                .kernel
                .classes
                .at_mut(number)
                .is_some_and(|class| stamp(&mut class.since)),
            Due::List(number) => self
                .kernel
                .lists
                .at_mut(number)
                .is_some_and(|list| stamp(&mut list.since)),
            Due::Hairpin(key) => self
                .kernel
                .hairpins
                .get_mut(&key)
                .is_some_and(|hairpin| stamp(&mut hairpin.since)),
        }
    }
}
