//! Which implementation a set gets, and what it is good for.

use std::collections::BTreeSet;

use nft_batch::Errno;
use nl_codec::msg::NftMsg;
use nl_codec::nft::expr::{Immediate, Lookup};
use nl_codec::nft::set::{SetField, SetFlags};
use nl_codec::nft::{Data, Elem, Register, Set, Value};

use crate::Stop;
use crate::bench::{
    Bench, IP, REG, T, counter, daddr, desc, elements, key, map, output, row, rule, set, sized,
    table, with_id,
};
use crate::case::cases;
use crate::raw::Raw;
use crate::traffic::{PORT, send};
use crate::verdict::{Verdict, check, check_eq};

cases! {"sets":
    a_set_without_a_size_grows,
    the_kernel_names_the_implementation,
    the_kernel_tells_the_number_of_rows,
    intervals_of_one_field_hold_their_addresses,
    intervals_of_several_fields_hold_their_addresses,
    overlapping_intervals_are_refused,
    a_lookup_does_not_see_what_is_not_committed,
}

/// How an interval that one includes only in part is refused.
const ENOTEMPTY: Errno = Errno(39);

fn a_set_without_a_size_grows(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut batch = b.batch();
    let m = batch.set(IP, T, "m")?;
    batch.add_elements(m, (0..20_000).map(|number| row(number, number)))?;
    b.commit(batch)?;
    check_eq!(b.value(19_999)?, Some(19_999));
    let size = b
        .connection
        .set_info(IP, T, "m", |set| set.desc.and_then(|desc| desc.size))?;
    check_eq!(size.unwrap_or_default(), 0);
    Ok(())
}

fn backend(b: &mut Bench, set: Set<'_>) -> Result<Option<String>, Stop> {
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(set, 9))
        .accepted(&mut b.socket)?;
    let name = set.name.map(|name| name.to_string()).unwrap_or_default();
    let found = b.connection.set_info(IP, T, &name, |set| {
        set.backend.map(|backend| backend.to_string())
    })?;
    Ok(found)
}

/// Only since Linux 6.17 can one ask.
fn the_kernel_names_the_implementation(b: &mut Bench) -> Verdict {
    b.basics()?;
    let Some(unsized_map) = backend(b, map("unsized"))? else {
        return Err(Stop::skip("this kernel does not say (Linux 6.17 does)"));
    };
    let fast = backend(b, sized(map("fast"), 1_000))?;
    let mut long = sized(map("long"), 1_000);
    long.key_len = Some(12);
    let long = backend(b, long)?;
    let mut dynamic = sized(map("dynamic"), 1_000);
    dynamic.flags = Some(SetFlags::MAP | SetFlags::TIMEOUT);
    let dynamic = backend(b, dynamic)?;
    let mut intervals = set("intervals");
    intervals.flags = Some(SetFlags::INTERVAL);
    let intervals = backend(b, intervals)?;
    let fields = [SetField::new(4), SetField::new(4)];
    let mut concatenated = set("concatenated");
    concatenated.flags = Some(SetFlags::INTERVAL | SetFlags::CONCAT);
    concatenated.key_len = Some(8);
    concatenated.desc = Some(desc(&fields));
    let concatenated = backend(b, concatenated)?;
    let all = [
        Some(unsized_map),
        fast,
        long,
        dynamic,
        intervals,
        concatenated,
    ];
    let all: Vec<_> = all.into_iter().flatten().collect();
    b.note(all.join(", "));
    check_eq!(all.len(), 6);
    // Kernels without symbol names print addresses: the two of one kind are equal then.
    check_eq!(all.first(), all.get(3));
    check_eq!(all.iter().collect::<BTreeSet<_>>().len(), 5);
    let expected = ["rhash", "hash_fast", "hash", "rhash", "rbtree", "pipapo"];
    for (found, expected) in all.iter().zip(expected) {
        check!(
            found.starts_with("0x") || found.contains(expected),
            "{found}, not {expected}"
        );
    }
    Ok(())
}

/// Only since Linux 6.17 can one ask.
fn the_kernel_tells_the_number_of_rows(b: &mut Bench) -> Verdict {
    b.basics()?;
    let number = |b: &mut Bench| b.connection.set_info(IP, T, "m", |set| set.count);
    if number(b)?.is_none() {
        return Err(Stop::skip("this kernel does not say (Linux 6.17 does)"));
    }
    let rows: Vec<_> = (0..1_000).map(|number| row(number, number)).collect();
    let keys: Vec<_> = (0..10).map(key).collect();
    Raw::new()
        .new_(NftMsg::NEW_SETELEM, &elements(Some("m"), None, &rows))
        .accepted(&mut b.socket)?;
    check_eq!(number(b)?, Some(1_000));
    Raw::new()
        .plain(NftMsg::DEL_SETELEM, &elements(Some("m"), None, &keys))
        .accepted(&mut b.socket)?;
    check_eq!(number(b)?, Some(990));
    Ok(())
}

/// Counts what a set holds, then what comes by.
fn counting(set: Set<'_>, elems: &[Elem<'_>], load: &[nl_codec::nft::Expr<'_>]) -> Raw {
    let mut exprs = load.to_vec();
    exprs.push(Lookup::set("s", Register(8)).into());
    exprs.push(counter());
    let all = [counter()];
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_SET, &with_id(set, 1))
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(1), elems))
        .message(
            NftMsg::NEW_RULE,
            nl_codec::msg::Flags::CREATE | nl_codec::msg::Flags::APPEND,
            &rule("base", &exprs),
        )
        .message(
            NftMsg::NEW_RULE,
            nl_codec::msg::Flags::CREATE | nl_codec::msg::Flags::APPEND,
            &rule("base", &all),
        )
}

