use core::time::Duration;

use svc_planner::fake::{ApplyError, Kernel};
use svc_planner::object::Change;
use svc_planner::plan::{Family, Key};
use svc_planner::report::{PortName, Report};
use svc_planner::{Config, Next, Planner};
use thiserror::Error;

use super::Objects;
use crate::family::FAMILIES;

/// After so many waits without anything to do nothing more is due.
const MAX_WAITS: u32 = 1_000;

/// The tables that objects lead to, once everything that comes later has come.
#[derive(Debug)]
pub struct Planned {
    planners: Vec<(Family, Planner)>,
    objects: Objects,
    kernel: Kernel,
}

/// A plan that the model of the kernel refuses: a bug of ours.
#[derive(Debug, Error)]
#[error("the plan does not fit the kernel: {0}")]
pub struct PlannedError(#[from] Box<ApplyError>);

impl Planned {
    /// Nothing yet, with settings for each family.
    #[must_use]
    pub fn new(config: impl Fn(Family) -> Config) -> Self {
        Self {
            planners: FAMILIES
                .map(|family| (family, Planner::new(family, config(family))))
                .into(),
            objects: Objects::default(),
            kernel: Kernel::new(),
        }
    }

    /// Takes a change in.
    pub fn apply(&mut self, change: Change) {
        self.objects.apply(&change);
        for (_, planner) in &mut self.planners {
            planner.apply(change.clone());
        }
    }

    /// Plans everything for one family.
    ///
    /// # Errors
    /// See [`PlannedError`].
    pub fn settle(&mut self, family: Family) -> Result<(), PlannedError> {
        let Some(planner) = planner_of(&mut self.planners, family) else {
            return Ok(());
        };
        let mut now = Duration::ZERO;
        let mut waits = 0;
        while waits < MAX_WAITS {
            match planner.next(now) {
                Next::Commit(transaction) => {
                    let applied = self.kernel.apply(&transaction, now);
                    applied.map_err(Box::new)?;
                    self.kernel.forget_history();
                    planner.committed(now);
                    planner.recycle(transaction);
                    waits = 0;
                }
                Next::WaitUntil(time) => {
                    now = now.max(time);
                    waits += 1;
                }
                _ => return Ok(()),
            }
            // A clock that stands still would let nothing that waits come due.
            now += Duration::from_nanos(1);
        }
        Ok(())
    }

    /// The tables.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// The objects.
    #[must_use]
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// The Service port for which a row exists.
    #[must_use]
    pub fn owner(&self, family: Family, key: &Key) -> Option<PortName> {
        let mut planners = self.planners.iter();
        planners.find(|(it, _)| *it == family)?.1.owner(key)
    }

    /// Service ports that are not, or not fully, served.
    #[must_use]
    pub fn reports(&self, family: Family) -> Vec<Report> {
        let mut planners = self.planners.iter();
        let planner = planners.find(|(it, _)| *it == family);
        planner.map(|(_, it)| it.reports()).unwrap_or_default()
    }
}

fn planner_of(planners: &mut [(Family, Planner)], family: Family) -> Option<&mut Planner> {
    let mut planners = planners.iter_mut();
    Some(&mut planners.find(|(it, _)| *it == family)?.1)
}
