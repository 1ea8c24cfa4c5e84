//! Rules built with the constructors encode to the bytes nft sends for them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use nl_codec::nft::expr::*;
use nl_codec::nft::{Exprs, Register, Value, Verdict, VerdictCode};
use nl_codec::{AttrValue, Attrs, Encoder, SliceCursor};
use test_support::golden::{Golden, message_name};

const NFTA_RULE_EXPRESSIONS: u16 = 4;
/// Bytes of nlmsghdr and nfgenmsg.
const HEADERS: usize = 20;

const R0: Register = Register::VERDICT;
const R1: Register = Register::R1;
const R2: Register = Register::R2;

fn meta(key: MetaKey) -> Expr<'static> {
    Meta::load(key, R1).into()
}

fn set_mark() -> Expr<'static> {
    Meta::set(MetaKey::MARK, R1).into()
}

fn ip_saddr(dreg: Register) -> Expr<'static> {
    Payload::load(PayloadBase::NETWORK, 12, 4, dreg).into()
}

fn dport() -> Expr<'static> {
    Payload::load(PayloadBase::TRANSPORT, 2, 2, R1).into()
}

fn tcp() -> [Expr<'static>; 2] {
    [meta(MetaKey::L4PROTO), Cmp::eq(R1, Value::u8(6)).into()]
}

fn value(dreg: Register, value: Value<'static>) -> Expr<'static> {
    Immediate::value(dreg, value).into()
}

fn ip(a: u8, b: u8, c: u8, d: u8) -> Value<'static> {
    Value::inline(&[a, b, c, d]).unwrap()
}

fn verdict(code: VerdictCode) -> Expr<'static> {
    Immediate::verdict(Verdict::code(code)).into()
}

/// Compares with rule number `index` of a golden case.
#[track_caller]
fn check_nth<'a>(file: &str, case: &str, index: usize, exprs: &[Expr<'a>]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let golden = Golden::load(&folder.join(format!("expr-{file}.txt"))).unwrap();
    let messages = &golden.case(case).unwrap().messages;
    let mut rules = messages.iter().filter(|m| message_name(m) == "NEWRULE");
    let message = rules.nth(index).unwrap();
    let attrs = Attrs::new(&message[HEADERS..]).map(Result::unwrap);
    let wanted = attrs.filter(|attr| attr.kind == NFTA_RULE_EXPRESSIONS);
    let wanted = wanted.last().unwrap();

    let mut buf = [0; 4096];
    let mut cursor = SliceCursor::new(&mut buf);
    Exprs::new(exprs).encode(4, &mut cursor).unwrap();
    let received = Exprs::decode(&wanted, "expressions").unwrap();
    let shown = received.iter().map(|expr| expr.unwrap().to_string());
    assert_eq!(
        cursor.written()[4..],
        *wanted.payload,
        "{file}: {case}, nft sends {:#?}",
        shown.collect::<Vec<_>>()
    );
    assert_eq!(cursor.position(), wanted.payload.len() + 4);
}

#[track_caller]
fn check<'a>(file: &str, case: &str, exprs: &[Expr<'a>]) {
    check_nth(file, case, 0, exprs);
}

#[track_caller]
fn check_after_tcp<'a>(file: &str, case: &str, exprs: &[Expr<'a>]) {
    let mut all = tcp().to_vec();
    all.extend_from_slice(exprs);
    check(file, case, &all);
}

#[test]
fn loads_and_sets() {
    check(
        "meta",
        "set",
        &[value(R1, Value::u32_ne(0x4000)), set_mark()],
    );
    let mark = Ct::load(CtKey::MARK, R1);
    check_nth("ct", "mark", 3, &[mark.into(), set_mark()]);
    let zone = Ct::set(CtKey::ZONE, R1);
    let original = zone.direction(CtDirection::ORIGINAL);
    check(
        "ct",
        "set zone",
        &[value(R1, Value::u16_ne(5)), zone.into()],
    );
    check_nth(
        "ct",
        "set zone",
        1,
        &[value(R1, Value::u16_ne(5)), original.into()],
    );
    let nexthop = Rt::load(RtKey::NEXTHOP4, R1);
    check(
        "rt",
        "next hop",
        &[nexthop.into(), Cmp::eq(R1, ip(10, 0, 0, 1)).into()],
    );
    let transparent = Socket::load(SocketKey::TRANSPARENT, R1);
    check(
        "socket",
        "transparent",
        &[transparent.into(), Cmp::eq(R1, Value::u8(1)).into()],
    );
    let local = Fib::new(FibFlags::DADDR, FibResult::ADDRTYPE, R1);
    let is_local = Cmp::eq(R1, Value::u32_ne(AddrType::LOCAL.0));
    check("fib", "address type", &[local.into(), is_local.into()]);
}

