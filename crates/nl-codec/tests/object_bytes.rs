//! Rules, stateful objects, flowtables and requests encode to the bytes nft sends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nl_codec::HostU32;
use nl_codec::msg::{Family, Flags, NftMsg};
use nl_codec::nft::chain::{Chain, Device, Devices};
use nl_codec::nft::expr::*;
use nl_codec::nft::flowtable::{Flowtable, FlowtableFlags, FlowtableHook};
use nl_codec::nft::obj::{CtExpect, CtHelper, CtTimeout, Obj, Secmark, Timeout};
use nl_codec::nft::{
    Elem, ElemList, Elems, Exprs, Generation, List, Register, Rule, Set, Table, Udata, Value,
    Verdict, VerdictCode,
};

use typed::{ADD, check, make, message, message_of};

mod typed;

const NONE: Flags = Flags::empty();
const ACCEPT: VerdictCode = VerdictCode::ACCEPT;
const DROP: VerdictCode = VerdictCode::DROP;

fn verdict(code: VerdictCode) -> [Expr<'static>; 1] {
    [Immediate::verdict(Verdict::code(code)).into()]
}

#[test]
fn rules() {
    let (accept, drop) = (verdict(ACCEPT), verdict(DROP));
    let rule = Rule::new("t", "c", Exprs::new(&accept));
    let append = ADD | Flags::APPEND;
    let add = |flags, rule: &Rule<'_>| message(NftMsg::NEW_RULE, flags, rule);
    check("rule", "append", &[add(append, &rule)]);
    check("rule", "prepend", &[add(ADD, &rule)]);
    let comment = Udata::with_comment("default/web:http").unwrap();
    let mut commented = rule;
    commented.userdata = Some(comment.as_bytes());
    check("rule", "comment", &[add(append, &commented)]);

    let mut beside = Rule::new("t", "c", Exprs::new(&drop));
    beside.position = Some(2);
    check("rule", "after a handle", &[add(append, &beside)]);
    check("rule", "before a handle", &[add(ADD, &beside)]);
    check("rule", "by index", &[add(ADD, &beside)]);
    let comment = Udata::with_comment("x").unwrap();
    beside.userdata = Some(comment.as_bytes());
    check("rule", "comment after a handle", &[add(append, &beside)]);
    let (mut first, mut second) = (rule, Rule::new("t", "c", Exprs::new(&drop)));
    first.id = Some(1);
    second.position_id = Some(1);
    second.userdata = Some(comment.as_bytes());
    let both = [add(append, &first), add(append, &second)];
    check("rule", "after a rule of the same batch", &both);

    let mut replaced = Rule::new("t", "c", Exprs::new(&drop));
    replaced.handle = Some(2);
    check("rule", "replace", &[add(Flags::REPLACE, &replaced)]);
    let handle = Rule::at("t", "c", Some(2));
    check(
        "rule",
        "delete",
        &[message(NftMsg::DEL_RULE, NONE, &handle)],
    );
    check(
        "rule",
        "destroy",
        &[message(NftMsg::DESTROY_RULE, NONE, &handle)],
    );

    let http = [
        Meta::load(MetaKey::L4PROTO, Register::R1).into(),
        Cmp::eq(Register::R1, Value::u8(6)).into(),
        Payload::load(PayloadBase::TRANSPORT, 2, 2, Register::R1).into(),
        Cmp::eq(Register::R1, Value::u16_be(80)).into(),
        accept[0],
    ];
    let counted = [Counter::default().into(), drop[0]];
    let back = verdict(VerdictCode::RETURN);
    let several = [
        add(append, &Rule::new("t", "c", Exprs::new(&http))),
        add(append, &Rule::new("t", "c", Exprs::new(&counted))),
        add(ADD, &Rule::new("t", "c", Exprs::new(&back))),
    ];
    check("rule", "several in one batch", &several);
}

fn counter(packets: u64, bytes: u64) -> Obj<'static> {
    Obj::new(
        "t",
        "o",
        make!(Counter {
            packets: packets,
            bytes: bytes
        }),
    )
}

fn quota(bytes: u64, consumed: u64, flags: QuotaFlags) -> Obj<'static> {
    Obj::new(
        "t",
        "o",
        make!(Quota {
            bytes: bytes,
            consumed: consumed,
            flags: flags
        }),
    )
}

#[test]
fn counters_quotas_and_limits() {
    let check_new =
        |case, obj: &Obj<'_>| check("object", case, &[message(NftMsg::NEW_OBJ, ADD, obj)]);
    check_new("counter", &counter(0, 0));
    check_new("counter with values", &counter(3, 180));
    let comment = Udata::with_comment("hits").unwrap();
    let mut commented = counter(0, 0);
    commented.userdata = Some(comment.as_bytes());
    check_new("counter with comment", &commented);
    let created = message(NftMsg::NEW_OBJ, ADD | Flags::EXCL, &counter(0, 0));
    check("object", "create", &[created]);
    check_new("quota", &quota(10 << 20, 0, QuotaFlags::INVERT));
    check_new("quota used", &quota(10 << 20, 1 << 20, QuotaFlags::empty()));
    check_new(
        "limit packets",
        &Obj::new("t", "o", Limit::packets(400, 3_600, 5)),
    );
    let over = Limit::bytes(1_024, 1, 512).inverted();
    check_new("limit bytes over", &Obj::new("t", "o", over));
    let flags = SynproxyFlags::MSS
        | SynproxyFlags::WSCALE
        | SynproxyFlags::SACK_PERM
        | SynproxyFlags::TIMESTAMP;
    let synproxy = make!(Synproxy {
        mss: 1_460,
        wscale: 7,
        flags: flags
    });
    check_new("synproxy", &Obj::new("t", "o", synproxy));
}

