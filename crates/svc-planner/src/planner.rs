//! The planner's interface, and the order in which a transaction is put together.

use core::time::Duration;
use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::config::Config;
use crate::kernel::Kernel;
use crate::kernel::class::State;
use crate::kernel::clock::{PENDING, ticks};
use crate::kernel::draft::{Draft, Due, Undo};
use crate::kernel::set::SetId;
use crate::model::Model;
use crate::model::address::Address;
use crate::model::frontend::FrontendKey;
use crate::object::Change;
use crate::plan::{Chain, Datum, Family, Key, Name, Transaction};
use crate::planning::{Planned, Work};
use crate::policy::endpoint_selection::Selection;
use crate::policy::masquerade::Masquerade;
use crate::report::{PortName, Reason, Report};

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Next {
    /// Commit this, then call [`Planner::committed`] or [`Planner::rejected`].
    Commit(Box<Transaction>),
    /// Nothing until this time, unless a change comes.
    WaitUntil(Duration),
    /// Nothing until a change comes.
    Idle,
    /// The transaction handed out before is neither committed nor rejected yet.
    InFlight,
}

/// Names found in a table, see [`Planner::rebuild`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Chains.
    pub chains: Vec<Chain>,
    /// Sets and maps.
    pub sets: Vec<Name>,
}

/// What the table is to the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is not there.
    Absent,
    /// Packets go through our rules.
    Serving,
}

/// Plans one IP family.
#[derive(Debug)]
pub struct Planner {
    config: Config,
    model: Model,
    kernel: Kernel,
    selection: Selection,
    stage: Stage,
    /// The transaction handed out, without its operations.
    in_flight: Option<Draft>,
    /// What is to be looked at again, and when.
    due: VecDeque<(u64, Due)>,
    /// Ports that wait for their classes, and until when.
    parked: VecDeque<(u64, Vec<u32>)>,
    /// Ports that wait for a bigger set.
    cramped: Vec<u32>,
    refused: HashMap<u32, Reason>,
    /// Instance and number of the last commit.
    committed: Option<(u32, u32)>,
}

impl Planner {
    /// Starts from the belief that there is no table; see [`rebuild`](Self::rebuild) for the other
    /// case.
    #[must_use]
    pub fn new(family: Family, config: Config) -> Self {
        let model = Model::new(family, config.node_name.clone());
        Self {
            kernel: Kernel::new(Masquerade::new(family, &config, &model.node)),
            config,
            model,
            selection: Selection::default(),
            stage: Stage::Absent,
            in_flight: None,
            due: VecDeque::new(),
            parked: VecDeque::new(),
            cramped: Vec::new(),
            refused: HashMap::new(),
            committed: None,
        }
    }

    /// Takes a change in. Addresses of the other family are ignored.
    pub fn apply(&mut self, change: Change) {
        self.model.apply(change);
    }

    /// The next transaction, or how long there is none. Deterministic in the calls made so far;
    /// `now` is any clock that never goes back.
    pub fn next(&mut self, now: Duration) -> Next {
        if self.in_flight.is_some() {
            return Next::InFlight;
        }
        let now = ticks(now);
        let mut draft = Draft::new(self.model.family, &self.kernel, None);
        self.plan(&mut draft, now);
        if draft.is_empty() {
            self.finish(draft, now);
            return self.next_time();
        }
        self.mark(&mut draft);
        let transaction = draft.finish();
        self.in_flight = Some(draft);
        Next::Commit(Box::new(transaction))
    }

    /// The transaction handed out is in the kernel.
    pub fn committed(&mut self, now: Duration) {
        let Some(draft) = self.in_flight.take() else {
            return;
        };
        self.committed = Some(self.next_state());
        self.finish(draft, ticks(now));
        self.stage = Stage::Serving;
    }

