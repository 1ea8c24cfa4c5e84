//! What was cut is looked at again: a late reply may have brought it back the other way round.
//!
//! A client's datagrams to an address went untranslated to whoever has that address, and we delete
//! the entry. The next packet may be a reply, which makes a new entry, from the address to the
//! client, of which the client's next datagrams are replies: untranslated, for as long as it sends.
//! Such an entry looks like one of a program that uses the address as its own, unless it is a
//! ClusterIP. So of other addresses only those are deleted that are the reverse of one which was
//! deleted before.

use nft_batch::Transport;

use super::ConntrackError;
use super::entry::Key;
use super::exchange::{Deleted, Exchange};

/// Entries remembered at most; of more the first ones.
const MOST: usize = 4096;
/// How often a flow is cut in a row; the next pass goes on with it.
const ROUNDS: u32 = 8;

/// Untranslated entries that were deleted.
#[derive(Debug, Default)]
pub(super) struct Cuts(Vec<Cut>);

#[derive(Debug)]
struct Cut {
    key: Key,
    /// Number of the pass before the one that deleted it.
    since: u64,
}

impl Cuts {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Notes the key, towards a frontend, of an entry that the pass with this number deletes.
    pub(super) fn note(&mut self, key: Key, pass: u64) {
        if self.0.len() < MOST {
            let since = pass.saturating_sub(1);
            self.0.push(Cut { key, since });
        }
    }

    /// Forgets what was noted before this pass.
    pub(super) fn forget_before(&mut self, pass: u64) {
        self.0.retain(|cut| cut.since >= pass);
    }

    /// Deletes the reverse of what was cut, until there is none.
    pub(super) fn verify<T: Transport>(
        &mut self,
        exchange: &mut Exchange<T>,
        pass: u64,
    ) -> Result<Deleted, ConntrackError> {
        let mut total = Deleted::default();
        for _ in 0..ROUNDS {
            let mut reversed = Vec::new();
            let cuts = &mut self.0;
            let keys: Vec<Key> = cuts.iter().map(|cut| cut.key).collect();
            exchange.find(&keys, |place, found| {
                if let (Some(cut), Some(key)) = (cuts.get_mut(place), Key::of(found))
                    && key.is_reverse_of(&cut.key)
                {
                    cut.since = pass.saturating_sub(1);
                    reversed.push(key);
                }
            })?;
            if reversed.is_empty() {
                break;
            }
            let Deleted {
                deleted,
                refused,
                error,
            } = exchange.delete(&reversed)?;
            total.deleted += deleted;
            total.refused += refused;
            total.error = total.error.or(error);
        }
        Ok(total)
    }
}
