//! Datagrams: every message is decoded, printed and encoded again; what comes out of that survives
//! the same.

use core::fmt::Debug;

use nl_codec::ack::Control;
use nl_codec::ct::Conn;
use nl_codec::msg::{
    ATTRS_OFFSET, BatchBegin, Body, Family, Head, Messages, MsgType, NfMsg, NftMsg, Subsystem,
    put_message,
};
use nl_codec::nft::udata::{SetInfo, Tlvs};
use nl_codec::nft::{Chain, ElemList, Flowtable, Generation, Obj, Rule, Set, Table};
use nl_codec::pretty::{ChainText, ElemsText, FlowtableText, ObjText, RuleText, SetText};
use nl_codec::{Attrs, Encoder as _, LenCounter, SliceCursor};

/// Decodes attributes as an object; what we encode of it is decoded again and encodes to the same
/// bytes.
macro_rules! object {
    ($attrs:expr, $object:ident) => {
        if let Ok(object) = $object::decode_body(Attrs::new($attrs)) {
            // Lists are decoded while they are shown.
            show(&object);
            if let Some(bytes) = encoded(&object) {
                let attrs = bytes.get(ATTRS_OFFSET..).unwrap_or_default();
                match $object::decode_body(Attrs::new(attrs)) {
                    Ok(again) => assert_eq!(encoded(&again).as_ref(), Some(&bytes), "{again:?}"),
                    Err(error) => panic!("not what was encoded: {error}: {bytes:02x?}"),
                }
            }
        }
    };
}
pub(crate) fn run(input: &[u8]) {
    for msg in Messages::new(input) {
        let Ok(msg) = msg else { break };
        show(&Control::decode(&msg));
        if let Ok(msg) = msg.nfnetlink() {
            message(&msg);
        }
    }
    userdata(input);
}

fn message(msg: &NfMsg<'_>) {
    let family = msg.nfgen.family;
    let attrs = msg.attrs;
    if [MsgType::BATCH_BEGIN, MsgType::BATCH_END].contains(&msg.header.kind) {
        object!(attrs, BatchBegin);
        return;
    }
    if msg.header.kind.subsystem() == Subsystem::CTNETLINK {
        object!(attrs, Conn);
        return;
    }
    match msg.header.kind.as_nft() {
        Some(NftMsg::NEW_TABLE | NftMsg::GET_TABLE | NftMsg::DEL_TABLE) => object!(attrs, Table),
        Some(NftMsg::NEW_CHAIN | NftMsg::GET_CHAIN | NftMsg::DEL_CHAIN) => {
            object!(attrs, Chain);
            print(attrs, |chain: &Chain<'_>| {
                ChainText { family, chain }.to_string()
            });
        }
        Some(NftMsg::NEW_RULE | NftMsg::GET_RULE | NftMsg::DEL_RULE) => {
            object!(attrs, Rule);
            print(attrs, |rule: &Rule<'_>| {
                RuleText { family, rule }.to_string()
            });
        }
        Some(NftMsg::NEW_SET | NftMsg::GET_SET | NftMsg::DEL_SET) => {
            object!(attrs, Set);
            print(attrs, |set: &Set<'_>| SetText(set).to_string());
        }
        Some(NftMsg::NEW_SETELEM | NftMsg::GET_SETELEM | NftMsg::DEL_SETELEM) => {
            object!(attrs, ElemList);
            print(attrs, |list: &ElemList<'_>| ElemsText(list).to_string());
        }
        Some(NftMsg::NEW_OBJ | NftMsg::GET_OBJ | NftMsg::DEL_OBJ) => {
            object!(attrs, Obj);
            print(attrs, |obj: &Obj<'_>| ObjText(obj).to_string());
        }
        Some(NftMsg::NEW_FLOWTABLE | NftMsg::GET_FLOWTABLE | NftMsg::DEL_FLOWTABLE) => {
            object!(attrs, Flowtable);
            print(attrs, |table: &Flowtable<'_>| {
                FlowtableText(table).to_string()
            });
        }
        Some(NftMsg::NEW_GEN | NftMsg::GET_GEN) => object!(attrs, Generation),
        _ => {}
    }
}

/// As a message of its own; the counter says the same length. `None` if it does not fit a message.
fn encoded<'a, B: Body<'a>>(body: &B) -> Option<Vec<u8>> {
    let head = Head::nft(NftMsg::NEW_TABLE, Family::INET);
    let mut counter = LenCounter::new();
    put_message(&mut counter, &head, body).ok()?;
    let mut buf = vec![0xaa; counter.position()];
    let mut cursor = SliceCursor::new(&mut buf);
    let written = put_message(&mut cursor, &head, body);
    assert!(written.is_ok(), "{written:?} in the counted room");
    assert_eq!(cursor.remaining(), 0, "less than was counted");
    Some(buf)
}

fn print<'a, B: Body<'a>>(attrs: &'a [u8], text: impl Fn(&B) -> String) {
    if let Ok(body) = B::decode_body(Attrs::new(attrs)) {
        core::hint::black_box(text(&body));
    }
}

fn show(value: &impl Debug) {
    core::hint::black_box(format!("{value:?}"));
}

fn userdata(input: &[u8]) {
    if let Ok(info) = SetInfo::decode(input)
        && let Ok(encoded) = info.encode()
    {
        assert_eq!(SetInfo::decode(encoded.as_bytes()), Ok(info));
    }
    let consumed: usize = Tlvs::new(input)
        .flatten()
        .map(|tlv| 2 + tlv.value.len())
        .sum();
    assert!(consumed <= input.len());
}
