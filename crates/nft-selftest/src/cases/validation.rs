//! What a change costs, by what the kernel looks through at each commit. Times are compared with
//! each other, within one run; only ratios that no noise explains are judged.

use core::time::Duration;
use std::time::Instant;

use nft_batch::{Batch, Errno};
use nl_codec::msg::NftMsg;
use nl_codec::nft::chain::{ChainHook, Hook};
use nl_codec::nft::expr::{Immediate, Lookup, Nat, NfProto};
use nl_codec::nft::set::{SetField, SetFlags};
use nl_codec::nft::{Data, Elem, Register, Value, Verdict as NftVerdict};

use crate::Stop;
use crate::bench::{
    Bench, IP, REG, T, chain, daddr, desc, key, map, output, row, rule, set, sized, table, vmap,
};
use crate::case::cases;
use crate::raw::Raw;
use crate::verdict::{Verdict, check};

cases! {"validation":
    a_data_row_costs_the_same_in_a_map_ten_times_as_big,
    a_verdict_row_costs_more_in_a_map_ten_times_as_big,
    a_verdict_row_of_an_unused_map_costs_the_same_at_any_size,
    a_chain_that_is_reached_many_ways_is_validated_once,
    dnat_is_for_nat_chains_at_prerouting_and_output,
    a_set_is_found_by_walking_those_before_it,
    a_row_of_ranges_is_deleted_after_looking_at_those_before_it,
}

/// Rows before, and after growing ten times.
const SMALL: u32 = 2_000;
const BIG: u32 = 20_000;
const ROUNDS: u32 = 15;

/// The shortest of several times: what the work takes when nothing disturbs it.
fn shortest(mut each: impl FnMut(u32) -> Result<Duration, Stop>) -> Result<Duration, Stop> {
    let mut best = Duration::MAX;
    for round in 0..ROUNDS {
        best = best.min(each(round)?);
    }
    Ok(best)
}

/// The time that a commit takes.
fn timed(b: &mut Bench, batch: Batch) -> Result<Duration, Stop> {
    let mut sealed = batch.seal();
    let started = Instant::now();
    let outcome = b.connection.commit(&mut sealed);
    let time = started.elapsed();
    check!(outcome.is_committed(), "{outcome}");
    Ok(time)
}

/// A row of map `m` under test: data or a verdict.
fn verdict_row(number: u32) -> Elem<'static> {
    Elem::mapping(
        Value::u32_be(number),
        Data::Verdict(NftVerdict::goto("target")),
    )
}

/// Two base chains with a lookup in map `m`, and chain `target` with a rule.
fn load(b: &mut Bench, verdicts: bool, used: bool) -> Verdict {
    let mut batch = b.batch();
    batch.add_table(IP, &table())?;
    let (kind, to) = if verdicts {
        (vmap("m"), Register::VERDICT)
    } else {
        (map("m"), REG)
    };
    batch.add_set(IP, &sized(kind, 2 * BIG))?;
    batch.add_chain(IP, &output("first"))?;
    let second = chain("second").hooked("filter", ChainHook::new(Hook::INPUT, 0));
    batch.add_chain(IP, &second)?;
    batch.add_chain(IP, &chain("target"))?;
    let target = [daddr(REG)];
    batch.add_rule(IP, &rule("target", &target))?;
    if used {
        let exprs = [daddr(REG), Lookup::map("m", REG, to).into()];
        batch.add_rule(IP, &rule("first", &exprs))?;
        batch.add_rule(IP, &rule("second", &exprs))?;
    }
    b.commit(batch).map(drop)
}

fn fill(b: &mut Bench, verdicts: bool, from: u32, to: u32) -> Verdict {
    let mut batch = b.batch();
    let m = batch.set(IP, T, "m")?;
    if verdicts {
        batch.add_elements(m, (from..to).map(verdict_row))?;
    } else {
        batch.add_elements(m, (from..to).map(|number| row(number, number)))?;
    }
    b.commit(batch).map(drop)
}

