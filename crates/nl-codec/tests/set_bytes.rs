//! Sets, maps and their elements encode to the bytes nft sends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nl_codec::msg::{Family, Flags, NftMsg};
use nl_codec::nft::dtype::DataType;
use nl_codec::nft::elem::{Elem, ElemFlags, ElemList, Elems};
use nl_codec::nft::expr::{Counter, Expr, ExprRef, Limit, ObjType};
use nl_codec::nft::set::{Set, SetDesc, SetField, SetFlags, SetPolicy};
use nl_codec::nft::udata::{SetUdata, Udata};
use nl_codec::nft::{Data, Exprs, List, Value, Verdict, VerdictCode};

use typed::{ADD, check, make, message, message_of};

mod typed;

const NONE: Flags = Flags::empty();
/// What nft 1.0.6 says in `KEY_TYPEOF` about a concatenation declared by `type`: expression type 13,
/// no data.
const CONCAT: &[u8] = &[0, 4, 13, 0, 0, 0, 1, 0];
const HOST: u32 = 1;
const NETWORK: u32 = 2;

const TUPLE: [DataType; 3] = [
    DataType::IPV4_ADDR,
    DataType::INET_PROTO,
    DataType::INET_SERVICE,
];

/// Set userdata: numbers in host order, and `KEY_TYPEOF` in its place when the key is concatenated.
fn userdata(key: DataType, entries: &[(SetUdata, u32)]) -> Udata {
    let mut out = Udata::new();
    let mut concat = key.is_concat().then_some(CONCAT);
    for (kind, value) in entries {
        if ![SetUdata::KEY_BYTE_ORDER, SetUdata::DATA_BYTE_ORDER].contains(kind)
            && let Some(concat) = concat.take()
        {
            out.push(SetUdata::KEY_TYPEOF.0, concat).unwrap();
        }
        out.push_int(kind.0, *value).unwrap();
    }
    if let Some(concat) = concat {
        out.push(SetUdata::KEY_TYPEOF.0, concat).unwrap();
    }
    out
}

/// Userdata of a set: byte order of the key.
fn of_set(key: DataType) -> Udata {
    userdata(key, &[(SetUdata::KEY_BYTE_ORDER, key.byte_order().0)])
}

/// Userdata of a map.
fn of_map(key: DataType, data_order: Option<u32>, interval: bool) -> Udata {
    let mut entries = vec![(SetUdata::KEY_BYTE_ORDER, key.byte_order().0)];
    entries.extend(data_order.map(|order| (SetUdata::DATA_BYTE_ORDER, order)));
    entries.push((SetUdata::DATA_INTERVAL, u32::from(interval)));
    userdata(key, &entries)
}

fn set<'a>(name: &'a str, key: DataType, flags: SetFlags, userdata: &'a Udata) -> Set<'a> {
    let mut set = Set::named("t", name);
    set.flags = Some(flags);
    set.key_type = Some(key);
    set.key_len = key.key_len();
    set.id = Some(1);
    set.userdata = Some(userdata.as_bytes());
    set
}

fn sized<'a>(mut set: Set<'a>, size: u32) -> Set<'a> {
    set.desc = Some(make!(SetDesc { size: size }));
    set
}

#[track_caller]
fn check_new(case: &str, set: &Set<'_>) {
    check("set", case, &[message(NftMsg::NEW_SET, ADD, set)]);
}

#[test]
fn key_types() {
    let v4 = DataType::IPV4_ADDR;
    let tuple = DataType::concat(&TUPLE).unwrap();
    for (case, key) in [
        ("one type", v4),
        ("host-endian key", DataType::MARK),
        ("concatenation", tuple),
    ] {
        check_new(case, &set("s", key, SetFlags::empty(), &of_set(key)));
    }
    let v6 = DataType::concat(&[DataType::IPV6_ADDR, TUPLE[1], TUPLE[2]]).unwrap();
    let userdata = of_set(v6);
    let set6 = set("s", v6, SetFlags::empty(), &userdata);
    let added = message_of(Family::IPV6, NftMsg::NEW_SET, ADD, &set6);
    check("set", "ip6 concatenation", &[added]);
    let userdata = of_set(v4);
    let created = message(
        NftMsg::NEW_SET,
        ADD | Flags::EXCL,
        &set("s", v4, SetFlags::empty(), &userdata),
    );
    check("set", "create", &[created]);
}

