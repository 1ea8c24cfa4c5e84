//! What `nft list` of every release makes of our objects: typed keys, typed data and comments.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nl_codec::msg::{Body, Family, Flags, Head, NftMsg, put_message};
use nl_codec::nft::dtype::ByteOrder;
use nl_codec::nft::elem::{ElemFlags, Elems};
use nl_codec::nft::expr::{Cmp, CmpOp, Counter, Expr, Exprs, Meta, MetaKey};
use nl_codec::nft::set::{SetDesc, SetField, SetFlags};
use nl_codec::nft::udata::SetInfo;
use nl_codec::nft::{
    Chain, Data, DataType, Elem, ElemList, List, Obj, Register, Rule, Set, Table, Udata, Value,
    Verdict,
};
use nl_codec::{EncodeError, SliceCursor};
use test_support::nft::{self, Nft};
use test_support::{in_new_netns, skip};

use crate::kernel::Kernel;

mod kernel;

const T: &str = "typed";

/// As every release shows it.
const LISTED: [&str; 20] = [
    "comment \"a table\"",
    "comment \"a counter\"",
    "comment \"a chain\"",
    "set frontends {",
    "type ipv4_addr . inet_proto . inet_service",
    "comment \"who is served\"",
    "elements = { 10.96.0.1 . tcp . 443 comment \"apiserver\" }",
    "map marks {",
    "type mark : verdict",
    "elements = { 0x00004000 : goto marked }",
    "map endpoints {",
    "type mark : ipv6_addr . inet_service",
    "elements = { 0x00000007 : fd00::1 . 8080 }",
    "set nets {",
    "flags interval",
    "elements = { 10.0.0.0/8 }",
    "set pairs {",
    "elements = { 10.0.0.1-10.0.0.9 . 80-90 }",
    "meta mark 0x00004000 counter packets 0 bytes 0 comment \"marked\"",
    "chain marked {",
];

#[test]
fn every_nft_shows_types_and_comments() {
    in_new_netns(|| {
        let kernel = Kernel::new();
        assert_eq!(kernel.commit(ruleset), Ok(()));
        let releases = nft::versions();
        if releases.is_empty() {
            skip("no nft at all");
        }
        for nft in &releases {
            check(nft);
        }
    });
}

fn check(nft: &Nft) {
    let out = nft.run(&["list", "ruleset"]).unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "nft {}", nft.version);
    let missing: Vec<&str> = LISTED
        .into_iter()
        .filter(|line| !text.lines().any(|listed| listed.trim() == *line))
        .collect();
    assert!(
        missing.is_empty(),
        "nft {}: {missing:#?} not in\n{text}",
        nft.version
    );
}

fn put<'a>(
    batch: &mut SliceCursor<'_>,
    msg: NftMsg,
    body: &impl Body<'a>,
) -> Result<(), EncodeError> {
    let flags = Flags::CREATE | Flags::APPEND | Flags::ACK;
    put_message(batch, &Head::nft(msg, Family::IPV4).with_flags(flags), body)
}

