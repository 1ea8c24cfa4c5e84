//! How many clients are remembered, and for how many there is room. What is left is shared by all
//! Services with session affinity: rules cannot give each a share.

use core::time::Duration;

use nft_batch::{Errno, Transport};
use smallvec::SmallVec;
use svc_planner::plan::Family;

use super::{Engine, EngineError, TABLE, Wait};
use crate::lower::nf_family;

/// Fill of a family's map of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AffinityFill {
    /// Family.
    pub family: Family,
    /// Rows, with some that have expired and wait to be collected (about a second).
    pub clients: u32,
    /// Rows that there is room for.
    pub room: u32,
}

impl AffinityFill {
    /// Is less than a tenth left?
    #[must_use]
    pub const fn is_tight(self) -> bool {
        self.clients / 9 >= self.room / 10
    }
}

impl<T: Transport> Engine<T> {
    /// The fill in each family, told in one message each, however many rows there are. Where the kernel
    /// does not tell (before Linux 6.17), what the guard counted last, some minutes ago. Nothing where
    /// there is no table, or nothing was counted yet.
    ///
    /// # Errors
    /// [`EngineError::Query`].
    pub fn affinity_fill(&mut self) -> Result<SmallVec<[AffinityFill; 2]>, EngineError> {
        let mut fills = SmallVec::new();
        for (index, state) in self.families.iter().enumerate() {
            let family = state.family;
            let guard = self.guard.as_ref();
            let counted = guard.and_then(|guard| guard.counted_clients(index));
            let name = state.planner.client_affinity();
            let read = self
                .connection
                .set_info(nf_family(family), TABLE, name, |set| {
                    Some(AffinityFill {
                        family,
                        clients: set.count.or(counted)?,
                        room: set.desc?.size?,
                    })
                });
            match read {
                Ok(fill) => fills.extend(fill),
                Err(error) if error.errno() == Some(Errno::ENOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(fills)
    }
}

/// How often to look.
const PERIOD: Duration = Duration::from_secs(10);

/// Says when the room for clients runs short, and when it does no longer.
#[derive(Debug, Default)]
pub struct Headroom {
    due: Duration,
    tight: SmallVec<[Family; 2]>,
}

impl Headroom {
    /// To be called when the engine has nothing to send; says when to call again. Each fill is told to
    /// `each`.
    pub fn idle<T: Transport>(
        &mut self,
        engine: &mut Engine<T>,
        mut each: impl FnMut(AffinityFill),
    ) -> Wait {
        let now = engine.clock().now();
        if now < self.due {
            return Wait::Until(self.due);
        }
        self.due = now.saturating_add(PERIOD);
        match engine.affinity_fill() {
            Ok(fills) => fills.into_iter().for_each(|fill| {
                each(fill);
                self.judge(fill);
            }),
            Err(error) => tracing::debug!("fill of client-affinity: {error}"),
        }
        Wait::Until(self.due)
    }

    fn judge(&mut self, fill: AffinityFill) {
        let AffinityFill {
            family,
            clients,
            room,
        } = fill;
        let was_tight = self.tight.contains(&family);
        if fill.is_tight() && !was_tight {
            self.tight.push(family);
            tracing::warn!(
                "{family}: session affinity: {clients} of {room} clients: new ones are soon not remembered"
            );
        } else if !fill.is_tight() && was_tight {
            self.tight.retain(|other| *other != family);
            tracing::info!("{family}: session affinity: {clients} of {room} clients: room again");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_is_kept_in_mind() {
        let fill = |clients, room| AffinityFill {
            family: Family::Ipv4,
            clients,
            room,
        };
        assert!(!fill(0, 262_144).is_tight());
        assert!(!fill(235_000, 262_144).is_tight());
        assert!(fill(236_000, 262_144).is_tight());
        assert!(fill(u32::MAX, u32::MAX).is_tight());
    }
}
