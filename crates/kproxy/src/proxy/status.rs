//! How the loop is doing, for health checks and metrics on other threads.

use core::time::Duration;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use svc_planner::object::Change;
use svc_planner::plan::Family;
use svc_planner::report::Reason;

use crate::engine::{EngineError, Interference};

/// How one family is doing. Times are of the engine's clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilyStatus {
    /// Which one.
    pub family: Family,
    /// When last nothing was left to send: the kernel held all that was wanted.
    pub last_success: Option<Duration>,
    /// When last it failed, and why. Stays when it succeeds again.
    pub last_error: Option<(Duration, String)>,
    /// Failures since the last success.
    pub failures: u32,
    /// Failures since the start.
    pub all_failures: u64,
    /// Since when a change waits to be programmed; `None` if none does.
    pub queued_since: Option<Duration>,
    /// What others did to the table. While it is contended it may not be as it should be, and is left
    /// alone at times.
    pub interference: Interference,
    /// Service ports that are not, or not fully, served.
    pub not_served: NotServed,
}

/// Service ports that are not, or not fully, served, by the reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NotServed([usize; Reason::NAMES.len()]);

impl NotServed {
    /// One more.
    pub(super) fn add(&mut self, reason: &Reason) {
        let names = Reason::NAMES.iter().zip(&mut self.0);
        for (_, count) in names.filter(|(name, _)| **name == reason.name()) {
            *count += 1;
        }
    }

    /// Each reason's name and number.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        Reason::NAMES.into_iter().zip(self.0)
    }

    /// Whatever the reason.
    #[must_use]
    pub fn total(&self) -> usize {
        self.0.iter().sum()
    }
}

impl FamilyStatus {
    pub(crate) fn new(family: Family) -> Self {
        Self {
            family,
            last_success: None,
            last_error: None,
            failures: 0,
            all_failures: 0,
            queued_since: None,
            interference: Interference::default(),
            not_served: NotServed::default(),
        }
    }

    /// Does no change wait for longer than `patience`? None does when it is idle.
    #[must_use]
    pub fn is_in_step(&self, now: Duration, patience: Duration) -> bool {
        let late = |since: Duration| now.saturating_sub(since) >= patience;
        !self.queued_since.is_some_and(late)
    }
}

/// What is known of the own Node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// It was there once; what is programmed goes by what it last said.
    pub known: bool,
    /// It is there now, and is not about to go: the node may be sent traffic.
    pub eligible: bool,
}

/// How the loop is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The own Node.
    pub node: NodeStatus,
    /// One for each family that is programmed.
    pub families: Vec<FamilyStatus>,
}

impl Status {
    /// Is every family in step: does no change wait for longer than `patience`? An idle one is.
    #[must_use]
    pub fn is_in_step(&self, now: Duration, patience: Duration) -> bool {
        let mut families = self.families.iter();
        families.all(|family| family.is_in_step(now, patience))
    }
}

/// The loop's status, to be read on any thread.
#[derive(Debug, Clone)]
pub struct StatusBoard(Arc<Mutex<Status>>);

impl StatusBoard {
    pub(super) fn new(families: impl Iterator<Item = Family>) -> Self {
        let families = families.map(FamilyStatus::new);
        Self(Arc::new(Mutex::new(Status {
            node: NodeStatus::default(),
            families: families.collect(),
        })))
    }

    /// The status now.
    #[must_use]
    pub fn read(&self) -> Status {
        self.lock().clone()
    }

    /// A change was taken in; `is_due` if it is to be programmed now, with all before it.
    pub(super) fn change(&self, change: &Change, is_due: bool, now: Duration) {
        let mut status = self.lock();
        match change {
            Change::Node(node) => {
                status.node = NodeStatus {
                    known: true,
                    eligible: node.eligible,
                };
            }
            Change::NodeGone => status.node.eligible = false,
            _ => {}
        }
        if is_due {
            for family in &mut status.families {
                family.queued_since.get_or_insert(now);
            }
        }
    }

    /// A family has nothing left to send.
    pub(super) fn success(&self, family: Family, now: Duration) {
        self.edit(family, |status| {
            status.last_success = Some(now);
            status.failures = 0;
            status.queued_since = None;
        });
    }

    /// What others did to a family's table.
    pub(super) fn interference(&self, family: Family, interference: Interference) {
        self.edit(family, |status| status.interference = interference);
    }

    /// How many Service ports of each family are not served.
    pub(super) fn not_served(&self, count: impl Fn(Family) -> NotServed) {
        for status in &mut self.lock().families {
            status.not_served = count(status.family);
        }
    }

    /// A family failed.
    pub(super) fn failure(&self, family: Family, now: Duration, error: &EngineError) {
        self.edit(family, |status| {
            status.last_error = Some((now, error.to_string()));
            status.failures = status.failures.saturating_add(1);
            status.all_failures = status.all_failures.saturating_add(1);
            status.queued_since.get_or_insert(now);
        });
    }

    fn edit(&self, family: Family, edit: impl FnOnce(&mut FamilyStatus)) {
        let mut status = self.lock();
        if let Some(status) = status.families.iter_mut().find(|it| it.family == family) {
            edit(status);
        }
    }

    /// Each edit leaves it whole, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