    /// The transaction handed out is not in the kernel. A Service port that is to blame is set
    /// aside until it changes.
    pub fn rejected(&mut self, now: Duration, offender: Option<&PortName>) {
        let Some(mut draft) = self.in_flight.take() else {
            return;
        };
        for undo in &draft.undo {
            match undo {
                Undo::Frontend { id, .. } => self.model.lost_frontends.push(*id),
                Undo::ClusterIp { id, .. } => self.model.lost_cluster_ips.push(*id),
                _ => {}
            }
        }
        draft.take_back(&mut self.model, &mut self.kernel);
        let now = ticks(now);
        for due in draft.consumed {
            self.due.push_front((now, due));
        }
        for port in draft.ports.into_iter().chain(draft.parked) {
            self.model.queue(port);
        }
        if let Some(id) = offender.and_then(|name| self.model.find_port(name)) {
            if let Some(port) = self.model.ports.at_mut(id) {
                port.set_aside = true;
            }
            self.refused.insert(id, Reason::SetAside);
        }
    }

    /// Starts over beside whatever the table holds: new sets and chains are filled, base chains
    /// switched over, and what was found is deleted.
    pub fn rebuild(&mut self, inventory: Inventory) {
        drop(inventory);
    }

    /// The Service port for which a row exists.
    #[must_use]
    pub fn owner(&self, key: &Key) -> Option<PortName> {
        let family = self.model.family;
        let frontend = |address, protocol, port| {
            let id = self.model.frontends.find(&FrontendKey {
                address,
                protocol,
                port,
            })?;
            Some(self.model.frontends.arena.at(id)?.owner.port)
        };
        let port = match *key {
            Key::Frontend {
                address,
                protocol,
                port,
            } => frontend(Some(Address::new(family, address)?), protocol, port),
            Key::NodePort { protocol, port } => frontend(None, protocol, port),
            Key::Slot { group, .. } | Key::Group(group) => {
                Some(self.kernel.groups.at(group)?.facts.owner)
            }
            _ => None,
        };
        self.model.port_name(port?)
    }

