//! What of a message names objects: attributes whose numbers depend on the kind of message.

use nl_codec::msg::{ATTRS_OFFSET, NfMsg, NftMsg};
use nl_codec::nft::Str;
use nl_codec::{ATTR_HEADER_LEN, Attrs};

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

/// The handle of the object that a reply tells of.
pub(super) fn own_handle(msg: &NfMsg<'_>) -> Option<u64> {
    let kind = handle_attribute(msg)?;
    let (_, payload) = attribute(msg, kind)?;
    Some(u64::from_be_bytes(payload.try_into().ok()?))
}

fn handle_attribute(msg: &NfMsg<'_>) -> Option<u16> {
    Some(match msg.header.kind.as_nft()? {
        NftMsg::NEW_TABLE => 4,
        NftMsg::NEW_CHAIN => 2,
        NftMsg::NEW_RULE => 3,
        NftMsg::NEW_SET => 16,
        NftMsg::NEW_OBJ => 6,
        NftMsg::NEW_FLOWTABLE => 5,
        _ => return None,
    })
}

/// A top-level attribute: where its payload is in the message, and the payload.
pub(super) fn attribute<'a>(msg: &NfMsg<'a>, kind: u16) -> Option<(usize, &'a [u8])> {
    let mut attrs = Attrs::new(msg.attrs).map_while(Result::ok);
    let attr = attrs.find(|attr| attr.kind == kind)?;
    Some((ATTRS_OFFSET + attr.offset + ATTR_HEADER_LEN, attr.payload))
}
