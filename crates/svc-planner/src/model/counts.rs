//! How much there is, kept up to date so that nobody has to count.

use super::Model;

/// Numbers of one family.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Services with a ClusterIP.
    pub(crate) services: usize,
    /// Endpoints of all slices.
    pub(crate) endpoints: usize,
    /// Service ports whose traffic policy, internal or external, is Local and leaves no endpoint of
    /// those there are.
    pub(crate) no_local: [usize; 2],
}

impl Model {
    /// Notes which traffic policies leave a port without an endpoint.
    pub(crate) fn note_no_local(&mut self, id: u32, no_local: [bool; 2]) {
        let Some(port) = self.ports.at_mut(id) else {
            return;
        };
        let before = core::mem::replace(&mut port.no_local, no_local);
        let counts = self.counts.no_local.iter_mut();
        for ((count, before), now) in counts.zip(before).zip(no_local) {
            *count = count.saturating_sub(usize::from(before)) + usize::from(now);
        }
    }
}
