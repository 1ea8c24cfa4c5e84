//! Encoding, counting, decoding and printing allocate nothing: counted over every recorded message.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::fmt::{self, Write};
use core::net::SocketAddr;
use std::path::Path;

use allocation_counter::measure;
use nl_codec::ack::Control;
use nl_codec::ct::{Conn, ProtoInfo, Status, TcpInfo, TcpState, Tuple};
use nl_codec::msg::{CtMsg, Family, Head, Messages, NfMsg, NftMsg, put_message};
use nl_codec::nft::dtype::ByteOrder;
use nl_codec::nft::elem::{ElemList, ElemRow, put_elems};
use nl_codec::nft::expr::{Expr, ExprRef};
use nl_codec::nft::udata::{self, SetInfo};
use nl_codec::nft::{Exprs, ObjData, Udata};
use nl_codec::pretty::{ChainText, ElemsText, FlowtableText, ObjText, RuleText, SetText};
use nl_codec::{DecodeError, Encoder, LenCounter, SliceCursor};
use test_support::golden::Golden;

use any::Any;

mod any;

fn for_every_message(mut check: impl FnMut(&str, &[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut checked = 0;
    for golden in Golden::load_all(&folder).unwrap() {
        for case in &golden.cases {
            let name = format!("{}: {}", golden.name(), case.name);
            for message in &case.messages {
                check(&name, message);
                checked += 1;
            }
        }
    }
    assert!(checked > 500, "{checked}");
}

#[test]
fn the_counter_counts() {
    // Otherwise the other tests could not fail.
    let counted = measure(|| drop(core::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn encoding_and_counting_allocate_nothing() {
    let mut buf = vec![0; 1 << 17];
    for_every_message(|name, message| {
        let view = any::view(message).unwrap();
        let body = Any::decode(&view).unwrap().rebuilt().unwrap();
        let (mut written, mut counted_len) = (0, 0);
        let counted = measure(|| {
            let mut cursor = SliceCursor::new(&mut buf);
            let mut counter = LenCounter::new();
            body.encode(&view, &mut cursor).unwrap();
            body.encode(&view, &mut counter).unwrap();
            (written, counted_len) = (cursor.position(), counter.position());
        });
        assert_eq!(counted.count_total, 0, "{name}");
        assert_eq!(buf[..written], any::rebuild(message).unwrap(), "{name}");
        assert_eq!(counted_len, written, "{name}");
    });
}

#[test]
fn splitting_elements_allocates_nothing() {
    let mut buf = vec![0; 1 << 20];
    let key = [7; 16];
    let data = [9; 8];
    let row = ElemRow {
        key: &key,
        data: Some(&data),
    };
    let head = Head::nft(NftMsg::NEW_SETELEM, Family::IPV4);
    let mut messages = 0;
    let counted = measure(|| {
        let mut rows = core::iter::repeat_n(row, 10_000).peekable();
        let mut cursor = SliceCursor::new(&mut buf);
        while rows.peek().is_some() {
            put_elems(&mut cursor, &head, &ElemList::with_id("t", 1), &mut rows).unwrap();
            messages += 1;
        }
    });
    assert_eq!(counted.count_total, 0);
    assert_eq!(messages, 7);
}

#[test]
fn decoding_allocates_nothing() {
    for_every_message(|name, message| {
        let counted = measure(|| {
            let view = any::view(message).unwrap();
            walk(&Any::decode(&view).unwrap()).unwrap();
        });
        assert_eq!(counted.count_total, 0, "{name}");
    });
}

/// Visits everything that is decoded only when asked for.
fn walk(body: &Any<'_>) -> Result<(), DecodeError> {
    match body {
        Any::Chain(chain) => {
            let devices = chain.hook.and_then(|hook| hook.devices);
            devices
                .iter()
                .flatten()
                .try_for_each(|entry| entry.map(drop))
        }
        Any::Rule(rule) => walk_exprs(rule.exprs),
        Any::Set(set) => {
            let fields = set.desc.and_then(|desc| desc.concat);
            fields
                .iter()
                .flatten()
                .try_for_each(|entry| entry.map(drop))?;
            walk_ref(set.expr)?;
            walk_exprs(set.exprs)
        }
        Any::Elems(list) => list.elems.iter().flatten().try_for_each(|elem| {
            let elem = elem?;
            walk_ref(elem.expr)?;
            walk_exprs(elem.exprs)
        }),
        Any::Obj(obj) => match obj.data {
            Some(ObjData::CtTimeout(timeout)) => {
                let entries = timeout.timeouts;
                entries
                    .iter()
                    .flatten()
                    .try_for_each(|entry| entry.map(drop))
            }
            _ => Ok(()),
        },
        Any::Flowtable(flowtable) => {
            let devices = flowtable.hook.and_then(|hook| hook.devices);
            devices
                .iter()
                .flatten()
                .try_for_each(|entry| entry.map(drop))
        }
        _ => Ok(()),
    }
}

fn walk_exprs(exprs: Option<Exprs<'_>>) -> Result<(), DecodeError> {
    exprs
        .iter()
        .flatten()
        .try_for_each(|expr| walk_expr(&expr?))
}

fn walk_expr(expr: &Expr<'_>) -> Result<(), DecodeError> {
    match expr {
        Expr::Dynset(dynset) => {
            walk_ref(dynset.expr)?;
            walk_exprs(dynset.exprs.map(|nested| *nested.exprs()))
        }
        Expr::Inner(inner) => walk_ref(inner.expr),
        _ => Ok(()),
    }
}

fn walk_ref(expr: Option<ExprRef<'_>>) -> Result<(), DecodeError> {
    expr.map(|expr| expr.expr()).transpose().map(drop)
}

#[test]
fn printing_allocates_nothing() {
    let mut text = FixedText {
        buf: [0; 16_384],
        len: 0,
    };
    for_every_message(|name, message| {
        let view = any::view(message).unwrap();
        let body = Any::decode(&view).unwrap();
        text.len = 0;
        let counted = measure(|| print(&mut text, &view, &body).unwrap());
        assert_eq!(counted.count_total, 0, "{name}");
    });
}

fn print(out: &mut FixedText, view: &NfMsg<'_>, body: &Any<'_>) -> fmt::Result {
    let family = view.nfgen.family;
    match body {
        Any::Chain(chain) => write!(out, "{}", ChainText { family, chain }),
        Any::Rule(rule) => write!(out, "{}", RuleText { family, rule }),
        Any::Set(set) => write!(out, "{}", SetText(set)),
        Any::Elems(elems) => write!(out, "{}", ElemsText(elems)),
        Any::Obj(obj) => write!(out, "{}", ObjText(obj)),
        Any::Flowtable(flowtable) => write!(out, "{}", FlowtableText(flowtable)),
        _ => Ok(()),
    }
}

struct FixedText {
    buf: [u8; 16_384],
    len: usize,
}

impl Write for FixedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        let room = self.buf.get_mut(self.len..end).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}

#[test]
fn rows_of_a_dump_allocate_nothing() {
    let (key, data) = ([7; 16], [9; 8]);
    let row = ElemRow {
        key: &key,
        data: Some(&data),
    };
    let mut buf = vec![0; 1 << 16];
    let mut cursor = SliceCursor::new(&mut buf);
    let head = Head::nft(NftMsg::NEW_SETELEM, Family::IPV4);
    let mut rows = core::iter::repeat_n(row, 1_000).peekable();
    put_elems(&mut cursor, &head, &ElemList::with_id("t", 1), &mut rows).unwrap();
    let mut found = 0;
    let counted = measure(|| {
        let message = Messages::new(cursor.written()).next().unwrap().unwrap();
        let list: ElemList<'_> = message.nfnetlink().unwrap().body().unwrap();
        let rows = list.elems.iter().flat_map(|elems| elems.raw());
        found = rows.filter(|elem| elem.unwrap().row() == Some(row)).count();
    });
    assert_eq!((counted.count_total, found), (0, 1_000));
}

#[test]
fn userdata_allocates_nothing() {
    let mut len = 0;
    let counted = measure(|| {
        let mut info = SetInfo::default();
        info.key_byte_order = Some(ByteOrder::HOST);
        info.comment = Some("of a set".into());
        let set = info.encode().unwrap();
        assert_eq!(SetInfo::decode(set.as_bytes()), Ok(info));
        let comment = Udata::with_comment("of a rule").unwrap();
        assert!(udata::comment(comment.as_bytes()).is_some());
        len = set.as_bytes().len() + comment.as_bytes().len();
    });
    assert_eq!((counted.count_total, len), (0, 6 + 11 + 12));
}

#[test]
fn connections_allocate_nothing() {
    let addr = |last, port| SocketAddr::from(([10, 0, 0, last], port));
    let tuple = Tuple::new(6, addr(1, 40_000), addr(2, 80)).unwrap();
    let mut conn = Conn::matching_orig(tuple).unwrap();
    conn.reply = Some(tuple);
    conn.status = Some(Status::ASSURED | Status::DST_NAT);
    conn.labels = Some(&[1; 16]);
    let mut tcp = TcpInfo::default();
    tcp.state = Some(TcpState::ESTABLISHED);
    let mut info = ProtoInfo::default();
    info.tcp = Some(tcp);
    conn.proto_info = Some(info);
    let mut buf = [0; 512];
    let counted = measure(|| {
        let head = Head::ct(CtMsg::NEW, Family::IPV4);
        let mut cursor = SliceCursor::new(&mut buf);
        let mut counter = LenCounter::new();
        put_message(&mut cursor, &head, &conn).unwrap();
        put_message(&mut counter, &head, &conn).unwrap();
        assert_eq!(cursor.position(), counter.position());
        let message = Messages::new(cursor.written()).next().unwrap().unwrap();
        let back: Conn<'_> = message.nfnetlink().unwrap().body().unwrap();
        assert!(back == conn);
    });
    assert_eq!(counted.count_total, 0);
}

#[test]
fn reading_acks_allocates_nothing() {
    // An error with message and offset, as the kernel sends it with NETLINK_CAP_ACK.
    let mut bytes = Vec::new();
    bytes.extend(56_u32.to_ne_bytes());
    bytes.extend(2_u16.to_ne_bytes());
    bytes.extend(0x300_u16.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend((-17_i32).to_ne_bytes());
    bytes.extend(20_u32.to_ne_bytes());
    bytes.extend([0; 12]);
    bytes.extend(11_u16.to_ne_bytes());
    bytes.extend(1_u16.to_ne_bytes());
    bytes.extend(b"exists\0\0");
    bytes.extend(8_u16.to_ne_bytes());
    bytes.extend(2_u16.to_ne_bytes());
    bytes.extend(152_u32.to_ne_bytes());
    let mut offset = None;
    let counted = measure(|| {
        for message in Messages::new(&bytes) {
            if let Some(Control::Ack(ack)) = Control::decode(&message.unwrap()).unwrap() {
                offset = ack.extended.offset;
            }
        }
    });
    assert_eq!(counted.count_total, 0);
    assert_eq!(offset, Some(152));
}
