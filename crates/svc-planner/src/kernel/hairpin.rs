//! Rows of `hairpin-connections`, counted by the Service ports that need them.

use crate::clock::IN_USE;

/// A row of `hairpin-connections`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hairpin {
    /// Service ports that need it.
    pub(crate) uses: u32,
    /// Since when none does; packets to a former endpoint may still be on their way.
    pub(crate) since: u64,
}

impl Hairpin {
    pub(crate) const NEW: Self = Self {
        uses: 0,
        since: IN_USE,
    };
}
