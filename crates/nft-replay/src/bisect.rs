//! Finding the smallest part of a capture that still fails.
//!
//! First the shortest beginning that fails: up to the first transaction that the kernel refuses. Of
//! that, everything is left out that can be (delta debugging): whole transactions, then messages, then
//! elements. A part fails in the same way if the kernel refuses the same message with the same error
//! at the same attribute, and nothing else that it did not refuse before; so what others need, such as
//! the table, stays.

mod build;
mod ddmin;

use nft_batch::Errno;
use nl_codec::Attrs;
use nl_codec::msg::ATTRS_OFFSET;

use self::build::{Draft, Element};
use self::ddmin::minimise;
use crate::capture::Capture;
use crate::play::{Place, PlayError, PlayOptions, Player, in_place};
use crate::session::{Exchange, Kind, Outcome, Session};

/// Deeper attributes do not exist.
const DEPTH: usize = 16;

/// What was found.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Found {
    /// The smallest failing part, with what the kernel said to it.
    pub capture: Capture,
    /// Number of the transaction that is refused, in the capture that was bisected.
    pub transaction: usize,
    /// Error.
    pub errno: Errno,
    /// Messages of the shortest failing beginning.
    pub prefix: usize,
    /// Messages that are left.
    pub messages: usize,
    /// How often a part was played.
    pub trials: usize,
}

/// How the kernel refuses a message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Refusal {
    /// Which message, counted over the whole capture; `None` if it is about the transaction.
    message: Option<usize>,
    errno: Errno,
    /// Numbers of the attributes around what is bad.
    path: Vec<u16>,
}

/// Looks for the smallest failing part of a capture, each trial in a new network namespace, and tells
/// `each` how many messages are left. `None` if the kernel refuses nothing.
///
/// # Errors
/// See [`PlayError`].
pub fn bisect(
    session: &Session<'_>,
    mut each: impl FnMut(usize),
) -> Result<Option<Found>, PlayError> {
    let whole = Draft::new(session);
    let Some((prefix, transaction, refusals)) = first_failure(&whole)? else {
        return Ok(None);
    };
    let Some(target) = refusals.first().cloned() else {
        return Ok(None);
    };
    let prefix_messages = prefix.messages();
    let mut trials = Trials {
        count: 0,
        target,
        refusals,
        failed: None,
    };
    let mut draft = prefix;
    let last = draft.transactions.len().saturating_sub(1);

    let others: Vec<usize> = (0..last).collect();
    let kept = minimise(&others, &mut |kept| {
        let part = draft.with_transactions(kept, last);
        let fails = trials.fails(&part);
        if fails {
            each(part.messages());
        }
        fails
    });
    draft = draft.with_transactions(&kept, last);

    let others: Vec<usize> = draft
        .ids()
        .filter(|id| Some(*id) != trials.target.message)
        .collect();
    let kept = minimise(&others, &mut |kept| {
        let part = draft.with_messages(kept, trials.target.message);
        let fails = trials.fails(&part);
        if fails {
            each(part.messages());
        }
        fails
    });
    draft = draft.with_messages(&kept, trials.target.message);

    let elements: Vec<Element> = draft.elements();
    let kept = minimise(&elements, &mut |kept| {
        let part = draft.with_elements(kept);
        let fails = trials.fails(&part);
        if fails {
            each(part.messages());
        }
        fails
    });
    draft = draft.with_elements(&kept);

    if let Some(error) = trials.failed {
        return Err(error);
    }
    let capture = draft.capture();
    let played = play(&capture)?;
    Ok(Some(Found {
        capture: Capture {
            sections: session_sections(),
            ..played
        },
        transaction,
        errno: trials.target.errno,
        prefix: prefix_messages,
        messages: draft.messages(),
        trials: trials.count,
    }))
}

fn session_sections() -> Vec<nft_batch::record::Section> {
    let application = concat!("nft-replay ", env!("CARGO_PKG_VERSION"));
    let section = nft_batch::record::Section::here(application);
    vec![section.with_comment("nft-replay: smallest failing part")]
}