#[test]
fn flags_sizes_and_times() {
    let v4 = DataType::IPV4_ADDR;
    let userdata_v4 = of_set(v4);
    let plain = |flags| set("s", v4, flags, &userdata_v4);
    check_new("interval", &plain(SetFlags::INTERVAL));
    check_new("timeout flag alone", &plain(SetFlags::TIMEOUT));
    check_new("size", &sized(plain(SetFlags::empty()), 65_535));
    let mut timed = plain(SetFlags::TIMEOUT);
    timed.timeout = Some(3 * 3_600 * 1_000);
    timed.gc_interval = Some(30_000);
    check_new("timeout and gc-interval", &timed);
    let order = (SetUdata::KEY_BYTE_ORDER, NETWORK);
    let merging = userdata(v4, &[order, (SetUdata::MERGE_ELEMENTS, 1)]);
    check_new("auto-merge", &set("s", v4, SetFlags::INTERVAL, &merging));
    let mut commented = userdata(v4, &[order]);
    commented
        .push_string(SetUdata::COMMENT.0, "hairpin connections")
        .unwrap();
    check_new("comment", &set("s", v4, SetFlags::empty(), &commented));

    let both = DataType::concat(&[DataType::MARK, v4]).unwrap();
    let fields = [SetField::new(4), SetField::new(4)];
    let userdata_both = of_set(both);
    let mut ranges = set(
        "s",
        both,
        SetFlags::INTERVAL | SetFlags::CONCAT,
        &userdata_both,
    );
    ranges.desc = Some(make!(SetDesc {
        concat: List::new(&fields)
    }));
    check_new("interval concatenation", &ranges);

    // Performance is the default and not said.
    let performance = message(
        NftMsg::NEW_SET,
        ADD,
        &set("p", v4, SetFlags::empty(), &userdata_v4),
    );
    let mut memory = set("m", v4, SetFlags::empty(), &userdata_v4);
    memory.id = Some(2);
    memory.policy = Some(SetPolicy::MEMORY);
    check(
        "set",
        "policies",
        &[performance, message(NftMsg::NEW_SET, ADD, &memory)],
    );
}

#[test]
fn expressions_of_sets() {
    let v4 = DataType::IPV4_ADDR;
    let userdata = of_set(v4);
    let dynamic = |flags| sized(set("s", v4, SetFlags::EVAL | flags, &userdata), 1_000);
    let (counter, limit) = (Counter::default().into(), Limit::packets(10, 1, 5).into());
    let mut counted = dynamic(SetFlags::TIMEOUT);
    counted.timeout = Some(60_000);
    counted.expr = Some(ExprRef::new(&counter));
    check_new("dynamic with counter", &counted);
    let mut limited = dynamic(SetFlags::empty());
    limited.expr = Some(ExprRef::new(&limit));
    check_new("dynamic with limit", &limited);
    let both = [counter, limit];
    let mut two = dynamic(SetFlags::EXPR);
    two.exprs = Some(Exprs::new(&both));
    check_new("two expressions", &two);
}

fn map<'a>(key: DataType, data: DataType, flags: SetFlags, userdata: &'a Udata) -> Set<'a> {
    let mut map = set("m", key, SetFlags::MAP | flags, userdata);
    map.data_type = Some(data);
    map.data_len = if data == DataType::VERDICT_MAP {
        Some(0)
    } else {
        data.key_len()
    };
    map
}

#[test]
fn maps() {
    let tuple = DataType::concat(&TUPLE).unwrap();
    let (v4, port) = (DataType::IPV4_ADDR, DataType::INET_SERVICE);
    let endpoint = DataType::concat(&[v4, port]).unwrap();
    let host = of_map(tuple, Some(HOST), false);
    let to_mark = map(tuple, DataType::MARK, SetFlags::empty(), &host);
    check_new("data map to a host-endian value", &sized(to_mark, 65_536));
    // A concatenated datum has a typeof of its own.
    let mut concat = Udata::new();
    concat.push_int(SetUdata::KEY_BYTE_ORDER.0, 0).unwrap();
    concat.push_int(SetUdata::DATA_BYTE_ORDER.0, 0).unwrap();
    concat.push(SetUdata::KEY_TYPEOF.0, CONCAT).unwrap();
    concat.push(SetUdata::DATA_TYPEOF.0, CONCAT).unwrap();
    concat.push_int(SetUdata::DATA_INTERVAL.0, 0).unwrap();
    check_new(
        "data map",
        &map(tuple, endpoint, SetFlags::empty(), &concat),
    );
    let mut verdicts = of_map(tuple, Some(0), false);
    verdicts
        .push_string(SetUdata::COMMENT.0, "service-ips")
        .unwrap();
    check_new(
        "verdict map",
        &map(tuple, DataType::VERDICT_MAP, SetFlags::empty(), &verdicts),
    );
    let verdicts = of_map(port, Some(0), false);
    let ranges = map(port, DataType::VERDICT_MAP, SetFlags::INTERVAL, &verdicts);
    check_new("interval verdict map", &ranges);
    let ranges = of_map(v4, Some(NETWORK), true);
    let mut to_range = map(v4, v4, SetFlags::INTERVAL, &ranges);
    to_range.data_len = Some(8);
    check_new("map with interval data", &to_range);
    let pair = DataType::concat(&[v4, v4]).unwrap();
    let host = of_map(pair, Some(HOST), false);
    let affinity = map(
        pair,
        DataType::MARK,
        SetFlags::EVAL | SetFlags::TIMEOUT,
        &host,
    );
    check_new("timeout map", &sized(affinity, 100_000));

    let objects = of_map(v4, None, false);
    for (case, kind) in [
        ("counter map", ObjType::COUNTER),
        ("quota map", ObjType::QUOTA),
        ("limit map", ObjType::LIMIT),
    ] {
        let mut map = set("m", v4, SetFlags::OBJECT, &objects);
        map.obj_type = Some(kind);
        check_new(case, &map);
    }
}