/// How long it takes to add one row.
fn one_more(b: &mut Bench, verdicts: bool) -> Result<Duration, Stop> {
    shortest(|round| {
        let number = BIG + round;
        let mut add = b.batch();
        let m = add.set(IP, T, "m")?;
        if verdicts {
            add.add_elements(m, [verdict_row(number)])?;
        } else {
            add.add_elements(m, [row(number, number)])?;
        }
        let time = timed(b, add)?;
        let mut delete = b.batch();
        let m = delete.set(IP, T, "m")?;
        delete.delete_elements(m, [key(number)])?;
        b.commit(delete)?;
        Ok(time)
    })
}

/// Measures one row more in maps of both sizes, the shortest times of some attempts, until they are as
/// claimed: what disturbs makes them longer, never shorter.
fn costs(b: &mut Bench, verdicts: bool, used: bool, claim: impl Fn(f64, f64) -> bool) -> Verdict {
    let (mut small, mut big) = (Duration::MAX, Duration::MAX);
    let mut holds = false;
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            Raw::new()
                .plain(NftMsg::DEL_TABLE, &table())
                .accepted(&mut b.socket)?;
        }
        load(b, verdicts, used)?;
        fill(b, verdicts, 0, SMALL)?;
        small = small.min(one_more(b, verdicts)?);
        fill(b, verdicts, SMALL, BIG)?;
        big = big.min(one_more(b, verdicts)?);
        holds = claim(micros(small), micros(big));
        if holds {
            break;
        }
    }
    let found = format!(
        "one row more in {SMALL} rows: {:.1} µs, in {BIG}: {:.1} µs",
        micros(small),
        micros(big)
    );
    check!(holds, "{found}");
    b.note(found);
    Ok(())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// How often to measure before a claim is given up.
const ATTEMPTS: u32 = 8;
/// Times so much as this longer are not noise. (Ten times the rows are ten times the work.)
const NOT_NOISE: f64 = 3.0;

fn a_data_row_costs_the_same_in_a_map_ten_times_as_big(b: &mut Bench) -> Verdict {
    costs(b, false, true, |small, big| big < NOT_NOISE * small)
}

/// Each base chain that leads to the map is walked anew, and with it all of the map's rows.
fn a_verdict_row_costs_more_in_a_map_ten_times_as_big(b: &mut Bench) -> Verdict {
    costs(b, true, true, |small, big| big > NOT_NOISE * small)
}

fn a_verdict_row_of_an_unused_map_costs_the_same_at_any_size(b: &mut Bench) -> Verdict {
    costs(b, true, false, |small, big| big < NOT_NOISE * small)
}

/// A row of chains that each jump to the next one twice: 2 to the power of its length ways lead to
/// the last.
fn a_chain_that_is_reached_many_ways_is_validated_once(b: &mut Bench) -> Verdict {
    let ladder = |b: &mut Bench, jumps: u32| {
        shortest(|_| {
            let mut batch = b.batch();
            batch.destroy_table(IP, T)?;
            b.commit(batch)?;
            let mut batch = b.batch();
            batch.add_table(IP, &table())?;
            batch.add_chain(IP, &output("n0"))?;
            for number in 1..=jumps {
                batch.add_chain(IP, &chain(&format!("n{number}")))?;
            }
            for number in 0..jumps {
                let (from, to) = (format!("n{number}"), format!("n{}", number + 1));
                let exprs = [Immediate::verdict(NftVerdict::jump(&to)).into()];
                batch.add_rule(IP, &rule(&from, &exprs))?;
                batch.add_rule(IP, &rule(&from, &exprs))?;
            }
            timed(b, batch)
        })
    };
    let (short, long) = (ladder(b, 2)?, ladder(b, 15)?);
    b.note(format!(
        "chains with 4 ways to the last: {:.1} µs, with 32,768: {:.1} µs",
        micros(short),
        micros(long)
    ));
    if b.can.memoised_validation {
        // 15 chains instead of 2, and their rules.
        check!(
            micros(long) < 30.0 * micros(short),
            "{short:?}, then {long:?}"
        );
        Ok(())
    } else {
        Err(Stop::skip("this kernel validates it once for each way"))
    }
}

