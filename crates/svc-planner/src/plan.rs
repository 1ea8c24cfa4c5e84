//! A plan is data: transactions of typed operations, printable and serialisable, applied to the
//! kernel by one lowering function and to a fake by another.
//!
//! Within a [`Transaction`] operations are executed in the order of its fields; that order makes
//! references come before referrers when adding and after them when deleting, and deletions from a
//! set before additions to it.

mod row;
mod statement;

pub use row::{DataType, Datum, EndpointId, Key, KeyType, Route};
pub use statement::{Field, Rule, Statement};

use core::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Name of a chain or set.
pub type Name = Arc<str>;

/// IP family; each has a table of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Family {
    /// Table `ip`.
    Ipv4,
    /// Table `ip6`.
    Ipv6,
}

impl Family {
    /// An address's.
    #[must_use]
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ipv4,
            IpAddr::V6(_) => Self::Ipv6,
        }
    }
}

/// One atomic batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transaction {
    /// Which table.
    pub family: Family,
    /// Make sure the table exists.
    pub add_table: bool,
    /// Delete all rules of these chains.
    pub flush_chains: Vec<Name>,
    /// Delete these chains (flushed above) so that they can be added again with another type, hook
    /// or priority.
    pub replace_chains: Vec<Name>,
    /// Create sets and maps, hot ones first: the kernel finds names in creation order.
    pub add_sets: Vec<Set>,
    /// Create chains.
    pub add_chains: Vec<Chain>,
    /// Change elements, one entry per set.
    pub elements: Vec<SetChange>,
    /// Append rules.
    pub add_rules: Vec<Rule>,
    /// Delete sets and maps; before chains, because the rows of a verdict map hold theirs.
    pub delete_sets: Vec<Name>,
    /// Delete chains.
    pub delete_chains: Vec<Name>,
    /// Delete the table with everything in it.
    pub delete_table: bool,
}

impl Transaction {
    /// A transaction that does nothing yet.
    #[must_use]
    pub const fn new(family: Family) -> Self {
        Self {
            family,
            add_table: false,
            flush_chains: Vec::new(),
            replace_chains: Vec::new(),
            add_sets: Vec::new(),
            add_chains: Vec::new(),
            elements: Vec::new(),
            add_rules: Vec::new(),
            delete_sets: Vec::new(),
            delete_chains: Vec::new(),
            delete_table: false,
        }
    }

    /// Empties it but for the family; buffers stay for the next one.
    pub(crate) fn clear(&mut self) {
        (self.add_table, self.delete_table) = (false, false);
        self.add_sets.clear();
        self.add_chains.clear();
        self.elements.clear();
        self.add_rules.clear();
        for names in [
            &mut self.flush_chains,
            &mut self.replace_chains,
            &mut self.delete_sets,
            &mut self.delete_chains,
        ] {
            names.clear();
        }
    }

    /// Does it make the table, or put its base chains in place?
    #[must_use]
    pub fn makes_table(&self) -> bool {
        self.add_table || self.add_chains.iter().any(|chain| chain.base.is_some())
    }

    /// Does it bring nothing about, but delete what is out of use? The row that names the state is in
    /// every transaction.
    #[must_use]
    pub fn only_tidies_up(&self) -> bool {
        let names_state = |row: &Row| matches!(row.key, Key::State { .. });
        let adds = |change: &SetChange| !change.add.iter().all(names_state);
        !self.add_table
            && self.add_sets.is_empty()
            && self.add_chains.is_empty()
            && self.add_rules.is_empty()
            && !self.elements.iter().any(adds)
    }

    /// Number of rows deleted and added.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.elements
            .iter()
            .map(|change| change.delete.len() + change.add.len())
            .sum()
    }
}

/// A base or regular chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    /// Name.
    pub name: Name,
    /// Where it hooks, if it is a base chain.
    pub base: Option<BaseChain>,
}

/// Hook of a base chain; the policy is accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseChain {
    /// `filter` or `nat`.
    pub kind: ChainKind,
    /// Hook.
    pub hook: Hook,
    /// Priority, e.g. -100 for dstnat.
    pub priority: i32,
}

/// Type of a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainKind {
    /// Filter.
    Filter,
    /// Network address translation; sees the first packet of a connection only.
    Nat,
}

/// Netfilter hook of the ip and ip6 families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hook {
    /// Before routing.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// After routing.
    Postrouting,
}

/// A set or map.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Set {
    /// Name.
    pub name: Name,
    /// Key layout.
    pub key: KeyType,
    /// What a map's rows hold; [`DataType::None`] for a set.
    pub data: DataType,
    /// Keys are prefixes (interval set).
    pub interval: bool,
    /// Rows are added by rules and expire.
    pub dynamic: bool,
    /// Room for this many rows; `None` lets the kernel grow the set.
    pub size: Option<u32>,
}

/// Changes of one set's elements: deletions are applied before additions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SetChange {
    /// Set or map.
    pub set: Name,
    /// Its key layout, so that keys can be lowered without looking the set up.
    pub key: KeyType,
    /// Its data.
    pub data: DataType,
    /// Keys to delete.
    pub delete: Vec<Key>,
    /// Rows to add.
    pub add: Vec<Row>,
}

/// A key and what it maps to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Key.
    pub key: Key,
    /// Datum; [`Datum::None`] in sets.
    pub datum: Datum,
}
