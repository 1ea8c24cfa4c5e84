//! When the changes of EndpointSlices that are not in force yet happened, as their annotation tells:
//! for the time that it takes a change to reach the kernel.

use crate::object::UnixNanos;

/// So many are kept; further ones are not measured.
const MOST: usize = 1 << 16;

/// Times, each of a change of a slice.
#[derive(Debug, Default)]
pub(crate) struct Triggers(Vec<(u32, UnixNanos)>);

impl Triggers {
    /// A slice changed for what happened at these times.
    pub(super) fn note(&mut self, slice: u32, times: &[UnixNanos]) {
        let room = MOST.saturating_sub(self.0.len());
        let times = times.iter().take(room);
        self.0.extend(times.map(|time| (slice, *time)));
    }

    /// A slice is gone: its times are those of its last update, not of the removal.
    pub(super) fn forget(&mut self, slice: u32) {
        self.0.retain(|(other, _)| *other != slice);
    }

    /// Takes all.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = UnixNanos> + '_ {
        self.0.drain(..).map(|(_, time)| time)
    }
}
