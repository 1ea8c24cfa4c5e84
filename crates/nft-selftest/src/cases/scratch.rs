//! The priority of a packet (`skb->priority`) as a place between two lookups.

use nl_codec::msg::NftMsg;
use nl_codec::nft::expr::{Cmp, CmpOp, Expr, Immediate, Lookup, Meta, MetaKey};
use nl_codec::nft::{Data, Elem, Value, Verdict as NftVerdict};

use crate::bench::{
    Bench, REG, chain, counter, daddr, elements, map, output, rule, table, vmap, with_id,
};
use crate::case::cases;
use crate::raw::Raw;
use crate::traffic::{PORT, TARGET, send};
use crate::verdict::{Verdict, check_eq};

cases! {"scratch":
    the_priority_carries_a_value_from_rule_to_rule,
    all_32_bits_of_the_priority_are_kept,
    a_lookup_that_finds_nothing_ends_the_rule_and_leaves_the_priority,
    the_priority_is_reset_between_a_lookup_and_the_use_of_its_result,
}

const VALUE: u32 = 0xfff0_0001;

/// `priority = map[daddr]`.
fn load_from_map<'a>() -> [Expr<'a>; 3] {
    [
        daddr(REG),
        Lookup::map("services", REG, REG).into(),
        Meta::set(MetaKey::PRIORITY, REG).into(),
    ]
}

fn with_services(value: u32) -> Raw {
    let mut services = with_id(map("services"), 1);
    services.data_len = Some(4);
    let key = TARGET.octets();
    let rows = [Elem::mapping(
        Value::new(&key),
        Data::Value(Value::u32_ne(value)),
    )];
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_SET, &services)
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(1), &rows))
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &load_from_map()))
}

const APPEND: nl_codec::msg::Flags =
    nl_codec::msg::Flags::CREATE.union(nl_codec::msg::Flags::APPEND);

/// Two rules, two lookups: address to class, class to chain.
fn the_priority_carries_a_value_from_rule_to_rule(b: &mut Bench) -> Verdict {
    let dispatch = with_id(vmap("dispatch"), 2);
    let rows = [Elem::mapping(
        Value::u32_ne(VALUE),
        Data::Verdict(NftVerdict::goto("class")),
    )];
    let second = [
        Meta::load(MetaKey::PRIORITY, REG).into(),
        Lookup::map("dispatch", REG, nl_codec::nft::Register::VERDICT).into(),
    ];
    let count = [counter()];
    with_services(VALUE)
        .new_(NftMsg::NEW_CHAIN, &chain("class"))
        .message(NftMsg::NEW_RULE, APPEND, &rule("class", &count))
        .new_(NftMsg::NEW_SET, &dispatch)
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(2), &rows))
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &second))
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &count))
        .accepted(&mut b.socket)?;
    send(TARGET, PORT, 10)?;
    check_eq!(b.packets("class")?, [10]);
    check_eq!(b.packets("base")?, [0]);
    Ok(())
}

/// Counts packets of a priority.
fn counting<'a>(op: CmpOp, value: u32) -> [Expr<'a>; 3] {
    [
        Meta::load(MetaKey::PRIORITY, REG).into(),
        Cmp::new(op, REG, Value::u32_ne(value)).into(),
        counter(),
    ]
}

fn all_32_bits_of_the_priority_are_kept(b: &mut Bench) -> Verdict {
    with_services(u32::MAX)
        .message(
            NftMsg::NEW_RULE,
            APPEND,
            &rule("base", &counting(CmpOp::EQ, u32::MAX)),
        )
        .message(
            NftMsg::NEW_RULE,
            APPEND,
            &rule("base", &counting(CmpOp::NEQ, u32::MAX)),
        )
        .accepted(&mut b.socket)?;
    send(TARGET, PORT, 10)?;
    check_eq!(b.packets("base")?, [10, 0]);
    Ok(())
}

fn a_lookup_that_finds_nothing_ends_the_rule_and_leaves_the_priority(b: &mut Bench) -> Verdict {
    let set_seven: [Expr<'_>; 2] = [
        Immediate::value(REG, Value::u32_ne(7)).into(),
        Meta::set(MetaKey::PRIORITY, REG).into(),
    ];
    with_services(VALUE)
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &set_seven))
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &load_from_map()))
        .message(
            NftMsg::NEW_RULE,
            APPEND,
            &rule("base", &counting(CmpOp::EQ, 7)),
        )
        .message(
            NftMsg::NEW_RULE,
            APPEND,
            &rule("base", &counting(CmpOp::EQ, VALUE)),
        )
        .accepted(&mut b.socket)?;
    send("127.0.0.10".parse()?, PORT, 10)?;
    check_eq!(b.packets("base")?, [10, 0]);
    send(TARGET, PORT, 5)?;
    check_eq!(b.packets("base")?, [10, 5]);
    Ok(())
}

/// In one rule: the result stays in its register while another register resets the priority.
fn the_priority_is_reset_between_a_lookup_and_the_use_of_its_result(b: &mut Bench) -> Verdict {
    let other = nl_codec::nft::Register::R3;
    let exprs: [Expr<'_>; 6] = [
        daddr(REG),
        Lookup::map("services", REG, REG).into(),
        Immediate::value(other, Value::u32_ne(0)).into(),
        Meta::set(MetaKey::PRIORITY, other).into(),
        Cmp::new(CmpOp::EQ, REG, Value::u32_ne(VALUE)).into(),
        counter(),
    ];
    with_services(VALUE)
        .message(NftMsg::NEW_RULE, APPEND, &rule("base", &exprs))
        .message(
            NftMsg::NEW_RULE,
            APPEND,
            &rule("base", &counting(CmpOp::EQ, 0)),
        )
        .accepted(&mut b.socket)?;
    send(TARGET, PORT, 10)?;
    check_eq!(b.packets("base")?, [10, 10]);
    Ok(())
}
