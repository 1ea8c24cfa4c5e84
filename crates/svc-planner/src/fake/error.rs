use core::fmt;

use thiserror::Error;

use crate::plan::Family;

/// Error numbers the fake answers with, named as in `errno(3)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Errno {
    /// No such table, chain, set or element.
    Enoent,
    /// Exists with other properties or other data; intervals overlap.
    Eexist,
    /// Still referenced.
    Ebusy,
    /// A set's size is exhausted.
    Enfile,
    /// Malformed.
    Einval,
    /// Jumps nest too deep or in a loop.
    Emlink,
    /// Not possible on this object, chain type or hook.
    Eopnotsupp,
    /// Out of range, such as a name that is too long.
    Erange,
    /// Arithmetic overflow.
    Eoverflow,
    /// Generation mismatch.
    Erestart,
    /// Out of memory.
    Enomem,
}

impl Errno {
    /// The name, such as `ENOENT`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Enoent => "ENOENT",
            Self::Eexist => "EEXIST",
            Self::Ebusy => "EBUSY",
            Self::Enfile => "ENFILE",
            Self::Einval => "EINVAL",
            Self::Emlink => "EMLINK",
            Self::Eopnotsupp => "EOPNOTSUPP",
            Self::Erange => "ERANGE",
            Self::Eoverflow => "EOVERFLOW",
            Self::Erestart => "ERESTART",
            Self::Enomem => "ENOMEM",
        }
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Which operation of a [`Transaction`](crate::plan::Transaction), by field and index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Op {
    /// The transaction as a whole: refused before its first operation.
    Begin,
    /// `add_table`
    AddTable,
    /// `flush_chains[i]`
    FlushChain(usize),
    /// `replace_chains[i]`
    ReplaceChain(usize),
    /// `add_sets[i]`
    AddSet(usize),
    /// `add_chains[i]`
    AddChain(usize),
    /// `elements[i]`
    Elements(usize),
    /// `elements[change].delete[index]`
    DeleteElement {
        /// Index of the change.
        change: usize,
        /// Index in its deletions.
        index: usize,
    },
    /// `elements[change].add[index]`
    AddElement {
        /// Index of the change.
        change: usize,
        /// Index in its additions.
        index: usize,
    },
    /// `add_rules[i]`
    AddRule(usize),
    /// `delete_chains[i]`
    DeleteChain(usize),
    /// `delete_sets[i]`
    DeleteSet(usize),
    /// `delete_table`
    DeleteTable,
    /// Validation of all rules before the commit.
    Validate,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin => f.write_str("begin"),
            Self::AddTable => f.write_str("add_table"),
            Self::FlushChain(i) => write!(f, "flush_chains[{i}]"),
            Self::ReplaceChain(i) => write!(f, "replace_chains[{i}]"),
            Self::AddSet(i) => write!(f, "add_sets[{i}]"),
            Self::AddChain(i) => write!(f, "add_chains[{i}]"),
            Self::Elements(i) => write!(f, "elements[{i}]"),
            Self::DeleteElement { change, index } => {
                write!(f, "elements[{change}].delete[{index}]")
            }
            Self::AddElement { change, index } => write!(f, "elements[{change}].add[{index}]"),
            Self::AddRule(i) => write!(f, "add_rules[{i}]"),
            Self::DeleteChain(i) => write!(f, "delete_chains[{i}]"),
            Self::DeleteSet(i) => write!(f, "delete_sets[{i}]"),
            Self::DeleteTable => f.write_str("delete_table"),
            Self::Validate => f.write_str("validate"),
        }
    }
}

/// Why a transaction was refused; nothing of it was applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{family}: {op}: {errno}: {reason}")]
pub struct Rejection {
    /// Family of the transaction.
    pub family: Family,
    /// The first operation in error.
    pub op: Op,
    /// What the kernel answers.
    pub errno: Errno,
    /// Object and cause in words.
    pub reason: String,
}

/// Outcome of a transaction that is not known to be committed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// Refused.
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The reply was lost: only the generation and the rows tell whether it was committed.
    #[error("the reply was lost")]
    Unknown,
}

/// An operation's failure before it is given its place.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) errno: Errno,
    pub(super) reason: String,
}

impl Refusal {
    pub(super) fn new(errno: Errno, reason: impl Into<String>) -> Self {
        Self {
            errno,
            reason: reason.into(),
        }
    }

    pub(super) fn at(self, family: Family, op: Op) -> Rejection {
        Rejection {
            family,
            op,
            errno: self.errno,
            reason: self.reason,
        }
    }
}