#[test]
fn packet_bytes() {
    check(
        "payload",
        "network header",
        &[ip_saddr(R1), Cmp::eq(R1, ip(10, 0, 0, 1)).into()],
    );
    let write = Payload::write(PayloadBase::NETWORK, 16, 4, R1);
    let write = write.with_csum(10, CsumFlags::PSEUDOHDR);
    check(
        "payload",
        "set address",
        &[value(R1, ip(10, 0, 0, 9)), write.into()],
    );
    let write = Payload::write(PayloadBase::TRANSPORT, 2, 2, R1);
    let write = write.with_csum(16, CsumFlags::empty());
    check_after_tcp(
        "payload",
        "set port",
        &[value(R1, Value::u16_be(8080)), write.into()],
    );

    let maxseg = Exthdr::load(ExthdrOp::TCPOPT, 2, 2, 2, R1);
    check(
        "exthdr",
        "tcp option",
        &[maxseg.into(), Cmp::eq(R1, Value::u16_be(1400)).into()],
    );
    let timestamp = Exthdr::present(ExthdrOp::TCPOPT, 8, R1);
    check_nth(
        "exthdr",
        "tcp option",
        1,
        &[timestamp.into(), Cmp::eq(R1, Value::u8(1)).into()],
    );
    let maxseg = Exthdr::write_tcpopt(2, 2, 2, R1);
    check(
        "exthdr",
        "tcp option set",
        &[value(R1, Value::u16_be(1400)), maxseg.into()],
    );
    check(
        "exthdr",
        "tcp option reset",
        &[Exthdr::reset_tcpopt(4).into()],
    );
}

#[test]
fn comparisons_and_arithmetic() {
    for (index, op) in [
        CmpOp::EQ,
        CmpOp::NEQ,
        CmpOp::LT,
        CmpOp::LTE,
        CmpOp::GT,
        CmpOp::GTE,
    ]
    .into_iter()
    .enumerate()
    {
        let [proto, is_tcp] = tcp();
        let cmp = Cmp::new(op, R1, Value::u16_be(80));
        check_nth(
            "cmp",
            "every operator",
            index,
            &[proto, is_tcp, dport(), cmp.into()],
        );
    }
    let outside = Range::new(
        RangeOp::NEQ,
        R1,
        Value::u16_be(30_000),
        Value::u16_be(32_767),
    );
    check_after_tcp("range", "outside", &[dport(), outside.into()]);

    let (zero, mark) = (Value::u32_ne(0), meta(MetaKey::MARK));
    let and = Bitwise::mask_xor(R1, R1, 4, Value::u32_ne(0xff), zero);
    check(
        "bitwise",
        "and",
        &[mark, and.into(), Cmp::eq(R1, Value::u32_ne(1)).into()],
    );
    let left = Bitwise::lshift(R1, R1, 4, 8);
    check("bitwise", "shift left", &[mark, left.into(), set_mark()]);
    let right = Bitwise::rshift(R1, R1, 4, 8);
    check("bitwise", "shift right", &[mark, right.into(), set_mark()]);
    let ct_mark = Ct::load(CtKey::MARK, R1);
    let and = Bitwise::registers(BitwiseOp::AND, R1, R2, R1, 4);
    let mark2 = Meta::load(MetaKey::MARK, R2);
    check(
        "bitwise",
        "two registers and",
        &[ct_mark.into(), mark2.into(), and.into(), set_mark()],
    );

    let zone = Ct::load(CtKey::ZONE, R1);
    let hton = Byteorder::new(ByteorderOp::HTON, R1, R1, 2, 2);
    let from = Cmp::new(CmpOp::GTE, R1, Value::u16_be(1));
    let to = Cmp::new(CmpOp::LTE, R1, Value::u16_be(5));
    check(
        "byteorder",
        "two bytes",
        &[zone.into(), hton.into(), from.into(), to.into()],
    );

    check(
        "numgen",
        "in turn",
        &[Numgen::inc(2, R1).into(), set_mark()],
    );
    check(
        "numgen",
        "at random",
        &[Numgen::random(10, R1).into(), set_mark()],
    );
    let offset = Numgen::inc(10, R1).with_offset(1000);
    check("numgen", "offset", &[offset.into(), set_mark()]);
    let jhash = Hash::jenkins(R2, 4, 16, 0xdead_beef, R1);
    check("hash", "seed", &[ip_saddr(R2), jhash.into(), set_mark()]);
    check(
        "hash",
        "symhash",
        &[Hash::symmetric(16, R1).into(), set_mark()],
    );
    let offset = Hash::symmetric(16, R1).with_offset(100);
    check("hash", "symhash offset", &[offset.into(), set_mark()]);
}

