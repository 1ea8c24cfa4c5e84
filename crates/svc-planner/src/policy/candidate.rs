//! An endpoint that a Service port may be served by.

use crate::model::address::Target;
use crate::model::slice::Flags;

/// An endpoint of a Service port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) target: Target,
    pub(super) zones: u32,
    pub(super) flags: Flags,
    /// Of which slice it is.
    pub(super) slice: u32,
    pub(super) in_cluster: bool,
    pub(super) in_local: bool,
}

impl Candidate {
    pub(super) const fn is_ready(&self) -> bool {
        self.flags.has(Flags::READY)
    }

    /// Still serves while it terminates.
    pub(super) const fn is_draining(&self) -> bool {
        self.flags.has(Flags::SERVING) && self.flags.has(Flags::TERMINATING)
    }

    pub(super) const fn is_local(&self) -> bool {
        self.flags.has(Flags::LOCAL)
    }
}
