//! Every object with every subset of its attributes survives the wire; no bytes make decoding or
//! iterating panic.

use core::fmt::Debug;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use crate::ack::Control;
use crate::arb::{Arb, Source};
use crate::ct::Conn;
use crate::msg::{BatchBegin, Body, Family, Head, Messages, NftMsg, put_message};
use crate::nft::expr::{Counter, Limit};
use crate::nft::obj::Obj;
use crate::nft::udata::{SetInfo, Tlvs};
use crate::nft::{Chain, DataType, ElemList, Flowtable, Generation, Rule, Set, Table};
use crate::pretty::{ChainText, ElemsText, FlowtableText, ObjText, RuleText, SetText};
use crate::{EncodeError, Encoder, LenCounter, SliceCursor};

/// As the only message of a buffer; the counter says the same length.
fn encoded<'a, B: Body<'a>>(body: &B) -> Vec<u8> {
    let head = Head::nft(NftMsg::NEW_TABLE, Family::INET);
    let mut counter = LenCounter::new();
    put_message(&mut counter, &head, body).unwrap();
    let mut buf = std::vec![0xaa; counter.position()];
    let mut cursor = SliceCursor::new(&mut buf);
    put_message(&mut cursor, &head, body).unwrap();
    assert_eq!(cursor.remaining(), 0);
    buf
}

fn attrs(buf: &[u8]) -> &[u8] {
    let message = Messages::new(buf).next().unwrap().unwrap();
    message.nfnetlink().unwrap().attrs
}

fn survives<'a, B: Body<'a> + Arb<'a> + PartialEq + Debug>(source: Source<'a>) {
    let mut source = source;
    let body = B::arb(&mut source);
    // Borrowed as long as the body itself, which a test may afford.
    let buf: &'a [u8] = encoded(&body).leak();
    let back = B::decode_body(crate::Attrs::new(attrs(buf))).unwrap();
    assert_eq!(back, body);
    assert_eq!(encoded(&back), buf);
    needs_all_its_room(&body, buf.len());
}

/// In any less room nothing is written, and the error says so.
fn needs_all_its_room<'a, B: Body<'a>>(body: &B, len: usize) {
    let head = Head::nft(NftMsg::NEW_TABLE, Family::INET);
    for room in [0, 19, len / 2, len - 4, len - 1] {
        let mut buf = std::vec![0; room.min(len - 1)];
        let mut cursor = SliceCursor::new(&mut buf);
        let result = put_message(&mut cursor, &head, body);
        assert!(
            matches!(result, Err(EncodeError::NoRoom { .. })),
            "{result:?}"
        );
        assert_eq!(cursor.position(), 0);
    }
}

fn never_panics<'a, B: Body<'a> + Debug>(bytes: &'a [u8]) {
    if let Ok(body) = B::decode_body(crate::Attrs::new(bytes)) {
        // Lists are decoded while they are printed.
        let _ = format!("{body:?}");
        let mut counter = LenCounter::new();
        let _ = body.encode_body(&mut counter);
    }
}

/// Prints `bytes` as every object that has a text.
fn prints(bytes: &[u8]) {
    let family = Family::NETDEV;
    print_as(bytes, |chain: &Chain<'_>| {
        ChainText { family, chain }.to_string()
    });
    print_as(bytes, |rule: &Rule<'_>| {
        RuleText { family, rule }.to_string()
    });
    print_as(bytes, |set: &Set<'_>| SetText(set).to_string());
    print_as(bytes, |elems: &ElemList<'_>| ElemsText(elems).to_string());
    print_as(bytes, |obj: &Obj<'_>| ObjText(obj).to_string());
    print_as(bytes, |table: &Flowtable<'_>| {
        FlowtableText(table).to_string()
    });
}

fn print_as<'a, B: Body<'a>>(bytes: &'a [u8], text: impl Fn(&B) -> String) {
    if let Ok(body) = B::decode_body(crate::Attrs::new(bytes)) {
        let _ = text(&body);
    }
}

/// Calls `$call` for each object.
macro_rules! each_object {
    ($call:ident($arg:expr)) => {
        $call::<Table<'_>>($arg);
        $call::<Chain<'_>>($arg);
        $call::<Rule<'_>>($arg);
        $call::<Set<'_>>($arg);
        $call::<ElemList<'_>>($arg);
        $call::<Obj<'_>>($arg);
        $call::<Flowtable<'_>>($arg);
        $call::<Generation<'_>>($arg);
        $call::<BatchBegin>($arg);
        $call::<Conn<'_>>($arg);
    };
}

proptest! {
    #[test]
    fn objects_survive_the_wire(bytes in vec(any::<u8>(), 0..600)) {
        let nested = [Counter::default().into(), Limit::packets(5, 1, 5).into()];
        let nested = &nested;
        each_object!(survives(Source { bytes: &bytes, nested }));
    }

    #[test]
    fn damaged_objects_never_panic(
        bytes in vec(any::<u8>(), 0..600),
        damage in vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        let nested = [Counter::default().into(), Limit::packets(5, 1, 5).into()];
        let mut source = Source { bytes: &bytes, nested: &nested };
        let list = ElemList::arb(&mut source);
        let set = Set::arb(&mut source);
        let (chain, rule) = (Chain::arb(&mut source), Rule::arb(&mut source));
        let (obj, flowtable) = (Obj::arb(&mut source), Flowtable::arb(&mut source));
        let all = [
            encoded(&list),
            encoded(&set),
            encoded(&chain),
            encoded(&rule),
            encoded(&obj),
            encoded(&flowtable),
        ];
        for mut buf in all {
            for (at, value) in &damage {
                let at = usize::from(*at) % buf.len();
                buf[at] = *value;
            }
            for message in Messages::new(&buf).flatten() {
                if let Ok(message) = message.nfnetlink() {
                    each_object!(never_panics(message.attrs));
                    prints(message.attrs);
                }
            }
        }
    }

    #[test]
    fn arbitrary_attributes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        each_object!(never_panics(&bytes));
        prints(&bytes);
    }

    #[test]
    fn arbitrary_datagrams_never_panic(bytes in vec(any::<u8>(), 0..100), kind in 0_u8..5) {
        let mut bytes = bytes;
        // A length and a type that let more of them through.
        if let Some(header) = bytes.first_chunk_mut::<6>() {
            header[1..4].fill(0);
            header[4..].copy_from_slice(&u16::from(kind).to_ne_bytes());
        }
        for message in Messages::new(&bytes).flatten() {
            let _ = format!("{:?} {:?}", Control::decode(&message), message.nfnetlink());
        }
    }

    #[test]
    fn arbitrary_userdata_never_panics(bytes in vec(any::<u8>(), 0..64)) {
        if let Ok(info) = SetInfo::decode(&bytes) {
            let again = info.encode().unwrap();
            prop_assert_eq!(SetInfo::decode(again.as_bytes()), Ok(info));
        }
        let consumed: usize = Tlvs::new(&bytes).flatten().map(|tlv| 2 + tlv.value.len()).sum();
        prop_assert!(consumed <= bytes.len());
    }

    #[test]
    fn concatenations_come_apart_again(numbers in vec(1_u32..64, 1..=5)) {
        let parts: Vec<DataType> = numbers.into_iter().map(DataType).collect();
        let concat = DataType::concat(&parts).unwrap();
        prop_assert_eq!(concat.parts().collect::<Vec<_>>(), parts);
    }

    #[test]
    fn any_number_prints_as_a_type(number in any::<u32>()) {
        let _ = format!("{} {:?}", DataType(number), DataType(number).key_len());
    }
}
