//! Attributes as they are, whether understood or not.
//!
//! What is not understood is found by encoding again what was decoded: what is then missing, or
//! differs, the decoder did not know.

use core::fmt;

use nl_codec::msg::{Body, NfMsg, NftMsg};
use nl_codec::nft::{Chain, Elem, ElemList, Expr, Flowtable, Obj, Rule, Set, Table};
use nl_codec::{
    Attr, AttrValue, Attrs, EncodeError, Encoder, LenCounter, NLA_F_NESTED, SliceCursor,
};
use serde::Serialize;

/// Nests deeper than this are shown as bytes: received bytes must not decide how deep we recurse.
const DEPTH: usize = 16;
/// `NFTA_RULE_EXPRESSIONS`.
const RULE_EXPRESSIONS: u16 = 4;
/// `NFTA_SET_ELEM_LIST_ELEMENTS`.
const ELEMENTS: u16 = 3;

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Node {
    /// Numbers of the nests around it, outermost first, and its own.
    pub path: Vec<u16>,
    /// Its bytes, in hex.
    pub bytes: String,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<_> = self.path.iter().map(u16::to_string).collect();
        write!(f, "attribute {} = {}", path.join("."), self.bytes)
    }
}

/// The attributes of a message that the decoder does not know.
#[must_use]
pub fn unknown(msg: &NfMsg<'_>) -> Vec<Node> {
    let known = encoded(msg).unwrap_or_default();
    let mut found = Vec::new();
    compare(msg.attrs(), &known, &mut Vec::new(), &mut found);
    // Lists are decoded entry by entry.
    match msg.header.kind.as_nft() {
        Some(NftMsg::NEW_RULE) => entries::<Expr<'_>>(msg, RULE_EXPRESSIONS, &mut found),
        Some(NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM | NftMsg::DESTROY_SETELEM) => {
            entries::<Elem<'_>>(msg, ELEMENTS, &mut found);
        }
        _ => {}
    }
    found
}

/// Compares the entries of the list that is the attribute `list`.
fn entries<'a, T: AttrValue<'a>>(msg: &NfMsg<'a>, list: u16, found: &mut Vec<Node>) {
    let attrs = msg.attrs().map_while(Result::ok);
    let lists = attrs.filter(|attr| attr.kind == list);
    for (index, entry) in lists
        .flat_map(|attr| attr.nested().map_while(Result::ok))
        .enumerate()
    {
        // Which of the entries is said by its place: all may have the same number.
        let place = u16::try_from(index + 1).unwrap_or(u16::MAX);
        let mut path = vec![list, place];
        let Ok(value) = entry.value::<T>("entry") else {
            found.push(node(&path, entry.payload));
            continue;
        };
        let known = written(|enc| value.encode(1, enc), |enc| value.encode(1, enc));
        if let Some(twin) = Attrs::new(&known.unwrap_or_default())
            .next()
            .and_then(Result::ok)
        {
            differing(&entry, &twin, &mut path, found);
        }
    }
}

fn compare(attrs: Attrs<'_>, known: &[u8], path: &mut Vec<u16>, found: &mut Vec<Node>) {
    for attr in attrs.map_while(Result::ok) {
        let twin = Attrs::new(known)
            .map_while(Result::ok)
            .find(|twin| twin.kind == attr.kind);
        path.push(attr.kind);
        match twin {
            Some(twin) => differing(&attr, &twin, path, found),
            None => found.push(node(path, attr.payload)),
        }
        path.pop();
    }
}

fn differing(attr: &Attr<'_>, twin: &Attr<'_>, path: &mut Vec<u16>, found: &mut Vec<Node>) {
    if attr.payload == twin.payload {
        return;
    }
    if twin.flags & NLA_F_NESTED != 0 && path.len() < DEPTH {
        compare(Attrs::new(attr.payload), twin.payload, path, found);
        return;
    }
    // A name with or without its NUL is the same name.
    let trimmed = |bytes: &[u8]| bytes.strip_suffix(&[0]).unwrap_or(bytes).to_vec();
    if trimmed(attr.payload) != trimmed(twin.payload) {
        found.push(node(path, attr.payload));
    }
}

fn node(path: &[u16], bytes: &[u8]) -> Node {
    Node {
        path: path.to_vec(),
        bytes: hex(bytes),
    }
}

/// Bytes in hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the decoder made of a message, encoded again.
fn encoded(msg: &NfMsg<'_>) -> Option<Vec<u8>> {
    match msg.header.kind.as_nft()? {
        NftMsg::NEW_TABLE | NftMsg::GET_TABLE | NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE => {
            again::<Table<'_>>(msg)
        }
        NftMsg::NEW_CHAIN | NftMsg::GET_CHAIN | NftMsg::DEL_CHAIN | NftMsg::DESTROY_CHAIN => {
            again::<Chain<'_>>(msg)
        }
        NftMsg::NEW_RULE
        | NftMsg::GET_RULE
        | NftMsg::DEL_RULE
        | NftMsg::DESTROY_RULE
        | NftMsg::GET_RULE_RESET => again::<Rule<'_>>(msg),
        NftMsg::NEW_SET | NftMsg::GET_SET | NftMsg::DEL_SET | NftMsg::DESTROY_SET => {
            again::<Set<'_>>(msg)
        }
        NftMsg::NEW_SETELEM
        | NftMsg::GET_SETELEM
        | NftMsg::DEL_SETELEM
        | NftMsg::DESTROY_SETELEM
        | NftMsg::GET_SETELEM_RESET => again::<ElemList<'_>>(msg),
        NftMsg::NEW_OBJ
        | NftMsg::GET_OBJ
        | NftMsg::DEL_OBJ
        | NftMsg::DESTROY_OBJ
        | NftMsg::GET_OBJ_RESET => again::<Obj<'_>>(msg),
        NftMsg::NEW_FLOWTABLE
        | NftMsg::GET_FLOWTABLE
        | NftMsg::DEL_FLOWTABLE
        | NftMsg::DESTROY_FLOWTABLE => again::<Flowtable<'_>>(msg),
        _ => None,
    }
}

fn again<'a, B: Body<'a>>(msg: &NfMsg<'a>) -> Option<Vec<u8>> {
    let body = msg.body::<B>().ok()?;
    written(|enc| body.encode_body(enc), |enc| body.encode_body(enc))
}

/// Writes twice: first to learn the length.
fn written(
    count: impl FnOnce(&mut LenCounter) -> Result<(), EncodeError>,
    write: impl FnOnce(&mut SliceCursor<'_>) -> Result<(), EncodeError>,
) -> Option<Vec<u8>> {
    let mut counter = LenCounter::new();
    count(&mut counter).ok()?;
    let mut bytes = vec![0; counter.position()];
    write(&mut SliceCursor::new(&mut bytes)).ok()?;
    Some(bytes)
}