#[test]
fn verdicts() {
    for (index, expr) in [
        verdict(VerdictCode::ACCEPT),
        verdict(VerdictCode::DROP),
        verdict(VerdictCode::RETURN),
        verdict(VerdictCode::CONTINUE),
        Immediate::verdict(Verdict::jump("d")).into(),
        Immediate::verdict(Verdict::goto("d")).into(),
    ]
    .into_iter()
    .enumerate()
    {
        check_nth("immediate", "verdicts", index, &[expr]);
    }
    check("notrack", "plain", &[Notrack.into()]);
    check("reject", "icmp types", &[Reject::icmp(1).into()]);
    check(
        "reject",
        "icmpx",
        &[Reject::icmpx(IcmpxCode::PORT_UNREACH).into()],
    );
    check_after_tcp("reject", "tcp reset", &[Reject::tcp_reset().into()]);
    check(
        "queue",
        "number",
        &[Queue::new(1, 1, QueueFlags::empty()).into()],
    );
    check(
        "queue",
        "range and flags",
        &[Queue::new(1, 3, QueueFlags::BYPASS | QueueFlags::CPU_FANOUT).into()],
    );
    check("flow", "add", &[FlowOffload::new("f").into()]);
}

#[test]
fn translation() {
    let to = value(R1, ip(10, 0, 0, 1));
    check(
        "nat",
        "dnat address",
        &[to, Nat::dnat(NfProto::IPV4, R1, None).into()],
    );
    check(
        "nat",
        "snat address",
        &[to, Nat::snat(NfProto::IPV4, R1, None).into()],
    );
    let random = Nat::dnat(NfProto::IPV4, R1, None).with_flags(NatFlags::PROTO_RANDOM);
    check("nat", "dnat flags", &[to, random.into()]);
    let both = Nat::dnat(NfProto::IPV4, R1, Some(R2)).with_flags(NatFlags::PROTO_SPECIFIED);
    let port = value(R2, Value::u16_be(80));
    check_after_tcp("nat", "dnat address and port", &[to, port, both.into()]);
    check("masq", "plain", &[Masq::new(NatFlags::empty()).into()]);
    check_nth(
        "masq",
        "flags",
        1,
        &[Masq::new(NatFlags::PROTO_RANDOM_FULLY).into()],
    );
    check("redir", "plain", &[Redir::new(None).into()]);
    let mut redir = Redir::new(Some(R1));
    redir.flags = Some(NatFlags::PROTO_SPECIFIED);
    check_after_tcp(
        "redir",
        "port",
        &[value(R1, Value::u16_be(8080)), redir.into()],
    );
    let tproxy = Tproxy::new(NfProto::IPV4, None, Some(R1));
    check_after_tcp(
        "tproxy",
        "port",
        &[value(R1, Value::u16_be(50_080)), tproxy.into()],
    );
}

