//! Rows of `firewall`: frontends that only the sources in a list may reach.

/// A frontend's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The list, see [`super::source_list`].
    pub(crate) list: u32,
    /// When no packet can be on its way any more that did not see the row: only then may the
    /// frontend lead to endpoints the list protects. [`FRESH`] before the row is committed.
    pub(crate) ripe: u64,
}

/// The row is in the transaction in flight.
pub(crate) const FRESH: u64 = u64::MAX;