#[test]
fn sets_are_deleted() {
    let named = Set::named("t", "s");
    check(
        "set",
        "delete by name",
        &[message(NftMsg::DEL_SET, NONE, &named)],
    );
    check(
        "set",
        "destroy",
        &[message(NftMsg::DESTROY_SET, NONE, &named)],
    );
    let handle = make!(Set {
        table: "t".into(),
        handle: 1
    });
    check(
        "set",
        "delete by handle",
        &[message(NftMsg::DEL_SET, NONE, &handle)],
    );
    let flush = ElemList::named("t", "s");
    check(
        "set",
        "flush",
        &[message(NftMsg::DEL_SETELEM, NONE, &flush)],
    );
}

fn key(bytes: &[u8]) -> Elem<'static> {
    Elem::new(Value::inline(bytes).unwrap())
}

/// Host `last` of 10.0.0.0/24.
fn host(last: u8) -> Elem<'static> {
    key(&[10, 0, 0, last])
}

fn end(bytes: &[u8]) -> Elem<'static> {
    let mut end = key(bytes);
    end.flags = Some(ElemFlags::INTERVAL_END);
    end
}

fn mapped<'a>(mut elem: Elem<'a>, data: Data<'a>) -> Elem<'a> {
    elem.data = Some(data);
    elem
}

fn verdict(code: VerdictCode) -> Data<'static> {
    Data::Verdict(Verdict::code(code))
}

fn value(bytes: &[u8]) -> Data<'static> {
    Data::Value(Value::inline(bytes).unwrap())
}

