//! Lengths at the edge of what 16 bits can say, for every way in which bytes or lists get into a
//! message: the largest that fits survives the wire, one byte more is an error, and both sinks agree.

use core::fmt::Debug;
use std::vec::Vec;

use crate::ct::{Conn, Help};
use crate::msg::{Body, Family, Head, Messages, NftMsg, put_message};
use crate::nft::chain::{ChainHook, Device, Devices};
use crate::nft::expr::{
    Cmp, CmpOp, Dynset, DynsetOp, Expr, ExprRef, Exprs, Log, NestedExprs, Objref,
};
use crate::nft::expr::{ObjType, Range, RangeOp};
use crate::nft::flowtable::FlowtableHook;
use crate::nft::obj::{CtHelper, ObjData, Secmark};
use crate::nft::set::SetDesc;
use crate::nft::{
    Chain, Data, Elem, ElemList, Elems, Flowtable, Generation, List, Obj, Register, Rule, Set, Str,
    Table, Value, Verdict,
};
use crate::{EncodeError, Encoder, LenCounter, MAX_ATTR_PAYLOAD, SliceCursor};

/// `body` makes a message out of that many bytes; `largest` is the last number that fits.
fn check<B, F>(what: &str, largest: usize, body: F)
where
    B: Body<'static> + PartialEq + Debug,
    F: Fn(&'static [u8]) -> B,
{
    let bytes: &'static [u8] = std::vec![b'x'; largest + 1].leak();
    let head = Head::nft(NftMsg::NEW_TABLE, Family::INET);
    for len in largest - 4..=largest + 1 {
        let body = body(&bytes[..len]);
        let mut counter = LenCounter::new();
        let counted = put_message(&mut counter, &head, &body);
        let mut buf = std::vec![0xaa; 1 << 18];
        let mut cursor = SliceCursor::new(&mut buf);
        let written = put_message(&mut cursor, &head, &body);
        assert_eq!(counted, written, "{what}, {len} bytes");
        assert_eq!(counter.position(), cursor.position(), "{what}, {len} bytes");
        if len > largest {
            assert!(
                matches!(written, Err(EncodeError::AttrTooLong { .. })),
                "{what}, {len} bytes: {written:?}"
            );
            assert_eq!(cursor.position(), 0, "{what}");
            continue;
        }
        assert_eq!(written, Ok(()), "{what}, {len} bytes");
        let end = cursor.position();
        let wire: &'static [u8] = buf[..end].to_vec().leak();
        let message = Messages::new(wire).next().unwrap().unwrap();
        let back: B = message.nfnetlink().unwrap().body().unwrap();
        assert!(back == body, "{what}, {len} bytes");
    }
}

/// A payload within `nests` attributes; every header is 4 bytes, every inner payload padded.
const fn within(nests: usize) -> usize {
    if nests == 0 {
        MAX_ATTR_PAYLOAD
    } else {
        (MAX_ATTR_PAYLOAD - 4 * nests) / 4 * 4
    }
}

/// The same with a NUL at its end.
const fn name_within(nests: usize) -> usize {
    within(nests) - 1
}

fn leak<T>(value: T) -> &'static [T] {
    Vec::leak(std::vec![value])
}

