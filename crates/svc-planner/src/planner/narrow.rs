//! What the kernel refuses: Service ports that are to blame are set aside; where the kernel does not
//! say what is to blame, it is found by halving.

use std::collections::BTreeSet;

use core::time::Duration;

use hashbrown::HashMap;

use super::Planner;
use crate::clock::ticks;
use crate::planning::draft::Step;
use crate::report::{PortName, Reason};

/// After a while a port that was set aside is tried again, then after twice as long, … up to so many
/// doublings: about an hour.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retry {
    first: Duration,
    doublings: u32,
}

/// The kernel has named what is wrong with it.
pub(super) const NAMED: Retry = Retry {
    first: Duration::from_secs(60),
    doublings: 6,
};
/// It was found by halving: the kernel may have been short of memory for a moment.
const FOUND: Retry = Retry {
    first: Duration::from_secs(1),
    doublings: 12,
};
/// With room for so many objects a transaction is not limited any more.
const WIDE: usize = 1 << 16;

/// How much a transaction may be about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    /// Objects.
    pub(super) items: usize,
    /// One was committed since one was refused; a bigger one would be refused like that.
    proven: bool,
}

/// Ports set aside, and when they are tried again.
#[derive(Debug, Default)]
pub(super) struct Aside {
    due: BTreeSet<(u64, u32)>,
    /// How often a port was set aside in a row.
    times: HashMap<u32, u32>,
}

/// What is left to try after a transaction was refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Narrowed {
    /// Transactions of half as many objects.
    Halved,
    /// It was about this Service port alone.
    Alone(PortName),
    /// It was not about Service ports, or about none that has a name.
    Nothing,
}

impl Aside {
    /// Notes a port; ports of about the same time are tried again together. Whether it is the first
    /// time in a row.
    fn note(&mut self, id: u32, now: u64, retry: Retry) -> bool {
        let times = self.times.entry(id).or_default();
        let first = ticks(retry.first);
        let pause = first << (*times).min(retry.doublings);
        *times += 1;
        let due = now.saturating_add(pause).next_multiple_of(first);
        self.due.insert((due, id));
        *times == 1
    }

    /// A port whose time has come.
    pub(super) fn pop(&mut self, now: u64) -> Option<u32> {
        let (due, id) = *self.due.first()?;
        if due > now {
            return None;
        }
        self.due.pop_first();
        Some(id)
    }

    pub(super) fn next(&self) -> Option<u64> {
        self.due.first().map(|(due, _)| *due)
    }

    /// A port is in the kernel as it is wanted, or gone.
    pub(super) fn forget(&mut self, id: u32) {
        if !self.times.is_empty() && self.times.remove(&id).is_some() {
            self.due.retain(|(_, other)| *other != id);
        }
    }

    pub(super) fn clear(&mut self) {
        self.due.clear();
        self.times.clear();
    }
}

impl Planner {
    /// The transaction handed out was refused as a whole: it is taken back, and the next one is half
    /// as big, until one is refused that is about one Service port alone.
    pub fn narrow(&mut self, now: Duration) -> Narrowed {
        let Some(draft) = self.in_flight.take() else {
            return Narrowed::Nothing;
        };
        let items = match draft.step {
            Step::Grow(_) => draft.rows(),
            _ => draft.items,
        };
        let port = draft.only_port;
        self.take_back(draft, ticks(now));
        if items > 1 {
            self.limit = Some(Limit {
                items: items / 2,
                proven: false,
            });
            return Narrowed::Halved;
        }
        let name = port.and_then(|port| self.model.port_name(port));
        name.map_or(Narrowed::Nothing, Narrowed::Alone)
    }

    /// Plans Service ports again that were set aside: they were not to blame.
    pub fn release(&mut self, names: &[PortName]) {
        for name in names {
            let Some(id) = self.model.find_port(name) else {
                continue;
            };
            self.aside.forget(id);
            self.refused.remove(&id);
            if let Some(port) = self.model.ports.at_mut(id).filter(|port| port.set_aside) {
                port.set_aside = false;
                self.model.queue(id);
            }
        }
    }

    /// A transaction was committed: the next one may be bigger.
    pub(super) fn widen(&mut self) {
        let Some(limit) = &mut self.limit else {
            return;
        };
        if limit.proven {
            limit.items = limit.items.saturating_mul(2);
        }
        limit.proven = true;
        if limit.items >= WIDE {
            self.limit = None;
        }
    }

    /// Sets a Service port aside that was refused [alone](Narrowed::Alone) until it changes, or for a
    /// moment, then for ever longer. Whether it is the first time in a row.
    pub fn suspect(&mut self, now: Duration, name: &PortName) -> bool {
        let id = self.model.find_port(name);
        id.is_some_and(|id| self.set_aside(id, ticks(now), FOUND))
    }

    /// A port is not planned until it changes or its time has come. Whether it is the first time in a
    /// row.
    pub(super) fn set_aside(&mut self, id: u32, now: u64, retry: Retry) -> bool {
        let Some(port) = self.model.ports.at_mut(id) else {
            return false;
        };
        port.set_aside = true;
        self.refused.insert(id, Reason::SetAside);
        self.aside.note(id, now, retry)
    }
}
