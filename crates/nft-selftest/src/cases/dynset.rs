//! Rows that rules add, renew and delete.

use core::time::Duration;

use nft_batch::Errno;
use nl_codec::msg::{Flags, NftMsg};
use nl_codec::nft::expr::{Dynset, DynsetOp, Expr, Immediate, Lookup, Numgen};
use nl_codec::nft::set::SetFlags;
use nl_codec::nft::{DataType, Register, Value};

use crate::Stop;
use crate::bench::{
    Bench, IP, REG, T, counter, daddr, elements, key, map, output, row, rule, set, sized, table,
    vmap, with_id,
};
use crate::case::cases;
use crate::raw::Raw;
use crate::traffic::{PORT, TARGET, send};
use crate::verdict::{Verdict, check, check_eq};

cases! {"dynset":
    an_update_keeps_the_data_and_renews_the_timeout,
    deleting_and_updating_in_two_rules_replaces_the_data,
    a_full_set_ends_the_rule,
    rows_expire_in_the_eyes_of_packets_and_readers,
    userspace_adds_rows_with_a_timeout_of_their_own,
    a_timeout_needs_a_set_with_timeouts,
    a_constant_set_is_refused,
    a_set_of_fixed_size_is_refused_unless_it_is_for_rules,
    a_map_needs_data_in_a_register,
    verdicts_are_refused_as_data,
}

const APPEND: Flags = Flags::CREATE.union(Flags::APPEND);
const DATA: Register = Register::R2;

fn dynamic<'a>(timeout_ms: u64) -> nl_codec::nft::Set<'a> {
    let mut map = sized(with_id(map("m"), 1), 1_000);
    map.flags = Some(SetFlags::MAP | SetFlags::TIMEOUT | SetFlags::EVAL);
    map.timeout = Some(timeout_ms);
    map
}

/// Table, base chain and a map that rules change.
fn with_map(timeout_ms: u64) -> Raw {
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_SET, &dynamic(timeout_ms))
}

fn number() -> u32 {
    u32::from(TARGET)
}

/// The data of a row that holds a number in the byte order of the host.
fn host_value(b: &mut Bench, number: u32) -> Result<Option<u32>, Stop> {
    let value = b.value(number)?;
    Ok(value.map(|value| u32::from_ne_bytes(value.to_be_bytes())))
}

/// Times in milliseconds: the row's own, and what is left of it.
fn times(b: &mut Bench) -> Result<(u64, u64), Stop> {
    let found = b.connection.element(IP, T, "m", &key(number()), |elem| {
        (
            elem.timeout.unwrap_or_default(),
            elem.expiration.unwrap_or_default(),
        )
    })?;
    found.ok_or_else(|| Stop::Fail("no such row".into()))
}

/// Reads until the rest of the row's time is below `below`.
fn until_left(b: &mut Bench, below: u64) -> Result<u64, Stop> {
    loop {
        let (_, left) = times(b)?;
        if left < below {
            return Ok(left);
        }
        wait();
    }
}

/// Time passes: what is awaited is the clock itself.
fn wait() {
    std::thread::sleep(Duration::from_millis(20));
}

/// `update @m { daddr : 0, 1, 2 … }`: each packet brings other data.
fn update_with_numbers<'a>() -> [Expr<'a>; 3] {
    [
        daddr(REG),
        Numgen::inc(1_000, DATA).into(),
        Dynset::new(DynsetOp::UPDATE, "m", REG)
            .with_data(DATA)
            .into(),
    ]
}

fn an_update_keeps_the_data_and_renews_the_timeout(b: &mut Bench) -> Verdict {
    with_map(60_000)
        .message(
            NftMsg::NEW_RULE,
            APPEND,
            &rule("base", &update_with_numbers()),
        )
        .accepted(&mut b.socket)?;
    send(TARGET, PORT, 5)?;
    check_eq!(b.value(number())?, Some(0));
    let left = until_left(b, 59_900)?;
    send(TARGET, PORT, 1)?;
    check_eq!(b.value(number())?, Some(0));
    let (_, renewed) = times(b)?;
    check!(
        renewed > left,
        "{renewed} ms are left, before it were {left}"
    );
    Ok(())
}

fn deleting_and_updating_in_two_rules_replaces_the_data(b: &mut Bench) -> Verdict {
    let data: Expr<'_> = Immediate::value(DATA, Value::u32_be(7)).into();
    let delete = [
        daddr(REG),
        data,
        Dynset::new(DynsetOp::DELETE, "m", REG)
            .with_data(DATA)
            .into(),
    ];
    with_map(60_000)
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(None, Some(1), &[row(number(), 999)]),
        )
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &delete))
        .message(
            NftMsg::NEW_RULE,
            APPEND,
            &rule("base", &update_with_numbers()),
        )
        .accepted(&mut b.socket)?;
    check_eq!(b.value(number())?, Some(999));
    for number_of_packet in 0..3 {
        send(TARGET, PORT, 1)?;
        check_eq!(host_value(b, number())?, Some(number_of_packet));
    }
    // For a client that has no row, the first rule finds nothing and the second one adds.
    send("127.0.0.10".parse()?, PORT, 1)?;
    check_eq!(host_value(b, number() + 1)?, Some(3));
    Ok(())
}

