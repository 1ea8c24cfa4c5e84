//! Deleting what has been out of use long enough.

use std::collections::VecDeque;

use super::Work;
use super::draft::{Draft, Due, Undo};
use crate::clock::{IN_USE, is_over};
use crate::kernel::class::State;
use crate::kernel::set::SetId;

/// So many rows of ranges, about, may the kernel compare to delete others in one transaction: each takes
/// it 3 µs and more, during which nobody else in the network namespace can commit.
const MAX_COMPARED: u64 = 50_000;

/// Classes out of use that are kept, since they may be needed again.
const IDLE_CLASSES: usize = 64;

impl Work<'_> {
    /// Looks at what went out of use a while ago, as long as there is room; of lists of source ranges only
    /// as much is deleted as does not take long. They are kept longer while ports wait for their turn.
    pub(crate) fn retire_due(
        &mut self,
        queue: &mut VecDeque<(u64, Due)>,
        ports_wait: bool,
        has_room: impl Fn(&Draft) -> bool,
    ) {
        let mut compared: u64 = 0;
        let (mut wanted, mut later) = (Vec::new(), Vec::new());
        while has_room(self.draft)
            && let Some((time, due)) = queue.pop_front_if(|(time, _)| *time <= self.now)
        {
            if ports_wait && self.may_be_wanted(due) {
                wanted.push(due);
                continue;
            }
            let left = MAX_COMPARED.saturating_sub(compared);
            if matches!(due, Due::List(_)) && left == 0 {
                later.push((time, due));
                continue;
            }
            let (rows, costs) = self.deletable(due, left);
            compared = compared.saturating_add(costs);
            let before = self.draft.size();
            let is_done = self.retire(due, rows);
            self.draft.count_item(before, None);
            if !is_done {
                later.push((time, due));
            }
        }
        for due in later.into_iter().rev() {
            queue.push_front(due);
        }
        for due in wanted {
            queue.push_back((self.now.saturating_add(self.hold), due));
        }
    }

    /// Looks at something that went out of use a while ago; of a list of ranges at most so many rows
    /// are deleted. Is it done with?
    fn retire(&mut self, due: Due, rows: usize) -> bool {
        if let Due::List(number) = due
            && !self.retire_list(number, rows)
        {
            return false;
        }
        self.draft.consumed.push(due);
        match due {
            Due::Frontend(id) => self.retire_reject(id),
            Due::Group(number) => self.retire_group(number),
            Due::Class(number) => self.retire_class(number),
            Due::List(_) => {}
            // Looked at in every transaction.
            Due::NodePortIps => {}
            Due::Hairpin(key) => {
                let hairpin = self.kernel.hairpins.get(&key).copied();
                if hairpin.is_some_and(|hairpin| self.is_over(hairpin.since)) {
                    self.kernel.hairpins.remove(&key);
                    self.draft.undo.push(Undo::Hairpin {
                        key,
                        value: hairpin,
                    });
                    self.draft
                        .delete(SetId::Hairpins, 0, self.model.hairpin_key(key));
                }
            }
        }
        true
    }

    fn is_over(&self, since: u64) -> bool {
        is_over(since, self.hold, self.now)
    }

    fn retire_reject(&mut self, id: u32) {
        let Some(frontend) = self.model.frontends.arena.at_mut(id) else {
            return;
        };
        if !frontend.rejects || !is_over(frontend.since, self.hold, self.now) {
            return;
        }
        let (route, rejects, since) = (frontend.route, frontend.rejects, frontend.since);
        self.draft.undo.push(Undo::Frontend {
            id,
            route,
            rejects,
            since,
        });
        (frontend.rejects, frontend.since) = (false, IN_USE);
        let set = match frontend.key.address {
            Some(_) => SetId::RejectServices,
            None => SetId::RejectNodePorts,
        };
        self.draft
            .delete(set, id, frontend.key.lower(self.model.family));
    }

    fn retire_group(&mut self, number: u32) {
        let Some(group) = self.kernel.groups.at(number) else {
            return;
        };
        let facts = group.facts;
        if self.is_over(facts.unused_since) {
            self.set_shortcuts(number, [None; 2]);
            self.truncate_slots(number, 0);
            self.forget_endpoints(number, true);
            if let Some(group) = self.kernel.groups.take(number) {
                self.draft
                    .undo
                    .push(Undo::GroupRemoved(number, Box::new(group)));
                self.draft.freed_groups.push(number);
            }
            return;
        }
        if self.is_over(facts.tail_since) {
            self.truncate_slots(number, facts.count as usize);
            self.edit_group(number, |facts| facts.tail_since = IN_USE);
        }
        self.forget_endpoints(number, false);
    }

    fn retire_class(&mut self, number: u32) {
        let Some(class) = self.kernel.classes.at(number).copied() else {
            return;
        };
        if class.rows > 0 || !self.is_over(class.since) {
            return;
        }
        match class.state {
            State::Ready(_) => {
                let idle = &mut self.kernel.classes.idle;
                // It may have been in use again since it came here.
                idle.retain(|other| *other != number);
                idle.push_back(number);
            }
            State::Rowless => self.delete_class_chain(number, class.shape),
            State::Creating | State::Deleting => {}
        }
        while self.kernel.classes.idle.len() > IDLE_CLASSES {
            let Some(oldest) = self.kernel.classes.idle.pop_front() else {
                return;
            };
            let Some(class) = self.kernel.classes.at(oldest).copied() else {
                continue;
            };
            let is_ready = matches!(class.state, State::Ready(_));
            if is_ready && class.rows == 0 && self.is_over(class.since) {
                self.draft.consumed.push(Due::Class(oldest));
                self.delete_class_row(oldest, class.shape);
            }
        }
    }
}
