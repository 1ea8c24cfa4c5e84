use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use super::apply::{apply, operations};
use super::clients::Effect;
use super::error::{ApplyError, Errno, Op, Rejection};
use super::table::Table;
use crate::plan::{BaseChain, Datum, Family, Key, Name, Row, Rule, Set, Transaction};

/// One committed transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Generation it made.
    pub generation: u64,
    /// When, on the caller's clock.
    pub time: Duration,
    /// Family.
    pub family: Family,
    /// How many operations it had.
    pub operations: usize,
}

/// What an injected fault does to a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Refuse it.
    Reject(Errno),
    /// Apply it, then lose the reply.
    LoseReply,
    /// Lose it before it is applied.
    LoseRequest,
}

type FaultHook = Box<dyn FnMut(&Transaction) -> Option<Fault> + Send>;

/// A network namespace's `kube-proxy` tables, in memory, with everything they once were.
///
/// Transactions are applied as a whole or not at all and refused for the reasons the kernel has.
/// Every state is kept with its time until [`forget_history`](Self::forget_history), so that
/// [`quiescence`](super::quiescence) can tell what packets saw during the commits.
pub struct Kernel {
    generation: u64,
    now: Duration,
    tables: [Table; 2],
    commits: Vec<Commit>,
    /// First generation whose state is still known.
    known_since: u64,
    faults: Option<FaultHook>,
}

impl Kernel {
    /// No tables, generation 1.
    #[must_use]
    pub fn new() -> Self {
        Self {
            generation: 1,
            now: Duration::ZERO,
            tables: [Table::new(Family::Ipv4), Table::new(Family::Ipv6)],
            commits: Vec::new(),
            known_since: 1,
            faults: None,
        }
    }

    /// Asks `hook` before each transaction whether to fail it.
    pub fn set_faults(&mut self, hook: impl FnMut(&Transaction) -> Option<Fault> + Send + 'static) {
        self.faults = Some(Box::new(hook));
    }

    /// Injects no more faults.
    pub fn clear_faults(&mut self) {
        self.faults = None;
    }

    /// Applies a transaction at time `now` and returns the generation after it. An empty
    /// transaction changes nothing.
    ///
    /// # Errors
    /// [`ApplyError::Rejected`] leaves no trace; [`ApplyError::Unknown`] only comes from a fault.
    pub fn apply(&mut self, transaction: &Transaction, now: Duration) -> Result<u64, ApplyError> {
        let begin = |errno, reason: &str| Rejection {
            family: transaction.family,
            op: Op::Begin,
            errno,
            reason: reason.into(),
        };
        let fault = self.faults.as_mut().and_then(|hook| hook(transaction));
        match fault {
            Some(Fault::Reject(errno)) => return Err(begin(errno, "injected").into()),
            Some(Fault::LoseRequest) => return Err(ApplyError::Unknown),
            Some(Fault::LoseReply) | None => {}
        }
        if now < self.now {
            return Err(begin(Errno::Einval, "the clock went back").into());
        }
        let operations = operations(transaction);
        let generation = self.generation + 1;
        apply(
            &mut self.tables[index(transaction.family)],
            generation,
            now,
            transaction,
        )?;
        if operations > 0 {
            self.generation = generation;
            self.commits.push(Commit {
                generation,
                time: now,
                family: transaction.family,
                operations,
            });
        }
        self.now = now;
        if fault.is_some() {
            return Err(ApplyError::Unknown);
        }
        Ok(self.generation)
    }

    /// Generation of the current state; one counter for both families.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// All commits whose history is still known, oldest first.
    #[must_use]
    pub fn commits(&self) -> &[Commit] {
        &self.commits
    }

    /// First generation that can still be asked for.
    #[must_use]
    pub const fn known_since(&self) -> u64 {
        self.known_since
    }

    /// Drops all states but the current one.
    pub fn forget_history(&mut self) {
        for table in &mut self.tables {
            table.forget(self.generation);
        }
        self.commits.clear();
        self.known_since = self.generation;
    }

    /// Whether the table exists.
    #[must_use]
    pub fn has_table(&self, family: Family) -> bool {
        self.table(family).exists.latest().is_some()
    }

    /// The sets and maps in order of creation.
    #[must_use]
    pub fn sets(&self, family: Family) -> Vec<Arc<Set>> {
        let mut sets: Vec<_> = self
            .table(family)
            .sets
            .values()
            .filter_map(|set| Some((set.serial, Arc::clone(set.definition.latest()?))))
            .collect();
        sets.sort_by_key(|(serial, _)| *serial);
        sets.into_iter().map(|(_, set)| set).collect()
    }

    /// The rows of a set in key order; empty if there is no such set.
    #[must_use]
    pub fn rows(&self, family: Family, set: &str) -> Vec<Row> {
        let Some(history) = self.table(family).sets.get(set) else {
            return Vec::new();
        };
        history
            .rows
            .iter()
            .filter_map(|(key, versions)| {
                Some(Row {
                    key: *key,
                    datum: versions.latest()?.clone(),
                })
            })
            .collect()
    }

    /// How many rows a set has.
    #[must_use]
    pub fn row_count(&self, family: Family, set: &str) -> usize {
        self.table(family).sets.get(set).map_or(0, |set| set.live)
    }

    /// The live rows of a dynamic map in key order, with what is left of their lifetimes.
    #[must_use]
    pub fn stuck(&self, family: Family, map: &str) -> Vec<Row> {
        let set = self.table(family).sets.get(map);
        let clients = set.and_then(|set| set.clients.as_ref());
        let rows = clients.into_iter().flat_map(|it| it.iter(self.now));
        rows.map(|(key, client)| Row {
            key,
            datum: Datum::Stuck {
                endpoint: client.endpoint,
                milliseconds: u32::try_from((client.until - self.now).as_millis())
                    .unwrap_or(u32::MAX)
                    .max(1),
            },
        })
        .collect()
    }

    /// One row's datum.
    #[must_use]
    pub fn row(&self, family: Family, set: &str, key: &Key) -> Option<&Datum> {
        self.table(family).sets.get(set)?.rows.get(key)?.latest()
    }

    /// The chains with their hooks, by name.
    #[must_use]
    pub fn chains(&self, family: Family) -> Vec<(Name, Option<BaseChain>)> {
        self.table(family)
            .chains
            .iter()
            .filter_map(|(name, versions)| Some((name.clone(), versions.latest()?.base)))
            .collect()
    }

    /// A chain's rules.
    #[must_use]
    pub fn rules(&self, family: Family, chain: &str) -> Option<&[Rule]> {
        Some(&self.table(family).chain(chain)?.rules)
    }

    /// Time of the last commit or packet, which rows of dynamic maps live by.
    #[must_use]
    pub const fn now(&self) -> Duration {
        self.now
    }

    /// Lets time go by.
    pub fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// Does to dynamic maps what rules did.
    pub(super) fn remember(&mut self, family: Family, effects: &[Effect]) {
        let table = &mut self.tables[index(family)];
        for effect in effects {
            let set = table.sets.get_mut(&effect.map);
            if let Some(clients) = set.and_then(|set| set.clients.as_mut()) {
                clients.apply(effect, self.now);
            }
        }
    }

    pub(super) fn table(&self, family: Family) -> &Table {
        &self.tables[index(family)]
    }
}

impl Default for Kernel {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("generation", &self.generation)
            .field("now", &self.now)
            .field("tables", &self.tables)
            .finish_non_exhaustive()
    }
}

const fn index(family: Family) -> usize {
    match family {
        Family::Ipv4 => 0,
        Family::Ipv6 => 1,
    }
}
