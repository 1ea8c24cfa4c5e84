//! The expressions that are asked for, each in a rule that the kernel accepts if it knows them.

use nl_codec::nft::expr::{
    Bitwise, BitwiseOp, Cmp, CmpOp, Counter, Ct, CtKey, Dynset, DynsetOp, Expr, Fib, FibFlags,
    FibResult, Hash, IcmpxCode, Immediate, Lookup, Masq, Meta, MetaKey, Nat, NatFlags, NfProto,
    Numgen, Payload, PayloadBase, Redir, Reject,
};
use nl_codec::nft::{Register, Value};

use crate::SetRef;

/// Base chains of the probe.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    Prerouting,
    Postrouting,
    Forward,
}

impl Place {
    pub(super) fn chain(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Postrouting => "postrouting",
            Self::Forward => "forward",
        }
    }
}

const R: Register = Register::R1;

type Question = (&'static str, Place, Vec<Expr<'static>>);

/// What a Service proxy is made of.
pub(super) fn needed(set: SetRef) -> Vec<Question> {
    let address = || Expr::from(Payload::load(PayloadBase::NETWORK, 16, 4, R));
    let zero = || Expr::from(Immediate::value(R, Value::u32_ne(0)));
    let name = set.name_in_expr(super::SET);
    let mut lookup = Lookup::set(name, R);
    lookup.set_id = set.id();
    let mut dynset = Dynset::new(DynsetOp::UPDATE, name, R);
    dynset.set_id = set.id();
    let all = Value::u32_be(u32::MAX);
    vec![
        ("payload", Place::Forward, vec![address()]),
        ("immediate", Place::Forward, vec![zero()]),
        (
            "cmp",
            Place::Forward,
            vec![address(), Cmp::new(CmpOp::NEQ, R, Value::u32_be(0)).into()],
        ),
        (
            "bitwise",
            Place::Forward,
            vec![
                address(),
                Bitwise::mask_xor(R, R, 4, all, Value::u32_be(0)).into(),
            ],
        ),
        (
            "meta",
            Place::Forward,
            vec![zero(), Meta::set(MetaKey::PRIORITY, R).into()],
        ),
        ("ct", Place::Forward, vec![Ct::load(CtKey::STATE, R).into()]),
        (
            "fib",
            Place::Prerouting,
            vec![Fib::new(FibFlags::DADDR, FibResult::ADDRTYPE, R).into()],
        ),
        ("numgen", Place::Forward, vec![Numgen::random(2, R).into()]),
        (
            "hash",
            Place::Forward,
            vec![address(), Hash::jenkins(R, 4, 2, 1, R).into()],
        ),
        ("lookup", Place::Forward, vec![address(), lookup.into()]),
        ("dynset", Place::Forward, vec![address(), dynset.into()]),
        (
            "nat",
            Place::Prerouting,
            vec![address(), Nat::dnat(NfProto::IPV4, R, None).into()],
        ),
        (
            "masq",
            Place::Postrouting,
            vec![Masq::new(NatFlags::empty()).into()],
        ),
        ("redir", Place::Prerouting, vec![Redir::new(None).into()]),
        (
            "reject",
            Place::Forward,
            vec![Reject::icmpx(IcmpxCode::PORT_UNREACH).into()],
        ),
        ("counter", Place::Forward, vec![Counter::default().into()]),
    ]
}

/// Bitwise operation on two registers.
pub(super) fn optional() -> (Place, Vec<Expr<'static>>) {
    let second = Register::R2;
    let exprs = vec![
        Payload::load(PayloadBase::NETWORK, 12, 4, R).into(),
        Payload::load(PayloadBase::NETWORK, 16, 4, second).into(),
        Bitwise::registers(BitwiseOp::XOR, R, second, R, 4).into(),
    ];
    (Place::Forward, exprs)
}
