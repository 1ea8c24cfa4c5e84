//! A recorded request as it is to be sent here. Lengths and sequence numbers stay as they are.

use nl_codec::msg::{Messages, MsgType};

use super::handles::Handles;
use super::names::{attribute, handles_in};
use crate::session::{Exchange, Kind, Outcome};

/// `NFNL_BATCH_GENID`.
const GENERATION: u16 = 1;

pub(super) struct Rewritten {
    pub(super) bytes: Vec<u8>,
    pub(super) unknown_handles: u64,
}

pub(super) fn rewrite(
    exchange: &Exchange<'_>,
    handles: &Handles,
    generation: Option<u32>,
) -> Rewritten {
    let mut bytes = exchange.packet.bytes.clone();
    let mut patches: Vec<(usize, Vec<u8>)> = Vec::new();
    let mut unknown_handles = 0;
    for msg in Messages::new(&exchange.packet.bytes).map_while(Result::ok) {
        // The sender's port: the kernel fills in its own.
        patches.push((msg.offset + 12, vec![0; 4]));
        let Ok(nf) = msg.nfnetlink() else { continue };
        if nf.header.kind == MsgType::BATCH_BEGIN {
            if let (Some(current), Some((at, _))) = (generation, attribute(&nf, GENERATION)) {
                // One that was out of date has to be so again.
                let stale = matches!(exchange.kind, Kind::Transaction(_)) && is_stale(exchange);
                let current = if stale {
                    current.wrapping_sub(1).max(1)
                } else {
                    current
                };
                patches.push((msg.offset + at, current.to_be_bytes().to_vec()));
            }
            continue;
        }
        for (at, handle) in handles_in(&nf) {
            match handles.here(&nf, handle) {
                Some(here) => patches.push((msg.offset + at, here.to_be_bytes().to_vec())),
                None => unknown_handles += 1,
            }
        }
    }
    for (at, patch) in patches {
        if let Some(place) = bytes.get_mut(at..at + patch.len()) {
            place.copy_from_slice(&patch);
        }
    }
    Rewritten {
        bytes,
        unknown_handles,
    }
}

fn is_stale(exchange: &Exchange<'_>) -> bool {
    let restart = exchange
        .errors()
        .any(|(_, refusal)| refusal.errno == nft_batch::Errno::ERESTART);
    restart && exchange.outcome() == Outcome::Refused
}
