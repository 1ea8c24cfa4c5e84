//! What packets see while transactions commit. One thread sends as fast as it goes, the other one
//! commits; each packet makes two lookups, the second one by what the first one found.
//!
//! Rules are those of one generation for a packet's whole way through a base chain; each lookup
//! reads the generation anew. So what one batch changes in two sets, a packet may see half of.

use core::net::{Ipv4Addr, SocketAddrV4};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::net::UdpSocket;
use std::thread;
use std::time::Instant;

use nft_batch::{Batch, Connection, SealedBatch};
use nl_codec::nft::expr::{Bitwise, Expr, Immediate, Lookup, Meta, MetaKey, Numgen};
use nl_codec::nft::{Data, Elem, Register, Set, Value, Verdict as NftVerdict};

use crate::Stop;
use crate::bench::{
    Bench, IP, REG, T, chain, counter, daddr, map, output, rule, sized, table, vmap,
};
use crate::case::cases;
use crate::traffic::{PORT, TARGET};
use crate::verdict::{Verdict, check};

cases! {"race":
    count_and_slot_changed_in_one_batch_are_seen_half,
    a_count_that_changes_beside_slots_that_stay_is_never_missed,
    a_row_that_is_replaced_is_always_found,
    a_second_lookup_finds_what_the_first_one_missed,
    a_class_that_is_made_and_used_in_one_batch_is_seen_half,
    a_class_that_is_made_before_its_use_is_never_missed,
}

/// How long a race is that must see nothing, and how much there must be to see.
const QUIET: Duration = Duration::from_secs(2);
const PACKETS: u64 = 2_000;
const COMMITS: u64 = 200;
/// Commits in which what can be missed is.
const TELLING: u64 = 100_000;
/// Longest wait for that much, or for what must be seen.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a race came to.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    sent: u64,
    commits: u64,
    /// Packets that found no row at the first lookup, or no class.
    lost: u64,
    /// Packets that found no slot.
    slotless: u64,
}

impl Tally {
    fn missed(self) -> u64 {
        self.lost + self.slotless
    }
}

const ADDRESS: [u8; 4] = TARGET.octets();

/// Address → class.
fn service(class: u32) -> Elem<'static> {
    Elem::mapping(
        Value::u32_be(u32::from(TARGET)),
        Data::Value(Value::u32_ne(class)),
    )
}

fn slot(key: &[u8; 8]) -> Elem<'_> {
    Elem::mapping(Value::new(key), Data::Value(Value::u32_be(1)))
}

/// Group (the class without its number of slots) and slot.
fn slot_key(number: u32) -> [u8; 8] {
    let mut key = [0; 8];
    let (group, slot) = key.split_at_mut(4);
    group.copy_from_slice(&1_u32.to_ne_bytes());
    slot.copy_from_slice(&number.to_ne_bytes());
    key
}

/// A class of `count` slots in group 1.
const fn class(count: u32) -> u32 {
    count << 20 | 1
}

fn class_row(count: u32, chain: &str) -> Elem<'_> {
    Elem::mapping(
        Value::u32_ne(count << 20),
        Data::Verdict(NftVerdict::goto(chain)),
    )
}

fn slots_map() -> Set<'static> {
    let mut map = sized(map("endpoints"), 64);
    map.key_len = Some(8);
    map
}

/// The rules of a Service proxy, as far as two lookups go; what falls through is counted and
/// dropped, as is what is found.
struct Arena {
    /// A second rule with the first lookup.
    twice: bool,
}

impl Arena {
    fn load(&self, b: &mut Bench) -> Verdict {
        let mut batch = b.batch();
        batch.add_table(IP, &table())?;
        let services = batch.add_set(IP, &sized(map("services"), 64))?;
        let dispatch = batch.add_set(IP, &vmap("dispatch"))?;
        let endpoints = batch.add_set(IP, &slots_map())?;
        batch.add_chain(IP, &output("base"))?;
        batch.add_elements(services, [service(class(2))])?;
        let keys = [slot_key(0), slot_key(1)];
        batch.add_elements(endpoints, keys.iter().map(slot))?;
        for (count, name) in [(1, "class-1"), (2, "class-2")] {
            add_class(&mut batch, count, name)?;
            batch.add_elements(dispatch, [class_row(count, name)])?;
        }
        // Other traffic of the namespace does not count.
        let ours = [
            daddr(REG),
            nl_codec::nft::expr::Cmp::neq(REG, Value::u32_be(u32::from(TARGET))).into(),
            Immediate::verdict(NftVerdict::code(nl_codec::nft::VerdictCode::ACCEPT)).into(),
        ];
        batch.add_rule(IP, &rule("base", &ours))?;
        let zero: [Expr<'_>; 2] = [
            Immediate::value(REG, Value::u32_ne(0)).into(),
            Meta::set(MetaKey::PRIORITY, REG).into(),
        ];
        batch.add_rule(IP, &rule("base", &zero))?;
        let find = [
            daddr(REG),
            Lookup::map("services", REG, REG).into(),
            Meta::set(MetaKey::PRIORITY, REG).into(),
        ];
        let go = [
            Meta::load(MetaKey::PRIORITY, REG).into(),
            mask(0xfff0_0000),
            Lookup::map("dispatch", REG, Register::VERDICT).into(),
        ];
        for _ in 0..=usize::from(self.twice) {
            batch.add_rule(IP, &rule("base", &find))?;
            batch.add_rule(IP, &rule("base", &go))?;
        }
        let lost = [counter(), drop_packet()];
        batch.add_rule(IP, &rule("base", &lost))?;
        b.commit(batch).map(drop)
    }
}