    /// Service ports that are not, or not fully, served, by name.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        let refused = self.refused.iter().filter_map(|(id, reason)| {
            Some(Report {
                port: self.model.port_name(*id)?,
                reason: reason.clone(),
            })
        });
        let mut reports: Vec<_> = refused.chain(self.model.lost_claims()).collect();
        reports.sort_by(|a, b| a.port.cmp(&b.port));
        reports
    }

    /// The row of set `state` that is in the kernel after the last commit.
    #[must_use]
    pub fn state(&self) -> Option<Key> {
        self.committed
            .map(|(instance, sequence)| Key::State { instance, sequence })
    }

    /// Live classes: chains that every commit walks.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.kernel.classes.len()
    }

    fn plan(&mut self, draft: &mut Draft, now: u64) {
        if self.stage == Stage::Absent {
            self.size_sets(draft);
        }
        let mut work = Work {
            model: &mut self.model,
            kernel: &mut self.kernel,
            draft,
            selection: &mut self.selection,
            config: &self.config,
            now,
            hold: ticks(self.config.hold),
        };
        match self.stage {
            Stage::Absent => {
                work.create_sets();
                work.create_chains();
            }
            Stage::Serving => work.refresh_rules(),
        }
        work.set_node_rows();
        let chunk = self.config.chunk;
        while work.draft.rows() < chunk
            && let Some((_, due)) = self.due.pop_front_if(|(time, _)| *time <= now)
        {
            work.retire(due);
        }
        while let Some((_, ports)) = self.parked.pop_front_if(|(time, _)| *time <= now) {
            for id in ports {
                work.model.queue(id);
            }
        }
        while work.draft.rows() < chunk
            && let Some(id) = work.model.lost_frontends.pop()
        {
            work.drop_frontend(id);
        }
        while work.draft.rows() < chunk
            && let Some(id) = work.model.queue.pop_front()
        {
            let Some(port) = work.model.ports.at_mut(id) else {
                continue;
            };
            port.queued = false;
            self.refused.remove(&id);
            match work.plan_port(id) {
                Planned::Done => work.draft.ports.push(id),
                Planned::Parked => work.draft.parked.push(id),
                Planned::NoRoom(_) => self.cramped.push(id),
                Planned::Refused(reason) => {
                    self.refused.insert(id, reason);
                }
            }
        }
        while work.draft.rows() < chunk
            && let Some(id) = work.model.lost_cluster_ips.pop()
        {
            work.drop_cluster_ip(id);
        }
    }

    /// Gives the sets room for all that is known now.
    fn size_sets(&self, draft: &mut Draft) {
        let rows = self.model.expected_rows();
        for (id, state) in SetId::ALL.into_iter().zip(&mut draft.sets) {
            if id.is_sized() {
                let rows = rows[id as usize];
                state.size = Some(crate::kernel::set::size_for(rows, self.config.max_rows));
            }
        }
    }

    /// Puts the number of the state after this transaction into it.
    fn mark(&self, draft: &mut Draft) {
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

    fn next_state(&self) -> (u32, u32) {
        match self.committed {
            None => (self.config.instance, 1),
            Some((instance, u32::MAX)) => (instance.wrapping_add(1), 0),
            Some((instance, sequence)) => (instance, sequence + 1),
        }
    }

    /// What a transaction changed is the truth now.
    fn finish(&mut self, draft: Draft, now: u64) {
        let hold = ticks(self.config.hold);
        self.kernel.sets = draft.sets;
        for due in draft.released {
            if self.stamp(due, now) {
                self.due.push_back((now.saturating_add(hold), due));
            }
        }
        for number in draft.freed_groups {
            self.kernel.groups.free(number);
        }
        let rest = match self.stage {
            // No packet is on its way through rules that were not there.
            Stage::Absent => 0,
            Stage::Serving => ticks(self.config.settle),
        };
        let ready = now.saturating_add(rest);
        for number in draft.created_classes {
            if let Some(class) = self.kernel.classes.at_mut(number) {
                class.state = State::Ready(ready);
                class.since = now;
                self.due
                    .push_back((now.saturating_add(hold), Due::Class(number)));
            }
        }
        for number in draft.deleted_classes {
            self.kernel.classes.remove(number);
        }
        for id in draft.emptied_cluster_ips {
            let ip = self.model.cluster_ips.arena.at(id);
            if ip.is_some_and(|ip| ip.claims == 0 && !ip.present) {
                self.model.cluster_ips.remove(id);
            }
        }
        for id in draft.ports {
            if self.model.ports.at(id).is_some_and(|port| port.is_gone()) {
                self.model.ports.remove(id);
            }
        }
        if !draft.parked.is_empty() {
            self.parked.push_back((ready, draft.parked));
        }
    }

    /// Notes when something went out of use; false if there is nothing left to do about it.
    fn stamp(&mut self, due: Due, now: u64) -> bool {
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
                    self.model.frontends.remove(id);
                    return false;
                }
                stamp(&mut frontend.since)
            }
            Due::Group(number) => self.kernel.groups.at_mut(number).is_some_and(|group| {
                let tail = stamp(&mut group.facts.tail_since);
                stamp(&mut group.facts.unused_since) || tail
            }),
            Due::Class(number) => self
                .kernel
                .classes
                .at_mut(number)
                .is_some_and(|class| stamp(&mut class.since)),
            Due::Hairpin(key) => self
                .kernel
                .hairpins
                .get_mut(&key)
                .is_some_and(|hairpin| stamp(&mut hairpin.since)),
        }
    }

    fn next_time(&self) -> Next {
        let due = self.due.front().map(|(time, _)| *time);
        let parked = self.parked.front().map(|(time, _)| *time);
        match due.into_iter().chain(parked).min() {
            Some(time) => Next::WaitUntil(Duration::from_nanos(time)),
            None => Next::Idle,
        }
    }
}

#[cfg(test)]
mod tests;
