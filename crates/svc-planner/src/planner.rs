//! The planner's interface.

use core::time::Duration;

use crate::config::Config;
use crate::object::Change;
use crate::plan::{Chain, Family, Key, Name, Transaction};
use crate::report::{PortName, Report};

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

/// Plans one IP family.
#[derive(Debug)]
pub struct Planner {
    family: Family,
    config: Config,
}

impl Planner {
    /// Starts from the belief that there is no table; see [`rebuild`](Self::rebuild) for the other
    /// case.
    #[must_use]
    pub fn new(family: Family, config: Config) -> Self {
        Self { family, config }
    }

    /// Takes a change in. Addresses of the other family are ignored.
    pub fn apply(&mut self, change: Change) {
        drop(change);
    }

    /// The next transaction, or how long there is none. Deterministic in the calls made so far;
    /// `now` is any clock that never goes back.
    pub fn next(&mut self, now: Duration) -> Next {
        let _ = (now, self.family, &self.config);
        Next::Idle
    }

    /// The transaction handed out is in the kernel.
    pub fn committed(&mut self, now: Duration) {
        let _ = now;
    }

    /// The transaction handed out is not in the kernel. A Service port that is to blame is set
    /// aside until it changes.
    pub fn rejected(&mut self, now: Duration, offender: Option<&PortName>) {
        let _ = (now, offender);
    }

    /// Starts over beside whatever the table holds: new sets and chains are filled, base chains
    /// switched over, and what was found is deleted.
    pub fn rebuild(&mut self, inventory: Inventory) {
        drop(inventory);
    }

    /// The Service port for which a row exists.
    #[must_use]
    pub fn owner(&self, key: &Key) -> Option<PortName> {
        let _ = key;
        None
    }

    /// Service ports that are not, or not fully, served.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        Vec::new()
    }

    /// The row of set `state` that is in the kernel after the last commit.
    #[must_use]
    pub fn state(&self) -> Option<Key> {
        None
    }
}