/// A first address, and the first one after: 127.0.1.0/24.
fn one_field<'a>() -> [Elem<'a>; 2] {
    let mut end = Elem::new(Value::u32_be(0x7f00_0200));
    end.flags = Some(nl_codec::nft::elem::ElemFlags::INTERVAL_END);
    [Elem::new(Value::u32_be(0x7f00_0100)), end]
}

fn intervals() -> Set<'static> {
    let mut set = set("s");
    set.flags = Some(SetFlags::INTERVAL);
    set
}

fn inside_and_outside(b: &mut Bench) -> Verdict {
    for inside in ["127.0.1.0", "127.0.1.7", "127.0.1.255"] {
        send(inside.parse()?, PORT, 1)?;
    }
    for outside in ["127.0.0.255", "127.0.2.0"] {
        send(outside.parse()?, PORT, 1)?;
    }
    check_eq!(b.packets("base")?, [3, 5]);
    Ok(())
}

fn intervals_of_one_field_hold_their_addresses(b: &mut Bench) -> Verdict {
    counting(intervals(), &one_field(), &[daddr(Register(8))]).accepted(&mut b.socket)?;
    inside_and_outside(b)
}

/// A list number before a prefix, as source ranges have it.
fn concatenation(fields: &[SetField]) -> Set<'_> {
    let mut set = set("s");
    set.flags = Some(SetFlags::INTERVAL | SetFlags::CONCAT);
    set.key_len = Some(8);
    set.desc = Some(desc(fields));
    set
}

const FIELDS: [SetField; 2] = [SetField::new(4), SetField::new(4)];

fn range<'a>(first: &'a [u8; 8], last: &'a [u8; 8]) -> Elem<'a> {
    let mut elem = Elem::new(Value::new(first));
    elem.key_end = Some(Data::Value(Value::new(last)));
    elem
}

const FIRST: [u8; 8] = [0, 0, 0, 7, 127, 0, 1, 0];
const LAST: [u8; 8] = [0, 0, 0, 7, 127, 0, 1, 255];

fn intervals_of_several_fields_hold_their_addresses(b: &mut Bench) -> Verdict {
    let load = [
        Immediate::value(Register(8), Value::u32_be(7)).into(),
        daddr(Register(9)),
    ];
    counting(concatenation(&FIELDS), &[range(&FIRST, &LAST)], &load).accepted(&mut b.socket)?;
    inside_and_outside(b)
}

fn overlapping_intervals_are_refused(b: &mut Bench) -> Verdict {
    counting(intervals(), &one_field(), &[daddr(Register(8))]).accepted(&mut b.socket)?;
    let mut end = Elem::new(Value::u32_be(0x7f00_0180));
    end.flags = Some(nl_codec::nft::elem::ElemFlags::INTERVAL_END);
    let within = [Elem::new(Value::u32_be(0x7f00_0080)), end];
    let one = Raw::new().new_(NftMsg::NEW_SETELEM, &elements(Some("s"), None, &within));
    overlap_is_refused(b, one)?;
    let mut two = concatenation(&FIELDS);
    two.name = Some("two".into());
    let (first, last) = ([0, 0, 0, 7, 127, 0, 1, 9], [0, 0, 0, 7, 127, 0, 2, 255]);
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(two, 2))
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(None, Some(2), &[range(&FIRST, &LAST)]),
        )
        .accepted(&mut b.socket)?;
    let several = Raw::new().new_(
        NftMsg::NEW_SETELEM,
        &elements(Some("two"), None, &[range(&first, &last)]),
    );
    overlap_is_refused(b, several)
}

fn overlap_is_refused(b: &mut Bench, raw: Raw) -> Verdict {
    let answers = raw.send(&mut b.socket)?;
    if answers == [None] && !b.can.kernel.at_least(6, 12) {
        return Err(Stop::skip("before Linux 6.12: not all overlaps are found"));
    }
    check!(
        answers == [Some(Errno::EEXIST)] || answers == [Some(ENOTEMPTY)],
        "{answers:?}"
    );
    Ok(())
}

/// What a refused batch added was never there for a packet.
fn a_lookup_does_not_see_what_is_not_committed(b: &mut Bench) -> Verdict {
    let keys = [Elem::new(Value::u32_be(0x7f00_0101))];
    counting(set("s"), &keys, &[daddr(REG)]).accepted(&mut b.socket)?;
    send("127.0.1.1".parse()?, PORT, 1)?;
    check_eq!(b.packets("base")?, [1, 1]);
    let more = [Elem::new(Value::u32_be(0x7f00_0102))];
    Raw::new()
        .new_(NftMsg::NEW_SETELEM, &elements(Some("s"), None, &more))
        .plain(NftMsg::DEL_SETELEM, &elements(Some("s"), None, &keys))
        .plain(NftMsg::DEL_CHAIN, &crate::bench::chain("none"))
        .refused_with(&mut b.socket, &[Errno::ENOENT])?;
    send("127.0.1.1".parse()?, PORT, 1)?;
    send("127.0.1.2".parse()?, PORT, 1)?;
    check_eq!(b.packets("base")?, [2, 3]);
    Ok(())
}