/// nft adds with the set's name and the id it gave the set in its head; both are sent.
#[track_caller]
fn check_elems(case: &str, elems: &[Elem<'_>]) {
    check_elems_with(case, NftMsg::NEW_SETELEM, ADD, Some(1), elems);
}

#[track_caller]
fn check_elems_with(case: &str, kind: NftMsg, flags: Flags, id: Option<u32>, elems: &[Elem<'_>]) {
    let mut list = ElemList::named("t", "s");
    list.set_id = id;
    list.elems = Some(Elems::new(elems));
    check("element", case, &[message(kind, flags, &list)]);
}

#[test]
fn keys() {
    check_elems("one", &[host(1)]);
    check_elems("several", &[host(1), host(2), host(3)]);
    check_elems_with(
        "create",
        NftMsg::NEW_SETELEM,
        ADD | Flags::EXCL,
        Some(1),
        &[host(1)],
    );
    check_elems(
        "concatenation",
        &[key(&[10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0])],
    );
    let mut all = Elem::default();
    all.flags = Some(ElemFlags::CATCHALL);
    check_elems("catch-all", &[all]);
    check_elems(
        "catch-all of a map",
        &[mapped(all, verdict(VerdictCode::DROP))],
    );
}

#[test]
fn intervals() {
    let zero = end(&[0; 4]);
    let two = [
        zero,
        key(&[10, 0, 0, 0]),
        end(&[11, 0, 0, 0]),
        key(&[192, 168, 0, 1]),
        end(&[192, 168, 0, 10]),
    ];
    check_elems("interval", &two);
    // Nothing ends an interval at the top of the key space; nft marks it in the userdata.
    let mut top = key(&[255, 0, 0, 0]);
    top.userdata = Some(&[1, 4, 1, 0, 0, 0]);
    check_elems("interval to the end", &[zero, top]);
    let comment = Udata::with_comment("pods").unwrap();
    let mut pods = key(&[10, 0, 0, 0]);
    pods.userdata = Some(comment.as_bytes());
    check_elems("interval with comment", &[zero, pods, end(&[11, 0, 0, 0])]);
    let range = |mark: u32, from: [u8; 4], to: [u8; 4]| {
        // Inside an interval set even a host-endian field is in network order, to be comparable.
        let bytes = |addr: [u8; 4]| [mark.to_be_bytes(), addr].concat();
        let mut range = key(&bytes(from));
        range.key_end = Some(value(&bytes(to)));
        range
    };
    let ranges = [
        range(1, [10, 0, 0, 0], [10, 255, 255, 255]),
        range(2, [10, 0, 0, 1], [10, 0, 0, 9]),
    ];
    check_elems("interval concatenation", &ranges);
}

#[test]
fn data() {
    let endpoint = value(&[10, 1, 0, 1, 31, 144]);
    // The key's and the datum's last part are padded to 4 bytes.
    let padded = value(&[10, 1, 0, 1, 31, 144, 0, 0]);
    assert_ne!(endpoint, padded);
    let service = key(&[10, 0, 0, 1, 6, 0, 0, 0, 0, 80, 0, 0]);
    check_elems("map data", &[mapped(service, padded)]);
    let mark = |mark| Data::Value(Value::u32_ne(mark));
    check_elems(
        "map data, host-endian",
        &[mapped(host(1), mark(0x0010_0001))],
    );
    let comment = Udata::with_comment("x").unwrap();
    let mut commented = mapped(host(1), mark(1));
    commented.userdata = Some(comment.as_bytes());
    check_elems("map data with comment", &[commented]);
    let verdicts = [
        mapped(host(1), Data::Verdict(Verdict::goto("d"))),
        mapped(host(2), Data::Verdict(Verdict::jump("d"))),
        mapped(host(3), verdict(VerdictCode::DROP)),
        mapped(host(4), verdict(VerdictCode::ACCEPT)),
        mapped(host(5), verdict(VerdictCode::RETURN)),
        mapped(host(6), verdict(VerdictCode::CONTINUE)),
    ];
    check_elems("verdict", &verdicts);
    let ports = [
        end(&[0, 0]),
        mapped(key(&[0, 80]), verdict(VerdictCode::ACCEPT)),
        end(&[0, 91]),
    ];
    check_elems("interval verdict", &ports);
    let addresses = value(&[10, 1, 0, 1, 10, 1, 0, 9]);
    check_elems(
        "interval data",
        &[
            end(&[0; 4]),
            mapped(host(1), addresses),
            end(&[10, 0, 0, 2]),
        ],
    );
    let mut object = host(1);
    object.objref = Some("hits".into());
    check_elems("object", &[object]);
}

#[test]
fn times_comments_and_expressions() {
    let comment = Udata::with_comment("default/web").unwrap();
    let mut commented = host(1);
    commented.userdata = Some(comment.as_bytes());
    check_elems("comment", &[commented]);
    let mut timed = host(1);
    timed.timeout = Some(600_000);
    check_elems("timeout", &[timed]);
    let comment = Udata::with_comment("x").unwrap();
    let mut both = timed;
    both.userdata = Some(comment.as_bytes());
    check_elems("timeout and comment", &[both]);
    timed.expiration = Some(300_000);
    check_elems("timeout and expires", &[timed]);

    let counter = Expr::Counter(make!(Counter {
        packets: 3,
        bytes: 180
    }));
    let mut counted = host(1);
    counted.expr = Some(ExprRef::new(&counter));
    check_elems("counter", &[counted]);
    let exprs = [Counter::default().into(), Limit::packets(10, 1, 5).into()];
    let mut two = host(1);
    two.exprs = Some(Exprs::new(&exprs));
    check_elems("two expressions", &[two]);
}

#[test]
fn elements_are_deleted() {
    let del =
        |case, elems: &[Elem<'_>]| check_elems_with(case, NftMsg::DEL_SETELEM, NONE, None, elems);
    del("delete", &[host(1)]);
    // The key is enough, also in a map.
    del("delete map element", &[host(1)]);
    del(
        "delete interval",
        &[key(&[10, 0, 0, 0]), end(&[11, 0, 0, 0])],
    );
    check_elems_with("destroy", NftMsg::DESTROY_SETELEM, NONE, None, &[host(1)]);
}