/// The shortest beginning that fails, the number of its last transaction, and what is refused.
fn first_failure(whole: &Draft) -> Result<Option<(Draft, usize, Vec<Refusal>)>, PlayError> {
    let played = play(&whole.capture())?;
    let session = Session::new(&played);
    let failing = session
        .transactions()
        .position(|(_, exchange)| exchange.outcome() == Outcome::Refused);
    let Some(failing) = failing else {
        return Ok(None);
    };
    let numbers: Vec<usize> = (0..failing).collect();
    let prefix = whole.with_transactions(&numbers, failing);
    let refusals = session
        .transactions()
        .nth(failing)
        .map(|(_, exchange)| refusals(exchange, &prefix, failing))
        .unwrap_or_default();
    let number = whole
        .transactions
        .get(failing)
        .map(|transaction| transaction.number)
        .unwrap_or_default();
    Ok(Some((prefix, number, refusals)))
}

/// Plays parts and compares how they fail.
struct Trials {
    count: usize,
    target: Refusal,
    /// Everything that the shortest failing beginning is refused for.
    refusals: Vec<Refusal>,
    failed: Option<PlayError>,
}

impl Trials {
    fn fails(&mut self, part: &Draft) -> bool {
        if self.failed.is_some() || part.transactions.is_empty() {
            return false;
        }
        self.count += 1;
        let played = match play(&part.capture()) {
            Ok(played) => played,
            Err(error) => {
                self.failed = Some(error);
                return false;
            }
        };
        let session = Session::new(&played);
        let last = part.transactions.len() - 1;
        let mut found = false;
        for (index, (_, exchange)) in session.transactions().enumerate() {
            let refused = refusals(exchange, part, index);
            if index < last {
                // An earlier failure is another one.
                if !refused.is_empty() {
                    return false;
                }
                continue;
            }
            found = refused.contains(&self.target)
                && refused
                    .iter()
                    .all(|refusal| self.refusals.contains(refusal));
        }
        found
    }
}

/// What the kernel said against the transaction that is the `index`th of a part.
fn refusals(exchange: &Exchange<'_>, part: &Draft, index: usize) -> Vec<Refusal> {
    let errors = exchange.errors();
    errors
        .map(|(seq, refusal)| {
            let place = exchange.refused(seq, &refusal);
            let wire = place.and_then(|place| exchange.messages.get(place));
            Refusal {
                message: place.and_then(|place| part.id(index, place)),
                errno: refusal.errno,
                path: match (wire, refusal.offset) {
                    (Some(message), Some(offset)) => path(message.wire, offset),
                    _ => Vec::new(),
                },
            }
        })
        .collect()
}

/// Numbers of the attributes around the one at `offset` of a message, and its own.
fn path(wire: &[u8], offset: u32) -> Vec<u16> {
    let mut path = Vec::new();
    let Some(mut offset) = usize::try_from(offset)
        .ok()
        .and_then(|offset| offset.checked_sub(ATTRS_OFFSET))
    else {
        return path;
    };
    let mut attrs = wire.get(ATTRS_OFFSET..).unwrap_or_default();
    while path.len() < DEPTH {
        let around = Attrs::new(attrs)
            .map_while(Result::ok)
            .find(|attr| (attr.offset..attr.offset + 4 + attr.payload.len()).contains(&offset));
        let Some(attr) = around else { break };
        // Entries of an element list are counted up by libnftnl.
        path.push(if path == [3] { 1 } else { attr.kind });
        if attr.offset == offset {
            break;
        }
        let Some(inner) = offset.checked_sub(attr.offset + 4) else {
            break;
        };
        offset = inner;
        attrs = attr.payload;
    }
    path
}

/// Plays in a new namespace, up to the first refusal.
fn play(capture: &Capture) -> Result<Capture, PlayError> {
    in_place(&Place::Fresh, || {
        let mut player = Player::open(PlayOptions::default())?;
        let session = Session::new(capture);
        let report = player.play(&session, |played| played.outcome != Outcome::Refused)?;
        Ok(report.capture)
    })?
}

/// Whether a conversation is a transaction.
fn is_transaction(exchange: &Exchange<'_>) -> bool {
    matches!(exchange.kind, Kind::Transaction(_))
}
