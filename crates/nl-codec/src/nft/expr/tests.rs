//! Every expression with every subset of its attributes survives the wire; no bytes make decoding
//! or printing panic.

use std::format;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::arb::{Arb, Source};
use crate::nft::Register;
use crate::{LenCounter, SliceCursor};

macro_rules! makers {
    ($($name:ident)+) => {
        const EXPRS: &[for<'a, 's> fn(&'s mut Source<'a>) -> Expr<'a>] =
            &[$( |source| Expr::$name(Arb::arb(source)), )+];
    };
}
makers! {
    Bitwise Byteorder Cmp Connlimit Counter Ct Dup Dynset Exthdr Fib FlowOffload Fwd Hash Immediate Inner Last Limit Log Lookup Masq Meta Nat Notrack Numgen Objref Osf Payload Queue Quota Range Redir Reject Rt Socket Synproxy Tproxy Tunnel Xfrm
}

/// Runs `check` on an expression of each kind made from `bytes`.
fn with_exprs(bytes: &[u8], check: impl Fn(&Expr<'_>)) {
    let nested = [
        Counter::default().into(),
        Limit::packets(5, 1, 5).into(),
        Payload::load(PayloadBase::NETWORK, 12, 4, Register::R1).into(),
    ];
    for make in EXPRS {
        let nested = &nested;
        check(&make(&mut Source { bytes, nested }));
    }
}

/// The expression as the only attribute of a buffer.
fn encoded(expr: &Expr<'_>) -> Vec<u8> {
    let mut counter = LenCounter::new();
    expr.encode(1, &mut counter).unwrap();
    let mut buf = std::vec![0xaa; counter.position()];
    let mut cursor = SliceCursor::new(&mut buf);
    expr.encode(1, &mut cursor).unwrap();
    assert_eq!(cursor.remaining(), 0, "the counter and the cursor agree");
    buf
}

fn decoded(buf: &[u8]) -> Result<Expr<'_>, DecodeError> {
    let attr = Attrs::new(buf).next().unwrap()?;
    attr.value("test")
}

proptest! {
    #[test]
    fn expressions_survive_the_wire(bytes in vec(any::<u8>(), 0..400)) {
        with_exprs(&bytes, |expr| {
            let buf = encoded(expr);
            let back = decoded(&buf).unwrap();
            assert_eq!(back, *expr);
            assert_eq!(encoded(&back), buf);
            assert_eq!(format!("{back}"), format!("{expr}"));
        });
    }

    #[test]
    fn damaged_expressions_decode_or_fail_and_print(
        bytes in vec(any::<u8>(), 0..400),
        damage in vec((any::<u16>(), any::<u8>()), 1..4),
    ) {
        with_exprs(&bytes, |expr| {
            let mut buf = encoded(expr);
            for (at, value) in &damage {
                // The outer length stays, or nothing would be decoded.
                let at = 4 + usize::from(*at) % (buf.len() - 4);
                buf[at] = *value;
            }
            if let Ok(back) = decoded(&buf) {
                let _ = format!("{back} {back:?}");
            }
        });
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200), name in 0..EXPRS.len()) {
        let known = EXPRS[name](&mut Source { bytes: &[], nested: &[] });
        let unknown = Expr::Unknown { name: known.name(), data: &bytes };
        let buf = encoded(&unknown);
        if let Ok(back) = decoded(&buf) {
            let _ = format!("{back} {back:?}");
        }
        for attr in Attrs::new(&bytes).flatten() {
            let _ = attr.value::<Expr<'_>>("test");
        }
    }
}

#[test]
fn every_expression_is_generated() {
    let count = core::cell::Cell::new(0);
    let unknown = core::cell::Cell::new(0);
    with_exprs(&[1; 64], |expr| {
        count.set(count.get() + 1);
        unknown.set(unknown.get() + usize::from(matches!(expr, Expr::Unknown { .. })));
    });
    assert_eq!((count.get(), unknown.get()), (38, 0));
}

#[test]
fn unknown_expressions_are_kept_raw() {
    let data = [8, 0, 1, 0, 1, 2, 3, 4];
    let name = Str::from("brandnew");
    let expr = Expr::Unknown { name, data: &data };
    let buf = encoded(&expr);
    assert_eq!(decoded(&buf).unwrap(), expr);
    assert_eq!(format!("{expr}"), "[ brandnew (8 bytes) ]");
}

#[test]
fn an_expression_without_a_name_is_an_error() {
    let mut buf = [0; 8];
    let mut cursor = SliceCursor::new(&mut buf);
    let mut nest = cursor.nest(1).unwrap();
    nest.put_attr_bytes(NFTA_EXPR_DATA, &[]).unwrap();
    nest.end().unwrap();
    assert_eq!(decoded(&buf).unwrap_err().kind, DecodeErrorKind::Missing);
}

#[test]
fn an_expression_that_holds_one_cannot_be_inside_another() {
    let counter = Expr::from(Counter::default());
    let dynset = Dynset::new(DynsetOp::ADD, "s", Register::R1);
    let inner = Expr::from(dynset.with_expr(ExprRef::new(&counter)));
    assert_eq!(decoded(&encoded(&inner)), Ok(inner));

    let one = dynset.with_expr(ExprRef::new(&inner));
    let list = core::slice::from_ref(&inner);
    let mut several = dynset;
    several.exprs = Some(NestedExprs::new(list));
    for outer in [one, several] {
        let buf = encoded(&outer.into());
        assert_eq!(decoded(&buf).unwrap_err().kind, DecodeErrorKind::TooDeep);
    }
}
