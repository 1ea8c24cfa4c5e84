//! Numbers out of nothing, and where they may go.

use nl_codec::msg::NftMsg;
use nl_codec::nft::expr::{Lookup, Numgen};
use nl_codec::nft::{Data, Elem, Register, Value, Verdict as NftVerdict};

use netns_lab::Evenness;

use crate::Stop;
use crate::bench::{
    Bench, REG, chain, counter, daddr, elements, output, rule, table, vmap, with_id,
};
use crate::case::cases;
use crate::raw::Raw;
use crate::traffic::{PORT, TARGET, send};
use crate::verdict::{Verdict, check, check_eq};

cases! {"numgen":
    a_random_number_goes_into_a_part_of_the_key,
    random_numbers_are_spread_evenly,
    an_increasing_number_starts_at_zero_and_serves_all_flows_of_a_rule,
    numbers_are_in_the_byte_order_of_the_host,
}

/// Chains `slot-0` … that count, and a map from address and number to them.
fn slots(slots: u32, mut numgen: Numgen, byte_order: fn(u32) -> [u8; 4]) -> Result<Raw, Stop> {
    let mut map = with_id(vmap("slots"), 1);
    map.key_len = Some(8);
    let second = Register::r32(1).ok_or_else(|| Stop::Fail("no second register".into()))?;
    numgen.dreg = Some(second);
    let exprs = [
        daddr(Register(8)),
        numgen.into(),
        Lookup::map("slots", Register(8), Register::VERDICT).into(),
    ];
    let names: Vec<_> = (0..slots).map(|slot| format!("slot-{slot}")).collect();
    let keys: Vec<_> = (0..slots)
        .map(|slot| [TARGET.octets(), byte_order(slot)].concat())
        .collect();
    let rows: Vec<_> = keys
        .iter()
        .zip(&names)
        .map(|(key, name)| Elem::mapping(Value::new(key), Data::Verdict(NftVerdict::goto(name))))
        .collect();
    let mut raw = Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &output("base"));
    let count = [counter()];
    for name in &names {
        raw = raw
            .new_(NftMsg::NEW_CHAIN, &chain(name))
            .new_(NftMsg::NEW_RULE, &rule(name, &count));
    }
    Ok(raw
        .new_(NftMsg::NEW_SET, &map)
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(1), &rows))
        .new_(NftMsg::NEW_RULE, &rule("base", &exprs)))
}

fn counts(b: &mut Bench, slots: u32) -> Result<Vec<u64>, Stop> {
    let mut counts = Vec::new();
    for slot in 0..slots {
        counts.extend(b.packets(&format!("slot-{slot}"))?);
    }
    Ok(counts)
}

/// Straight into the second register of a concatenated key, without a mark in between.
fn a_random_number_goes_into_a_part_of_the_key(b: &mut Bench) -> Verdict {
    slots(3, Numgen::random(3, REG), u32::to_ne_bytes)?.accepted(&mut b.socket)?;
    send(TARGET, PORT, 300)?;
    let counts = counts(b, 3)?;
    check_eq!(counts.iter().sum::<u64>(), 300);
    check!(counts.iter().all(|&count| count > 0), "{counts:?}");
    Ok(())
}

fn random_numbers_are_spread_evenly(b: &mut Bench) -> Verdict {
    slots(7, Numgen::random(7, REG), u32::to_ne_bytes)?.accepted(&mut b.socket)?;
    send(TARGET, PORT, 3_500)?;
    let counts = counts(b, 7)?;
    check_eq!(counts.iter().sum::<u64>(), 3_500);
    check!(Evenness::of(&counts).is_even(), "{counts:?}");
    Ok(())
}

/// One counter for all CPUs and all that comes by the rule: two flows that alternate always get
/// different numbers of two, each always the same one.
fn an_increasing_number_starts_at_zero_and_serves_all_flows_of_a_rule(b: &mut Bench) -> Verdict {
    slots(2, Numgen::inc(2, REG), u32::to_ne_bytes)?.accepted(&mut b.socket)?;
    send(TARGET, PORT, 1)?;
    check_eq!(counts(b, 2)?, [1, 0]);
    send(TARGET, PORT, 1)?;
    check_eq!(counts(b, 2)?, [1, 1]);
    send(TARGET, PORT, 4)?;
    check_eq!(counts(b, 2)?, [3, 3]);
    Ok(())
}

fn numbers_are_in_the_byte_order_of_the_host(b: &mut Bench) -> Verdict {
    if cfg!(target_endian = "big") {
        return Err(Stop::skip("both orders are one here"));
    }
    slots(2, Numgen::random(2, REG), u32::to_be_bytes)?.accepted(&mut b.socket)?;
    send(TARGET, PORT, 100)?;
    let counts = counts(b, 2)?;
    // 0 is 0 in any order; 1 is not found.
    check!(counts.first().is_some_and(|&zero| zero > 0), "{counts:?}");
    check_eq!(counts.get(1), Some(&0));
    Ok(())
}
