//! What happened last, for people to look at.

use core::time::Duration;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use svc_planner::plan::Family;

use crate::engine::Applied;

/// Transactions that are remembered.
const TRANSACTIONS: usize = 120;
/// Failures that are remembered.
const FAILURES: usize = 20;
/// Service ports that are not served, and are named.
const PROBLEMS: usize = 200;

/// The last transactions, failures, and what is not served. Clones share it.
#[derive(Debug, Clone)]
pub struct History(Arc<Mutex<Past>>);

/// What is remembered.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// The last transactions, oldest first.
    pub transactions: VecDeque<PastTransaction>,
    /// The last failures, oldest first.
    pub failures: VecDeque<PastFailure>,
    /// Service ports that are not, or not fully, served, with the reason; the first ones by name.
    pub problems: Vec<(Family, String)>,
}

/// A transaction that was committed.
#[derive(Debug, Clone, Copy)]
pub struct PastTransaction {
    /// When.
    pub time: SystemTime,
    /// In numbers.
    pub applied: Applied,
}

/// A failure.
#[derive(Debug, Clone)]
pub struct PastFailure {
    /// When.
    pub time: SystemTime,
    /// Of which family.
    pub family: Family,
    /// Why.
    pub error: String,
    /// When it is tried again.
    pub pause: Duration,
}

impl Default for History {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Past {
            // So that remembering one more allocates nothing.
            transactions: VecDeque::with_capacity(TRANSACTIONS),
            ..Past::default()
        })))
    }
}

impl History {
    /// What is remembered now.
    #[must_use]
    pub fn read(&self) -> Past {
        self.lock().clone()
    }

    pub(super) fn applied(&self, applied: &Applied) {
        let transactions = &mut self.lock().transactions;
        while transactions.len() >= TRANSACTIONS {
            transactions.pop_front();
        }
        transactions.push_back(PastTransaction {
            time: SystemTime::now(),
            applied: *applied,
        });
    }

    pub(super) fn failed(&self, family: Family, error: String, pause: Duration) {
        let failures = &mut self.lock().failures;
        while failures.len() >= FAILURES {
            failures.pop_front();
        }
        failures.push_back(PastFailure {
            time: SystemTime::now(),
            family,
            error,
            pause,
        });
    }

    /// What is not served, when that has changed.
    pub(super) fn problems(&self, problems: impl Iterator<Item = (Family, String)>) {
        let problems = problems.take(PROBLEMS).collect();
        self.lock().problems = problems;
    }

    /// Each edit leaves it whole, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Past> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