fn drop_packet() -> Expr<'static> {
    Immediate::verdict(NftVerdict::code(nl_codec::nft::VerdictCode::DROP)).into()
}

fn mask(bits: u32) -> Expr<'static> {
    Bitwise::mask_xor(REG, REG, 4, Value::u32_ne(bits), Value::u32_ne(0)).into()
}

/// Chain `name`, which picks one of `count` slots.
fn add_class(batch: &mut Batch, count: u32, name: &str) -> Verdict {
    batch.add_chain(IP, &chain(name))?;
    let pick = [
        Meta::load(MetaKey::PRIORITY, Register(8)).into(),
        Bitwise::mask_xor(
            Register(8),
            Register(8),
            4,
            Value::u32_ne(0x000f_ffff),
            Value::u32_ne(0),
        )
        .into(),
        Numgen::random(count, Register(9)).into(),
        Lookup::map("endpoints", Register(8), Register(8)).into(),
        drop_packet(),
    ];
    let slotless = [counter(), drop_packet()];
    batch.add_rule(IP, &rule(name, &pick))?;
    batch.add_rule(IP, &rule(name, &slotless))?;
    Ok(())
}

/// Sends while `commit` is called again and again, until there was enough to see or, if `until_seen`,
/// something was missed.
fn race(
    b: &mut Bench,
    until_seen: bool,
    mut commit: impl FnMut(&mut Connection) -> Verdict,
) -> Result<Tally, Stop> {
    if thread::available_parallelism()?.get() < 2 {
        return Err(Stop::skip("a race needs two CPUs"));
    }
    let stop = AtomicBool::new(false);
    let sent = AtomicU64::new(0);
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut tally = Tally::default();
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let to = SocketAddrV4::new(Ipv4Addr::from(ADDRESS), PORT);
            while !stop.load(Ordering::Relaxed) {
                // All are dropped, which the call says.
                let _ = socket.send_to(b"x", to);
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        let started = Instant::now();
        let mut result = Ok(());
        while result.is_ok() && started.elapsed() < PATIENCE {
            result = commit(&mut b.connection);
            tally.commits += 1;
            let enough = tally.commits >= COMMITS && sent.load(Ordering::Relaxed) >= PACKETS;
            if !until_seen && enough && started.elapsed() >= QUIET {
                break;
            }
            if until_seen && tally.commits.is_multiple_of(100) {
                match misses(b) {
                    Ok((lost, slotless)) if lost + slotless > 0 => break,
                    Ok(_) => {}
                    Err(error) => result = Err(error),
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        if sender.join().is_err() {
            return Err(Stop::Fail("the sender panicked".into()));
        }
        result
    })?;
    (tally.lost, tally.slotless) = misses(b)?;
    tally.sent = sent.load(Ordering::Relaxed);
    b.note(format!(
        "{} packets, {} commits: {} without a class, {} without a slot",
        tally.sent, tally.commits, tally.lost, tally.slotless
    ));
    check!(
        until_seen || tally.sent >= PACKETS && tally.commits >= COMMITS,
        "too little: {tally:?}"
    );
    Ok(tally)
}

fn misses(b: &mut Bench) -> Result<(u64, u64), Stop> {
    let lost = b.packets("base")?.iter().sum();
    let mut slotless = 0;
    for chain in ["class-1", "class-2", "class-3"] {
        slotless += b.packets(chain)?.iter().sum::<u64>();
    }
    Ok((lost, slotless))
}

/// A machine that is slow may not get two threads to meet: that says nothing about the kernel.
fn must_miss(tally: Tally) -> Verdict {
    if tally.missed() == 0 && tally.commits < TELLING {
        return Err(Stop::skip(format!(
            "too slow to tell: nothing was missed in {} commits",
            tally.commits
        )));
    }
    check!(tally.missed() > 0, "nothing was missed: {tally:?}");
    Ok(())
}

fn must_not_miss(tally: Tally) -> Verdict {
    check!(tally.missed() == 0, "{tally:?}");
    Ok(())
}

/// A batch that can be committed again and again.
fn sealed(b: &Bench, fill: impl FnOnce(&mut Batch) -> Verdict) -> Result<SealedBatch, Stop> {
    let mut batch = b.batch();
    fill(&mut batch)?;
    Ok(batch.seal())
}

fn commit(connection: &mut Connection, sealed: &mut SealedBatch) -> Verdict {
    let outcome = connection.commit(sealed);
    check!(outcome.is_committed(), "{outcome}");
    Ok(())
}

fn replace_service(batch: &mut Batch, count: u32) -> Verdict {
    let services = batch.set(IP, T, "services")?;
    batch.delete_elements(services, [service_key()])?;
    batch.add_elements(services, [service(class(count))])?;
    Ok(())
}

fn service_key() -> Elem<'static> {
    Elem::new(Value::u32_be(u32::from(TARGET)))
}

/// Two endpoints, one, two: the packet that read "two" does not find the second.
fn count_and_slot_changed_in_one_batch_are_seen_half(b: &mut Bench) -> Verdict {
    Arena { twice: false }.load(b)?;
    let second = slot_key(1);
    let mut shrink = sealed(b, |batch| {
        replace_service(batch, 1)?;
        let endpoints = batch.set(IP, T, "endpoints")?;
        batch.delete_elements(endpoints, [Elem::new(Value::new(&second))])?;
        Ok(())
    })?;
    let mut grow = sealed(b, |batch| {
        replace_service(batch, 2)?;
        let endpoints = batch.set(IP, T, "endpoints")?;
        batch.add_elements(endpoints, [slot(&second)])?;
        Ok(())
    })?;
    must_miss(race(b, true, |connection| {
        commit(connection, &mut shrink)?;
        commit(connection, &mut grow)
    })?)
}

/// The row of the service is replaced; what it leads to stays.
fn change_count(b: &mut Bench, twice: bool) -> Result<Tally, Stop> {
    Arena { twice }.load(b)?;
    let mut one = sealed(b, |batch| replace_service(batch, 1))?;
    let mut two = sealed(b, |batch| replace_service(batch, 2))?;
    race(b, false, |connection| {
        commit(connection, &mut one)?;
        commit(connection, &mut two)
    })
}

fn a_count_that_changes_beside_slots_that_stay_is_never_missed(b: &mut Bench) -> Verdict {
    let tally = change_count(b, false)?;
    // A row that is replaced may be missed on older kernels; that is the next case.
    check!(tally.slotless == 0, "{tally:?}");
    Ok(())
}

/// Before Linux 6.17 a lookup that began before the commit may find neither the old nor the new.
fn a_row_that_is_replaced_is_always_found(b: &mut Bench) -> Verdict {
    let tally = change_count(b, false)?;
    if tally.missed() > 0 && !b.can.lookup_restart {
        return Err(Stop::skip(format!(
            "before Linux 6.17 a replaced row may be missed: {} of {} packets here",
            tally.missed(),
            tally.sent
        )));
    }
    must_not_miss(tally)
}

fn a_second_lookup_finds_what_the_first_one_missed(b: &mut Bench) -> Verdict {
    let tally = change_count(b, true)?;
    must_not_miss(tally)
}

/// Chains that a batch makes are empty for packets that came before it.
fn a_class_that_is_made_and_used_in_one_batch_is_seen_half(b: &mut Bench) -> Verdict {
    Arena { twice: false }.load(b)?;
    let mut make = sealed(b, |batch| {
        add_class(batch, 2, "class-3")?;
        let dispatch = batch.set(IP, T, "dispatch")?;
        batch.add_elements(dispatch, [class_row(3, "class-3")])?;
        replace_service(batch, 3)
    })?;
    let mut remove = sealed(b, |batch| {
        replace_service(batch, 2)?;
        let dispatch = batch.set(IP, T, "dispatch")?;
        batch.delete_elements(dispatch, [Elem::new(Value::u32_ne(3 << 20))])?;
        batch.delete_chain(IP, T, nft_batch::By::Name("class-3"))?;
        Ok(())
    })?;
    // What falls off the end of a chain that is empty goes back to the base chain, which goes on
    // to its end.
    let tally = race(b, true, |connection| {
        commit(connection, &mut make)?;
        commit(connection, &mut remove)
    })?;
    must_miss(tally)
}

/// And removed some time after it: no packet is under way that long.
fn a_class_that_is_made_before_its_use_is_never_missed(b: &mut Bench) -> Verdict {
    let second_lookup_helps = !b.can.lookup_restart;
    Arena {
        twice: second_lookup_helps,
    }
    .load(b)?;
    let mut make = sealed(b, |batch| {
        add_class(batch, 2, "class-3")?;
        let dispatch = batch.set(IP, T, "dispatch")?;
        batch.add_elements(dispatch, [class_row(3, "class-3")])?;
        Ok(())
    })?;
    let mut use_it = sealed(b, |batch| replace_service(batch, 3))?;
    let mut leave_it = sealed(b, |batch| replace_service(batch, 2))?;
    commit(&mut b.connection, &mut make)?;
    let tally = race(b, false, |connection| {
        commit(connection, &mut use_it)?;
        commit(connection, &mut leave_it)
    })?;
    must_not_miss(tally)
}
