//! Finding out what became of a transaction whose acknowledgement was lost, by looking.

use nl_codec::ack::Errno;
use nl_codec::msg::{Family, Messages, NfMsg, NftMsg};
use nl_codec::nft::{Elem, ElemList, Str};

use crate::outcome::Unknown;
use crate::sealed::SealedBatch;
use crate::transport::Transport;
use crate::{Connection, QueryError};

/// Elements read back at most: a transaction is all or nothing, so few suffice.
const SAMPLES: u32 = 64;

/// What looking told about an [`Unknown`] outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Resolution {
    /// The ruleset has changed since, and every element of the transaction that was read back is as
    /// it wanted: added ones are there with their data, deleted ones are gone.
    Committed {
        /// Number of elements read back, at least one.
        samples: u32,
    },
    /// The generation is that from before the transaction, or an element is not as the
    /// transaction would have left it. Nothing of it is there (or somebody has undone it).
    NotCommitted,
    /// The ruleset has changed, and the transaction holds no elements to tell by whom.
    Undecided,
}

impl<T: Transport> Connection<T> {
    /// Resolves an unknown outcome by the generation and by keyed reads of elements.
    ///
    /// # Errors
    /// See [`QueryError`]; the outcome stays unknown then.
    pub fn resolve(
        &mut self,
        batch: &SealedBatch,
        unknown: &Unknown,
    ) -> Result<Resolution, QueryError> {
        if unknown.generation_before == Some(self.generation()?) {
            return Ok(Resolution::NotCommitted);
        }
        let mut samples = 0;
        for wire in unknown.part.clone() {
            let Some(place) = batch.place(wire) else {
                break;
            };
            let Some(Ok(msg)) = Messages::new(place.bytes()).next() else {
                continue;
            };
            let Ok(msg) = msg.nfnetlink() else { continue };
            let added = match msg.header.kind.as_nft() {
                Some(NftMsg::NEW_SETELEM) => true,
                // A key deleted here may be added again later in the batch.
                Some(NftMsg::DEL_SETELEM | NftMsg::DESTROY_SETELEM)
                    if !batch.adds_to_set_of(wire) =>
                {
                    false
                }
                _ => continue,
            };
            let Some(sample) = Sample::of(batch, &msg) else {
                continue;
            };
            for elem in [sample.first, sample.last] {
                if samples >= SAMPLES {
                    return Ok(Resolution::Committed { samples });
                }
                if self.is_there(&sample, &elem)? != added {
                    return Ok(Resolution::NotCommitted);
                }
                samples += 1;
            }
        }
        Ok(if samples == 0 {
            Resolution::Undecided
        } else {
            Resolution::Committed { samples }
        })
    }

    /// Whether the element exists with the data it has here.
    fn is_there(&mut self, sample: &Sample<'_>, elem: &Elem<'_>) -> Result<bool, QueryError> {
        let mut key = Elem::default();
        key.key = elem.key;
        key.key_end = elem.key_end;
        key.flags = elem.flags;
        let read = self.read_element(sample.family, sample.table, sample.set, &key, |found| {
            elem.data.is_none() || found.data == elem.data
        });
        match read {
            Ok(found) => Ok(found.unwrap_or(false)),
            // The set itself is missing.
            Err(QueryError::Kernel {
                errno: Errno::ENOENT,
                ..
            }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// First and last element of a message.
struct Sample<'a> {
    family: Family,
    table: Str<'a>,
    set: Str<'a>,
    first: Elem<'a>,
    last: Elem<'a>,
}

impl<'a> Sample<'a> {
    fn of(batch: &'a SealedBatch, msg: &NfMsg<'a>) -> Option<Self> {
        let list = msg.body::<ElemList<'a>>().ok()?;
        let mut elems = list.elems?.iter().flatten();
        let first = elems.next()?;
        let last = elems.last().unwrap_or(first);
        let set = match (list.set, list.set_id) {
            (Some(set), _) => set,
            (None, id) => batch.set_name(id?)?,
        };
        Some(Self {
            family: msg.nfgen.family,
            table: list.table?,
            set,
            first,
            last,
        })
    }
}
