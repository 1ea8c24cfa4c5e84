use core::time::Duration;

use super::kernel::Kernel;

/// When each generation began.
#[derive(Debug)]
pub(super) struct Timeline {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Beginning of generation `first + 1 + index`.
    begins: Vec<Duration>,
}

impl Timeline {
    pub(super) fn new(kernel: &Kernel) -> Self {
        Self {
            first: kernel.known_since(),
            last: kernel.generation(),
            begins: kernel.commits().iter().map(|commit| commit.time).collect(),
        }
    }

    /// The newest generation that a packet may see which entered before `generation` ended.
    pub(super) fn visible_until(&self, generation: u64, hold: Duration) -> u64 {
        let ended = usize::try_from(generation - self.first)
            .ok()
            .and_then(|index| self.begins.get(index));
        let Some(ended) = ended else { return self.last };
        let seen = self
            .begins
            .partition_point(|begin| *begin < ended.saturating_add(hold));
        self.first + u64::try_from(seen).unwrap_or(u64::MAX - self.first)
    }
}