#[test]
fn sets_and_objects() {
    check(
        "lookup",
        "in a set",
        &[ip_saddr(R1), Lookup::set("s", R1).with_id(1).into()],
    );
    let not = Lookup::set("s", R1).with_id(1).inverted();
    check("lookup", "not in a set", &[ip_saddr(R1), not.into()]);
    let daddr = Expr::from(Payload::load(PayloadBase::NETWORK, 16, 4, R1));
    check(
        "lookup",
        "verdict map",
        &[daddr, Lookup::map("v", R1, R0).with_id(2).into()],
    );
    check(
        "lookup",
        "data map",
        &[
            daddr,
            Lookup::map("m", R1, R1).with_id(3).into(),
            set_mark(),
        ],
    );

    let add = Dynset::new(DynsetOp::ADD, "s", R1).with_id(1);
    check("dynset", "add", &[ip_saddr(R1), add.into()]);
    let update = Dynset::new(DynsetOp::UPDATE, "s", R1).with_id(1);
    let update = update.with_timeout_ms(3 * 3600 * 1000);
    check("dynset", "timeout", &[ip_saddr(R1), update.into()]);
    let counter = Expr::from(Counter::default());
    let counted = add.with_expr(ExprRef::new(&counter));
    check("dynset", "counter", &[ip_saddr(R1), counted.into()]);
    let two = [counter, Limit::packets(10, 1, 5).into()];
    let limited = add.with_exprs(NestedExprs::new(&two));
    check("dynset", "two expressions", &[ip_saddr(R1), limited.into()]);

    check(
        "objref",
        "counter",
        &[Objref::named(ObjType::COUNTER, "o").into()],
    );
    check(
        "objref",
        "map",
        &[ip_saddr(R1), Objref::map("m", R1).with_id(1).into()],
    );
}

#[test]
fn state_and_logs() {
    check("counter", "zero", &[Counter::default().into()]);
    check("limit", "packets", &[Limit::packets(10, 1, 5).into()]);
    check(
        "limit",
        "over",
        &[Limit::packets(10, 60, 5).inverted().into()],
    );
    check("limit", "bytes", &[Limit::bytes(1024, 1, 0).into()]);
    check("quota", "until", &[Quota::until(10 << 20).into()]);
    check("quota", "over", &[Quota::over(1000).into()]);
    check("connlimit", "until", &[Connlimit::until(5).into()]);
    check("connlimit", "over", &[Connlimit::over(5).into()]);
    check("log", "prefix", &[Log::prefix("kproxy: ").into()]);
    let mut group = Log::group(2);
    group.prefix = Some("x".into());
    group.snaplen = Some(100);
    group.qthreshold = Some(5);
    check("log", "group", &[group.into()]);
}

#[test]
fn the_rest() {
    let os = Osf::load(OsfTtl::TRUE, OsfFlags::empty(), R1);
    let linux = Cmp::eq(R1, Value::new(b"Linux\0\0\0\0\0\0\0\0\0\0\0"));
    check("osf", "name", &[os.into(), linux.into()]);
    let reqid = Xfrm::load(XfrmKey::REQID, XfrmDir::IN, 0, R1);
    check(
        "xfrm",
        "in",
        &[reqid.into(), Cmp::eq(R1, Value::u32_ne(1)).into()],
    );
    let (addr, lo) = (value(R1, ip(10, 0, 0, 1)), value(R2, Value::u32_ne(1)));
    check(
        "dup",
        "through a device",
        &[addr, lo, Dup::new(Some(R1), Some(R2)).into()],
    );
    let (lo, addr) = (value(R1, Value::u32_ne(1)), value(R2, ip(10, 0, 0, 1)));
    let fwd = Fwd::new(R1).via(NfProto::IPV4, R2);
    check("fwd", "address", &[lo, addr, fwd.into()]);
    let flags = SynproxyFlags::MSS | SynproxyFlags::WSCALE;
    let flags = flags | SynproxyFlags::SACK_PERM | SynproxyFlags::TIMESTAMP;
    check(
        "synproxy",
        "options",
        &[Synproxy::new(1460, 7, flags).into()],
    );
    check("last", "plain", &[Last::never().into()]);

    let protocol = meta(MetaKey::PROTOCOL);
    let source = ip_saddr(R1);
    let udp = Cmp::eq(R1, Value::u8(17));
    check(
        "tunnel",
        "vxlan",
        &[
            meta(MetaKey::L4PROTO),
            udp.into(),
            dport(),
            Cmp::eq(R1, Value::u16_be(4789)).into(),
            Inner::vxlan(ExprRef::new(&protocol)).into(),
            Cmp::eq(R1, Value::u16_be(0x0800)).into(),
            Inner::vxlan(ExprRef::new(&source)).into(),
            Cmp::eq(R1, ip(10, 0, 0, 1)).into(),
        ],
    );
}