fn ruleset(batch: &mut SliceCursor<'_>) -> Result<(), EncodeError> {
    let comment = |text| Udata::with_comment(text);
    let userdata = comment("a table")?;
    let mut table = Table::named(T);
    table.userdata = Some(userdata.as_bytes());
    put(batch, NftMsg::NEW_TABLE, &table)?;

    let userdata = comment("a chain")?;
    let mut chain = Chain::named(T, "marked");
    chain.userdata = Some(userdata.as_bytes());
    put(batch, NftMsg::NEW_CHAIN, &chain)?;

    let userdata = comment("a counter")?;
    let mut counter = Obj::new(T, "c", Counter::default());
    counter.userdata = Some(userdata.as_bytes());
    put(batch, NftMsg::NEW_OBJ, &counter)?;

    let userdata = comment("marked")?;
    let exprs = [
        Expr::from(Meta::load(MetaKey::MARK, Register::R1)),
        Cmp::new(CmpOp::EQ, Register::R1, Value::u32_ne(0x4000)).into(),
        Counter::default().into(),
    ];
    let mut rule = Rule::new(T, "marked", Exprs::new(&exprs));
    rule.userdata = Some(userdata.as_bytes());
    put(batch, NftMsg::NEW_RULE, &rule)?;

    let apiserver = comment("apiserver")?;
    let mut elem = Elem::new(Value::new(&[10, 96, 0, 1, 6, 0, 0, 0, 1, 187, 0, 0]));
    elem.userdata = Some(apiserver.as_bytes());
    let parts = [
        DataType::IPV4_ADDR,
        DataType::INET_PROTO,
        DataType::INET_SERVICE,
    ];
    let mut info = SetInfo::default();
    info.comment = Some("who is served".into());
    put_set(batch, "frontends", &parts, SetFlags::empty(), info, None)?;
    put_elems(batch, "frontends", &[elem])?;

    let mut info = SetInfo::default();
    info.key_byte_order = Some(ByteOrder::HOST);
    let goto = Data::Verdict(Verdict::goto("marked"));
    let verdicts = Some((DataType::VERDICT_MAP, None));
    put_set(
        batch,
        "marks",
        &[DataType::MARK],
        SetFlags::MAP,
        info,
        verdicts,
    )?;
    put_elems(
        batch,
        "marks",
        &[Elem::mapping(Value::u32_ne(0x4000), goto)],
    )?;

    let endpoint = DataType::concat(&[DataType::IPV6_ADDR, DataType::INET_SERVICE]).unwrap();
    let data = Some((endpoint, endpoint.key_len()));
    put_set(
        batch,
        "endpoints",
        &[DataType::MARK],
        SetFlags::MAP,
        info,
        data,
    )?;
    let mut datum = [0; 20];
    (datum[0], datum[1], datum[15]) = (0xfd, 0, 1);
    datum[16..18].copy_from_slice(&8080_u16.to_be_bytes());
    let datum = Data::Value(Value::new(&datum));
    put_elems(
        batch,
        "endpoints",
        &[Elem::mapping(Value::u32_ne(7), datum)],
    )?;

    intervals(batch)
}

fn intervals(batch: &mut SliceCursor<'_>) -> Result<(), EncodeError> {
    let mut network = SetInfo::default();
    network.key_byte_order = Some(ByteOrder::NETWORK);
    put_set(
        batch,
        "nets",
        &[DataType::IPV4_ADDR],
        SetFlags::INTERVAL,
        network,
        None,
    )?;
    let first = Elem::new(Value::new(&[10, 0, 0, 0]));
    let mut beyond = Elem::new(Value::new(&[11, 0, 0, 0]));
    beyond.flags = Some(ElemFlags::INTERVAL_END);
    put_elems(batch, "nets", &[first, beyond])?;

    let parts = [DataType::IPV4_ADDR, DataType::INET_SERVICE];
    let flags = SetFlags::INTERVAL | SetFlags::CONCAT;
    put_set(batch, "pairs", &parts, flags, SetInfo::default(), None)?;
    let mut range = Elem::new(Value::new(&[10, 0, 0, 1, 0, 80, 0, 0]));
    range.key_end = Some(Data::Value(Value::new(&[10, 0, 0, 9, 0, 90, 0, 0])));
    put_elems(batch, "pairs", &[range])
}

/// Makes a set whose key is a concatenation of `parts`, or a map with data of a type and length.
fn put_set(
    batch: &mut SliceCursor<'_>,
    name: &str,
    parts: &[DataType],
    flags: SetFlags,
    info: SetInfo<'_>,
    data: Option<(DataType, Option<u32>)>,
) -> Result<(), EncodeError> {
    let key = DataType::concat(parts).unwrap();
    let fields: Vec<SetField> = parts
        .iter()
        .map(|part| SetField::new(part.value_len().unwrap()))
        .collect();
    let userdata = info.encode()?;
    let mut set = Set::named(T, name);
    set.id = Some(1);
    set.flags = Some(flags);
    (set.key_type, set.key_len) = (Some(key), key.key_len());
    if let Some((data_type, len)) = data {
        (set.data_type, set.data_len) = (Some(data_type), len);
    }
    if flags.contains(SetFlags::CONCAT) {
        let mut desc = SetDesc::default();
        desc.concat = Some(List::new(&fields));
        set.desc = Some(desc);
    }
    set.userdata = Some(userdata.as_bytes());
    put(batch, NftMsg::NEW_SET, &set)
}

fn put_elems(
    batch: &mut SliceCursor<'_>,
    set: &str,
    elems: &[Elem<'_>],
) -> Result<(), EncodeError> {
    let mut list = ElemList::named(T, set);
    list.elems = Some(Elems::new(elems));
    put(batch, NftMsg::NEW_SETELEM, &list)
}