/// A rule of one expression. Its bytes are within the list, its entry and the expression's data,
/// beside whose `NFTA_EXPR_NAME` they stand.
fn rule(expr: impl Into<Expr<'static>>) -> Rule<'static> {
    Rule {
        exprs: Some(Exprs::new(leak(expr.into()))),
        ..Rule::default()
    }
}

/// Bytes an expression's name takes.
const fn named(name: &str) -> usize {
    4 + (name.len() + 4) / 4 * 4
}

#[test]
fn names() {
    check("table", name_within(0), |bytes| Table {
        name: Some(Str::new(bytes)),
        ..Table::default()
    });
    check("process", name_within(0), |bytes| Generation {
        process: Some(Str::new(bytes)),
        ..Generation::default()
    });
    check("device", name_within(1), |bytes| {
        let hook = ChainHook {
            device: Some(Str::new(bytes)),
            ..ChainHook::default()
        };
        Chain {
            hook: Some(hook),
            ..Chain::default()
        }
    });
    check("helper of a connection", name_within(1), |bytes| {
        let mut conn = Conn::default();
        let help = Help {
            name: Some(Str::new(bytes)),
            ..Help::default()
        };
        conn.help = Some(help);
        conn
    });
    check("target of a verdict", name_within(4), |bytes| {
        let verdict = Verdict {
            chain: Some(Str::new(bytes)),
            ..Verdict::default()
        };
        let elem = Elem {
            data: Some(Data::Verdict(verdict)),
            ..Elem::default()
        };
        elems(elem)
    });
    check("log prefix", name_within(3) - named("log"), |bytes| {
        rule(Log::prefix(Str::new(bytes)))
    });
}

#[test]
fn names_without_a_nul() {
    // A type attribute goes before it.
    check("object", within(3) - named("objref") - 8, |bytes| {
        rule(Objref::named(ObjType::COUNTER, Str::new(bytes)))
    });
    check("ct helper", within(1), |bytes| {
        let helper = CtHelper {
            name: Some(Str::new(bytes).into()),
            ..CtHelper::default()
        };
        obj(helper)
    });
    check("secmark", within(1), |bytes| {
        let secmark = Secmark {
            context: Some(Str::new(bytes).into()),
            ..Secmark::default()
        };
        obj(secmark)
    });
}

fn obj(data: impl Into<ObjData<'static>>) -> Obj<'static> {
    let data = data.into();
    Obj {
        kind: Some(data.kind()),
        data: Some(data),
        ..Obj::default()
    }
}

fn elems(elem: Elem<'static>) -> ElemList<'static> {
    ElemList {
        elems: Some(Elems::new(leak(elem))),
        ..ElemList::default()
    }
}

#[test]
fn userdata() {
    check("table", within(0), |bytes| Table {
        userdata: Some(bytes),
        ..Table::default()
    });
    check("chain", within(0), |bytes| Chain {
        userdata: Some(bytes),
        ..Chain::default()
    });
    check("rule", within(0), |bytes| Rule {
        userdata: Some(bytes),
        ..Rule::default()
    });
    check("set", within(0), |bytes| Set {
        userdata: Some(bytes),
        ..Set::default()
    });
    check("object", within(0), |bytes| Obj {
        userdata: Some(bytes),
        ..Obj::default()
    });
    check("element", within(2), |bytes| {
        let elem = Elem {
            userdata: Some(bytes),
            ..Elem::default()
        };
        elems(elem)
    });
}

#[test]
fn values() {
    check("key", within(3), |bytes| {
        elems(Elem::new(Value::new(bytes)))
    });
    // Half in the key, half in the data.
    check("key and data", within(3) / 2 / 4 * 4 - 4, |bytes| {
        let value = Value::new(bytes);
        elems(Elem::mapping(value, Data::Value(value)))
    });
    // Register and operator go before it.
    check("cmp", within(4) - named("cmp") - 16, |bytes| {
        rule(Cmp::new(CmpOp::EQ, Register::R1, Value::new(bytes)))
    });
    check("range", within(4) - named("range") - 24, |bytes| {
        rule(Range::new(
            RangeOp::EQ,
            Register::R1,
            Value::new(&[]),
            Value::new(bytes),
        ))
    });
}

#[test]
fn unknown_data() {
    check("expression", within(2) - named("brandnew"), |bytes| {
        rule(Expr::Unknown {
            name: "brandnew".into(),
            data: bytes,
        })
    });
    check("object", within(0), |bytes| {
        obj(ObjData::Unknown {
            kind: ObjType(99),
            data: bytes,
        })
    });
}

#[test]
fn expressions_in_others() {
    let log = |bytes| leak(Expr::from(Log::prefix(Str::new(bytes))));
    let outer = named("dynset") + named("log");
    let new = || Dynset {
        op: Some(DynsetOp::ADD),
        ..Dynset::default()
    };
    check("one", name_within(5) - outer - 8, |bytes| {
        rule(new().with_expr(ExprRef::new(&log(bytes)[0])))
    });
    // With a flag, in one more list.
    check("several", name_within(6) - outer - 16, |bytes| {
        rule(new().with_exprs(NestedExprs::new(log(bytes))))
    });
    check("of a set", name_within(2) - named("log"), |bytes| Set {
        expr: Some(ExprRef::new(&log(bytes)[0])),
        ..Set::default()
    });
    check("of an element", name_within(4) - named("log"), |bytes| {
        let elem = Elem {
            expr: Some(ExprRef::new(&log(bytes)[0])),
            ..Elem::default()
        };
        elems(elem)
    });
    check(
        "of an element, list",
        name_within(5) - named("log"),
        |bytes| {
            let elem = Elem {
                exprs: Some(Exprs::new(log(bytes))),
                ..Elem::default()
            };
            elems(elem)
        },
    );
}

/// As many entries as bytes.
fn entries<T: Clone>(bytes: &[u8], entry: T) -> List<'static, T> {
    List::new(std::vec![entry; bytes.len()].leak())
}

#[test]
fn lists() {
    let field = || crate::nft::set::SetField::new(4);
    let device = || Device::from("eth0");
    // An entry is 12 bytes each time: a header and a field of 8, or a header, a name and padding.
    check("fields", within(1) / 12, |bytes| {
        let desc = SetDesc {
            concat: Some(entries(bytes, field())),
            ..SetDesc::default()
        };
        Set {
            desc: Some(desc),
            ..Set::default()
        }
    });
    let devices = |bytes: &[u8]| -> Devices<'static> { entries(bytes, device()) };
    check("devices of a chain", within(1) / 12, |bytes| {
        let hook = ChainHook {
            devices: Some(devices(bytes)),
            ..ChainHook::default()
        };
        Chain {
            hook: Some(hook),
            ..Chain::default()
        }
    });
    check("devices of a flowtable", within(1) / 12, |bytes| {
        let hook = FlowtableHook {
            devices: Some(devices(bytes)),
            ..FlowtableHook::default()
        };
        Flowtable {
            hook: Some(hook),
            ..Flowtable::default()
        }
    });
    check(
        "expressions",
        MAX_ATTR_PAYLOAD / (4 + named("notrack")),
        |bytes| {
            let notrack = Expr::from(crate::nft::expr::Notrack);
            Rule {
                exprs: Some(entries(bytes, notrack)),
                ..Rule::default()
            }
        },
    );
    check("elements", MAX_ATTR_PAYLOAD / 16, |bytes| ElemList {
        elems: Some(entries(bytes, Elem::new(Value::u32_be(1)))),
        ..ElemList::default()
    });
}
