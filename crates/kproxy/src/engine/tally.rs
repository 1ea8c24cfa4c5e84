//! What became of transactions that were not committed, in numbers.

/// Transactions of one family since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The kernel's generation number was another one than expected, or the table not as planned for:
    /// others had changed it.
    pub conflicts: u64,
    /// Not committed, whatever for.
    pub not_committed: u64,
    /// Of them, those that only delete what is out of use.
    pub not_tidied: u64,
}
