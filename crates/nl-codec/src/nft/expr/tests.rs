//! Every expression with every subset of its attributes survives the wire; no bytes make decoding
//! or printing panic.

use std::format;
use std::vec::Vec;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::nft::{Data, Register, Value, Verdict, VerdictCode};
use crate::{LenCounter, SliceCursor};

/// Turns random bytes into values; when they run out, into zeroes and absent attributes.
struct Source<'a> {
    bytes: &'a [u8],
    nested: &'a [Expr<'a>],
}

impl<'a> Source<'a> {
    fn byte(&mut self) -> u8 {
        let (byte, rest) = self.bytes.split_first().unwrap_or((&0, &[]));
        self.bytes = rest;
        *byte
    }

    fn slice(&mut self, max: u8) -> &'a [u8] {
        let len = usize::from(self.byte() % (max + 1));
        let (slice, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        slice
    }
}

trait Arb<'a>: Sized {
    fn arb(source: &mut Source<'a>) -> Self;
}

impl<'a, T: Arb<'a>> Arb<'a> for Option<T> {
    fn arb(source: &mut Source<'a>) -> Self {
        (source.byte() & 1 == 1).then(|| T::arb(source))
    }
}

macro_rules! ints {
    ($($int:ty)+) => {$(
        impl<'a> Arb<'a> for $int {
            fn arb(source: &mut Source<'a>) -> Self {
                Self::from_ne_bytes(core::array::from_fn(|_| source.byte()))
            }
        }
    )+};
}
ints!(u8 u16 u32 u64 i32);

macro_rules! enums {
    ($($name:ident)+) => {$(
        impl<'a> Arb<'a> for $name {
            fn arb(source: &mut Source<'a>) -> Self {
                Self(Arb::arb(source))
            }
        }
    )+};
}
enums!(BitwiseOp ByteorderOp CmpOp CsumType CtDirection CtKey DynsetOp ExthdrOp FibResult HashType
    InnerType LimitType LogLevel MetaKey NatType NfProto NumgenType ObjType OsfTtl PayloadBase
    RangeOp Register RejectType RtKey SocketKey TunnelKey TunnelMode VerdictCode XfrmDir XfrmKey);

macro_rules! flags {
    ($($name:ident)+) => {$(
        impl<'a> Arb<'a> for $name {
            fn arb(source: &mut Source<'a>) -> Self {
                Self::from_bits_retain(Arb::arb(source))
            }
        }
    )+};
}
flags!(ConnlimitFlags CsumFlags DynsetFlags ExthdrFlags FibFlags InnerFlags LimitFlags LogFlags
    LookupFlags NatFlags OsfFlags QueueFlags QuotaFlags SynproxyFlags);

impl<'a> Arb<'a> for Str<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        let bytes = source.slice(u8::MAX - 1);
        let end = bytes.iter().position(|byte| *byte == 0);
        Self::new(&bytes[..end.unwrap_or(bytes.len())])
    }
}

impl<'a> Arb<'a> for BareStr<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        Self(Arb::arb(source))
    }
}

impl<'a> Arb<'a> for Data<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        if source.byte() & 1 == 0 {
            return Self::Value(Value::new(source.slice(64)));
        }
        Self::Verdict(Verdict {
            code: Arb::arb(source),
            chain: Arb::arb(source),
            chain_id: Arb::arb(source),
        })
    }
}

impl<'a> Arb<'a> for ExprRef<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        let index = usize::from(source.byte()) % source.nested.len();
        Self::new(&source.nested[index])
    }
}

impl<'a> Arb<'a> for NestedExprs<'a> {
    fn arb(source: &mut Source<'a>) -> Self {
        let index = usize::from(source.byte()) % source.nested.len();
        Self::new(&source.nested[index..])
    }
}

/// The literals name every field: a new one does not compile until it is here.
macro_rules! structs {
    ($( $name:ident $(<$lt:lifetime>)? { $($field:ident)* } )+) => {
        $( impl<'a> Arb<'a> for $name $(<$lt>)? {
            fn arb(source: &mut Source<'a>) -> Self {
                let _ = &source;
                Self { $( $field: Arb::arb(source), )* }
            }
        } )+

        const EXPRS: &[for<'a, 's> fn(&'s mut Source<'a>) -> Expr<'a>] =
            &[$( |source| Expr::$name(Arb::arb(source)), )+];
    };
}

structs! {
    Bitwise<'a> { sreg sreg2 dreg op len mask xor data }
    Byteorder { sreg dreg op len size }
    Cmp<'a> { sreg op data }
    Connlimit { count flags }
    Counter { bytes packets }
    Ct { key dreg direction sreg }
    Dup { sreg_addr sreg_dev }
    Dynset<'a> { sreg_key sreg_data op timeout_ms set set_id expr exprs flags }
    Exthdr { dreg sreg hdr_type offset len op flags }
    Fib { flags result dreg }
    FlowOffload<'a> { table }
    Fwd { sreg_dev sreg_addr nfproto }
    Hash { sreg dreg len modulus seed offset hash_type }
    Immediate<'a> { dreg data }
    Inner<'a> { num inner_type flags hdrsize expr }
    Last { msecs set }
    Limit { rate unit burst limit_type flags }
    Log<'a> { prefix group snaplen qthreshold level flags }
    Lookup<'a> { sreg dreg set set_id flags }
    Masq { flags proto_min proto_max }
    Meta { key dreg sreg }
    Nat { nat_type family addr_min addr_max proto_min proto_max flags }
    Notrack { }
    Numgen { dreg modulus numgen_type offset }
    Objref<'a> { obj_type name sreg set set_id }
    Osf { dreg ttl flags }
    Payload { sreg dreg base offset len csum_type csum_offset csum_flags }
    Queue { num total flags sreg_qnum }
    Quota { bytes consumed flags }
    Range<'a> { sreg op from to }
    Redir { proto_min proto_max flags }
    Reject { reject_type icmp_code }
    Rt { key dreg }
    Socket { key dreg level }
    Synproxy { mss wscale flags }
    Tproxy { family addr port }
    Tunnel { key dreg mode }
    Xfrm { key dir spnum dreg }
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