#[test]
fn conntrack_objects() {
    let check_new =
        |case, obj: &Obj<'_>| check("object", case, &[message(NftMsg::NEW_OBJ, ADD, obj)]);
    /// `NFPROTO_IPV4`.
    const L3: u16 = 2;
    let helper = make!(CtHelper {
        name: "ftp".into(),
        l3proto: L3,
        l4proto: 6
    });
    check_new("ct helper", &Obj::new("t", "o", helper));
    let seconds = |list: &[u32]| -> Vec<Timeout> {
        let states = (1..).zip(list);
        states
            .map(|(state, seconds)| Timeout {
                state,
                seconds: *seconds,
            })
            .collect()
    };
    let tcp = seconds(&[120, 60, 120, 120, 60, 30, 120, 20, 120, 300, 300]);
    let tcp = make!(CtTimeout {
        l3proto: L3,
        l4proto: 6,
        timeouts: List::new(&tcp)
    });
    check_new("ct timeout", &Obj::new("t", "o", tcp));
    let udp = seconds(&[10, 60]);
    let udp = make!(CtTimeout {
        l3proto: L3,
        l4proto: 17,
        timeouts: List::new(&udp)
    });
    check_new("ct timeout udp", &Obj::new("t", "o", udp));
    let expect = make!(CtExpect {
        l3proto: L3,
        l4proto: 6,
        dport: 9_876,
        timeout: HostU32(120_000),
        size: 12
    });
    check_new("ct expectation", &Obj::new("t", "o", expect));
    let secmark = make!(Secmark {
        context: "system_u:object_r:ssh_server_packet_t:s0".into()
    });
    check_new("secmark", &Obj::new("t", "o", secmark));
}

#[test]
fn objects_are_deleted() {
    // libnftnl adds the data, empty, which the kernel does not look at.
    let del = |obj: &Obj<'_>| message(NftMsg::DEL_OBJ, NONE, obj);
    let counter = Obj::new("t", "o", Counter::default());
    check("object", "delete by name", &[del(&counter)]);
    let quota = Obj::new("t", "q", Quota::default());
    let limit = Obj::new("t", "l", Limit::default());
    check("object", "delete every kind", &[del(&quota), del(&limit)]);
    let destroyed = message(NftMsg::DESTROY_OBJ, NONE, &counter);
    check("object", "destroy", &[destroyed]);
    let mut handle = Obj::new("t", "o", Counter::default());
    handle.name = None;
    handle.handle = Some(1);
    check("object", "delete by handle", &[del(&handle)]);
}

#[test]
fn flowtables() {
    let add = |priority, devices: &[Device<'_>], flags| {
        let hook = make!(FlowtableHook {
            hook: 0,
            priority: priority,
            devices: Devices::new(devices)
        });
        let mut table = Flowtable::named("t", "f");
        table.hook = Some(hook);
        table.flags = Some(flags);
        message_of(Family::INET, NftMsg::NEW_FLOWTABLE, ADD, &table)
    };
    let (lo, both) = (["lo".into()], ["eth9".into(), "lo".into()]);
    check("flowtable", "add", &[add(0, &lo, FlowtableFlags::empty())]);
    check(
        "flowtable",
        "devices and counter",
        &[add(10, &both, FlowtableFlags::COUNTER)],
    );
    check(
        "flowtable",
        "offload",
        &[add(0, &lo, FlowtableFlags::HW_OFFLOAD)],
    );
    for (case, kind) in [
        ("delete", NftMsg::DEL_FLOWTABLE),
        ("destroy", NftMsg::DESTROY_FLOWTABLE),
    ] {
        let named = Flowtable::named("t", "f");
        check(
            "flowtable",
            case,
            &[message_of(Family::INET, kind, NONE, &named)],
        );
    }
}

#[test]
fn requests() {
    let dump = |kind, family| message_of(family, kind, Flags::DUMP, &Table::default());
    let generation = message_of(
        Family::UNSPEC,
        NftMsg::GET_GEN,
        NONE,
        &Generation::default(),
    );
    check("get", "generation", &[generation.clone(), generation]);
    check("get", "tables", &[dump(NftMsg::GET_TABLE, Family::UNSPEC)]);
    check("get", "chains", &[dump(NftMsg::GET_CHAIN, Family::UNSPEC)]);
    check(
        "get",
        "flowtables",
        &[dump(NftMsg::GET_FLOWTABLE, Family::UNSPEC)],
    );

    let one_chain = message(NftMsg::GET_CHAIN, Flags::ACK, &Chain::named("t", "c"));
    let its_rules = message(NftMsg::GET_RULE, Flags::DUMP, &Rule::at("t", "c", None));
    check("get", "one chain", &[one_chain, its_rules]);
    let one_set = message(NftMsg::GET_SET, Flags::ACK, &Set::named("t", "s"));
    let elements = |set| message(NftMsg::GET_SETELEM, Flags::DUMP, &ElemList::named("t", set));
    check("get", "one set", &[one_set, elements("s")]);
    let keys = [Elem::new(Value::inline(&[10, 0, 0, 1]).unwrap())];
    for (case, set) in [("element", "s"), ("map element", "m")] {
        let mut wanted = ElemList::named("t", set);
        wanted.elems = Some(Elems::new(&keys));
        let wanted = message(NftMsg::GET_SETELEM, Flags::ACK, &wanted);
        check("get", case, &[elements("s"), elements("m"), wanted]);
    }
    let reset = message(
        NftMsg::GET_SETELEM_RESET,
        Flags::DUMP,
        &ElemList::named("t", "s"),
    );
    check("get", "reset elements", &[reset]);
}
