//! A recorded request as it is to be sent here. Lengths and sequence numbers stay as they are.

use nl_codec::msg::{Messages, MsgType, NfMsg, NftMsg};
use nl_codec::nft::Str;

use super::handles::{Handles, attribute};
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

/// Handles that a request refers to, and where they are in the message.
pub(super) fn handles_in(msg: &NfMsg<'_>) -> Vec<(usize, u64)> {
    let attrs: &[u16] = match msg.header.kind.as_nft() {
        Some(
            NftMsg::NEW_RULE
            | NftMsg::DEL_RULE
            | NftMsg::DESTROY_RULE
            | NftMsg::GET_RULE
            | NftMsg::GET_RULE_RESET,
        ) => &[3, 6],
        Some(NftMsg::NEW_CHAIN | NftMsg::DEL_CHAIN | NftMsg::DESTROY_CHAIN) => &[2],
        Some(NftMsg::DEL_SET | NftMsg::DESTROY_SET) => &[16],
        Some(NftMsg::DEL_OBJ | NftMsg::DESTROY_OBJ) => &[6],
        Some(NftMsg::DEL_FLOWTABLE | NftMsg::DESTROY_FLOWTABLE) => &[5],
        Some(NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE) => &[4],
        _ => &[],
    };
    let found = attrs.iter().filter_map(|kind| attribute(msg, *kind));
    found
        .filter_map(|(at, payload)| Some((at, u64::from_be_bytes(payload.try_into().ok()?))))
        .collect()
}

/// The name of a message's table.
pub(super) fn table_of<'a>(msg: &NfMsg<'a>) -> Option<&'a [u8]> {
    let mut attrs = msg.attrs().map_while(Result::ok);
    let attr = attrs.find(|attr| attr.kind == 1)?;
    attr.value::<Str<'a>>("table").ok().map(Str::as_bytes)
}