/// The packet goes on with the next rule; rows that are there are renewed all the same.
fn a_full_set_ends_the_rule(b: &mut Bench) -> Verdict {
    let mut small = sized(dynamic(60_000), 2);
    small.flags = Some(SetFlags::MAP | SetFlags::TIMEOUT | SetFlags::EVAL);
    let [address, numgen, dynset] = update_with_numbers();
    let exprs = [address, numgen, dynset, counter()];
    let next = [counter()];
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_SET, &small)
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &exprs))
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &next))
        .accepted(&mut b.socket)?;
    for last in 10..15 {
        send(core::net::Ipv4Addr::new(127, 0, 0, last), PORT, 1)?;
    }
    check_eq!(b.packets("base")?, [2, 5]);
    send("127.0.0.10".parse()?, PORT, 1)?;
    check_eq!(b.packets("base")?, [3, 6]);
    check_eq!(b.count("m")?, 2);
    Ok(())
}

fn rows_expire_in_the_eyes_of_packets_and_readers(b: &mut Bench) -> Verdict {
    let lookup = [daddr(REG), Lookup::map("m", REG, DATA).into(), counter()];
    let mut short = row(number(), 1);
    short.timeout = Some(600);
    with_map(60_000)
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(1), &[short]))
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &lookup))
        .accepted(&mut b.socket)?;
    send(TARGET, PORT, 1)?;
    let before = b.packets("base")?;
    while b.value(number())?.is_some() {
        wait();
    }
    send(TARGET, PORT, 10)?;
    let after = b.packets("base")?;
    check_eq!(after, before);
    check_eq!(b.count("m")?, 0);
    // The place is free again at once, whether or not the row has been collected.
    Raw::new()
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(Some("m"), None, &[row(number(), 2)]),
        )
        .accepted(&mut b.socket)?;
    check_eq!(b.value(number())?, Some(2));
    Ok(())
}

fn userspace_adds_rows_with_a_timeout_of_their_own(b: &mut Bench) -> Verdict {
    let mut longer = row(number(), 1);
    longer.timeout = Some(3_600_000);
    with_map(60_000)
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(1), &[longer]))
        .accepted(&mut b.socket)?;
    let (own, left) = times(b)?;
    // Kept in ticks of the kernel's clock, of 10 ms at most.
    check!(own.abs_diff(3_600_000) <= 10, "{own}");
    check!(left > 3_000_000, "{left}");
    Ok(())
}

fn a_timeout_needs_a_set_with_timeouts(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut plain = with_id(set("plain"), 7);
    plain.flags = Some(SetFlags::EVAL);
    let exprs = [
        daddr(REG),
        Dynset::new(DynsetOp::UPDATE, "plain", REG)
            .with_timeout_ms(1_000)
            .into(),
    ];
    Raw::new()
        .new_(NftMsg::NEW_SET, &plain)
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .refused_with(&mut b.socket, &[Errno::EINVAL, Errno::EOPNOTSUPP])?;
    let mut short = key(1);
    short.timeout = Some(1_000);
    Raw::new()
        .new_(NftMsg::NEW_SET, &plain)
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(7), &[short]))
        .refused_with(&mut b.socket, &[Errno::EINVAL])
}

fn adds_to<'a>(name: &'a str) -> [Expr<'a>; 2] {
    [daddr(REG), Dynset::new(DynsetOp::ADD, name, REG).into()]
}

fn a_constant_set_is_refused(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut constant = with_id(set("constant"), 7);
    constant.flags = Some(SetFlags::CONSTANT);
    Raw::new()
        .new_(NftMsg::NEW_SET, &constant)
        .new_(NftMsg::NEW_RULE, &rule("c", &adds_to("constant")))
        .refused_with(&mut b.socket, &[Errno::EBUSY, Errno::EOPNOTSUPP])
}

/// A set of known size and no such flag is a plain hash, which rules cannot change.
fn a_set_of_fixed_size_is_refused_unless_it_is_for_rules(b: &mut Bench) -> Verdict {
    b.basics()?;
    let plain = sized(with_id(set("plain"), 7), 100);
    Raw::new()
        .new_(NftMsg::NEW_SET, &plain)
        .new_(NftMsg::NEW_RULE, &rule("c", &adds_to("plain")))
        .refused_with(&mut b.socket, &[Errno::EOPNOTSUPP])?;
    let mut dynamic = plain;
    dynamic.flags = Some(SetFlags::EVAL);
    Raw::new()
        .new_(NftMsg::NEW_SET, &dynamic)
        .new_(NftMsg::NEW_RULE, &rule("c", &adds_to("plain")))
        .accepted(&mut b.socket)
}

/// Deleting as well, although the data is not looked at.
fn a_map_needs_data_in_a_register(b: &mut Bench) -> Verdict {
    for op in [DynsetOp::ADD, DynsetOp::UPDATE, DynsetOp::DELETE] {
        let without = [daddr(REG), Dynset::new(op, "m", REG).into()];
        with_map(60_000)
            .new_(NftMsg::NEW_RULE, &rule("base", &without))
            .refused_with(&mut b.socket, &[Errno::EINVAL])?;
    }
    Ok(())
}

fn verdicts_are_refused_as_data(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut verdicts = with_id(vmap("v"), 7);
    verdicts.flags = Some(SetFlags::MAP | SetFlags::EVAL);
    verdicts.data_type = Some(DataType::VERDICT_MAP);
    let exprs = [
        daddr(REG),
        Immediate::value(DATA, Value::u32_ne(0)).into(),
        Dynset::new(DynsetOp::ADD, "v", REG).with_data(DATA).into(),
    ];
    Raw::new()
        .new_(NftMsg::NEW_SET, &verdicts)
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .refused_with(&mut b.socket, &[Errno::EOPNOTSUPP, Errno::EINVAL])
}