fn dnat_is_for_nat_chains_at_prerouting_and_output(b: &mut Bench) -> Verdict {
    b.basics()?;
    let exprs = [daddr(REG), Nat::dnat(NfProto::IPV4, REG, None).into()];
    let base = |kind, hook| chain("base").hooked(kind, ChainHook::new(hook, -100));
    let with = |kind, hook| {
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &base(kind, hook))
            .new_(NftMsg::NEW_RULE, &rule("base", &exprs))
    };
    for (kind, hook) in [
        ("filter", Hook::PREROUTING),
        ("nat", Hook::POSTROUTING),
        ("nat", Hook::INPUT),
    ] {
        let errors: Vec<_> = with(kind, hook)
            .send(&mut b.socket)?
            .into_iter()
            .flatten()
            .collect();
        check!(
            errors == [Errno::EOPNOTSUPP] || errors == [Errno::EINVAL],
            "{kind} {hook:?}: {errors:?}"
        );
    }
    for hook in [Hook::PREROUTING, Hook::OUTPUT] {
        with("nat", hook)
            .plain(NftMsg::DEL_RULE, &nl_codec::nft::Rule::at(T, "base", None))
            .plain(NftMsg::DEL_CHAIN, &chain("base"))
            .accepted(&mut b.socket)?;
    }
    Ok(())
}

/// The first ones are found at once.
fn a_set_is_found_by_walking_those_before_it(b: &mut Bench) -> Verdict {
    const SETS: u32 = 2_000;
    let mut batch = b.batch();
    batch.add_table(IP, &table())?;
    for number in 0..SETS {
        batch.add_set(IP, &map(&format!("a-map-with-a-longer-name-{number:05}")))?;
    }
    b.commit(batch)?;
    let names = [
        "a-map-with-a-longer-name-00000",
        "a-map-with-a-longer-name-01999",
    ];
    let mut times = Vec::new();
    for name in names {
        times.push(shortest(|round| {
            let mut batch = b.batch();
            let set = batch.set(IP, T, name)?;
            batch.add_elements(set, [row(round, round)])?;
            timed(b, batch)
        })?);
    }
    if let [first, last] = times.as_slice() {
        b.note(format!(
            "a row in the first of {SETS} sets: {:.1} µs, in the last: {:.1} µs",
            micros(*first),
            micros(*last)
        ));
        check!(first < last, "{first:?}, then {last:?}");
    }
    Ok(())
}

/// A number before an address, as ranges of sources have a list's; `nft_pipapo_remove` compares each row
/// before the one that is deleted.
fn a_row_of_ranges_is_deleted_after_looking_at_those_before_it(b: &mut Bench) -> Verdict {
    const EACH: u32 = 4;
    let mut keys = Vec::new();
    for number in 0..SMALL {
        keys.push([number.to_be_bytes(), [192, 0, 2, 1]].concat());
    }
    let rows = |part: core::ops::Range<u32>| {
        let keys = part.filter_map(|at| keys.get(usize::try_from(at).ok()?));
        keys.map(|key| {
            let mut elem = Elem::new(Value::new(key));
            elem.key_end = Some(Data::Value(Value::new(key)));
            elem
        })
    };
    let mut ranges = set("ranges");
    ranges.flags = Some(SetFlags::INTERVAL | SetFlags::CONCAT);
    ranges.key_len = Some(8);
    let fields = [SetField::new(4), SetField::new(4)];
    ranges.desc = Some(desc(&fields));
    let mut batch = b.batch();
    batch.add_table(IP, &table())?;
    let new = batch.add_set(IP, &ranges)?;
    batch.add_elements(new, rows(0..SMALL))?;
    b.commit(batch)?;
    let deleted = |b: &mut Bench, from: u32| {
        let mut batch = b.batch();
        let ranges = batch.set(IP, T, "ranges")?;
        batch.delete_elements(ranges, rows(from..from + EACH))?;
        timed(b, batch)
    };
    let last = shortest(|round| deleted(b, SMALL - EACH * (round + 1)))?;
    let first = shortest(|round| deleted(b, EACH * round))?;
    b.note(format!(
        "{EACH} rows of {SMALL}: the first in {:.1} µs, the last in {:.1} µs",
        micros(first),
        micros(last)
    ));
    check!(
        last.as_secs_f64() > NOT_NOISE * first.as_secs_f64(),
        "the first take {first:?}, the last {last:?}"
    );
    Ok(())
}
