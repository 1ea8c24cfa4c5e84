//! No flow to a Service that has an endpoint all along may leave the node untranslated or reach
//! another Service, whatever is committed meanwhile. A short form by default; with `KPROXY_LONG=1`
//! a million flows for each kind of change, hook and family.

use core::time::Duration;
use std::{
    env,
    sync::{Mutex, PoisonError},
    thread,
};

use anyhow::{Context as _, Result, ensure};
use e2e::race::{Arena, Contender, Control, Frontend, Hook, Replay, Sequence, Tally};
use svc_planner::plan::Family;

const VARIANTS: [(Family, Hook); 4] = [
    (Family::Ipv4, Hook::Prerouting),
    (Family::Ipv4, Hook::Output),
    (Family::Ipv6, Hook::Prerouting),
    (Family::Ipv6, Hook::Output),
];
const FLOWS: u64 = 1_000_000;
/// Each race wants two CPUs for itself.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// How long a race may take; the long form ends by its flows.
fn time(short: Duration) -> Duration {
    if env::var_os("KPROXY_LONG").is_some() {
        Duration::from_secs(600)
    } else {
        short
    }
}

/// Whether the machine can race at all.
fn has_two_cpus() -> Result<bool> {
    let two = thread::available_parallelism()?.get() >= 2;
    if !two {
        test_support::skip("a race needs two CPUs");
    }
    Ok(two)
}

/// If this sees no miss, the other races prove nothing.
#[test]
fn count_and_slot_in_one_batch_loses_flows() -> Result<()> {
    if !has_two_cpus()? {
        return Ok(());
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (family, hook) in VARIANTS {
        let arena = Arena::new(family, hook, Frontend::ClusterIp)?;
        let mut control = Control::new(&arena)?;
        let mut tallies = Vec::new();
        while tallies.last().is_none_or(|tally: &Tally| tally.missed == 0) {
            ensure!(
                tallies.len() < 60,
                "{family:?} {hook:?}: blind: {tallies:?}"
            );
            let tally = arena.race(FLOWS, Duration::from_secs(1), || control.cycle())?;
            tallies.push(tally);
        }
        println!("control, {family:?} {hook:?}: {tallies:?}");
    }
    Ok(())
}

/// Nor if what nobody serves were not missed, wherever it ends.
#[test]
fn what_nobody_serves_is_missed() -> Result<()> {
    if !has_two_cpus()? {
        return Ok(());
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for frontend in [Frontend::NodePort, Frontend::LoadBalancer] {
        for (family, hook) in VARIANTS {
            let arena = Arena::new(family, hook, frontend)?;
            let tally = arena.race(1_000, Duration::from_secs(10), || Ok(()))?;
            let lost = tally.missed + tally.refused < tally.sent;
            let what = format!("{frontend:?}, {family:?} {hook:?}: {tally:?}");
            println!("{what}");
            ensure!(tally.served == 0 && tally.missed > 0 && !lost, "{what}");
        }
    }
    Ok(())
}

fn race(sequence: Sequence, short: Duration) -> Result<()> {
    race_by(sequence, short, false)
}

/// As [`race`], for a Service whose clients stick to endpoints if `sticky`.
fn race_by(sequence: Sequence, short: Duration, sticky: bool) -> Result<()> {
    if !has_two_cpus()? {
        return Ok(());
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (family, hook) in VARIANTS {
        let arena = Arena::new(family, hook, Frontend::ClusterIp)?;
        let mut contender = if sticky {
            Contender::sticky(&arena)?
        } else {
            Contender::new(&arena)?
        };
        let tally = arena
            .race(FLOWS, time(short), || contender.cycle(sequence))
            .with_context(|| format!("{sequence:?}, {family:?} {hook:?}"))?;
        let what = format!("{sequence:?}, {family:?} {hook:?}");
        judge(&what, tally)?;
        let made = contender.made();
        let done = match sequence {
            Sequence::Classes => made.chains_added > 0 && made.chains_deleted > 0,
            Sequence::Growth | Sequence::TakeOver => made.sets_added > 0 && made.sets_deleted > 0,
            _ => true,
        };
        ensure!(done, "{what}: not what was to be tested: {made:?}");
    }
    Ok(())
}

/// A race at the kernel's full rate: what the engine commits, recorded and encoded before.
fn replay(sequence: Sequence, period: usize, frontend: Frontend) -> Result<()> {
    if !has_two_cpus()? {
        return Ok(());
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let short = Duration::from_millis(match frontend {
        Frontend::ClusterIp => 1_000,
        Frontend::NodePort | Frontend::LoadBalancer => 500,
    });
    for (family, hook) in VARIANTS {
        let arena = Arena::new(family, hook, frontend)?;
        let mut contender = Contender::new(&arena)?;
        let mut replay = Replay::record(&arena, &mut contender, sequence, period)?;
        let what = format!("{sequence:?} replayed, {frontend:?}, {family:?} {hook:?}");
        let tally = arena
            .race(FLOWS, time(short), || replay.cycle())
            .with_context(|| what.clone())?;
        judge(&what, tally)?;
    }
    Ok(())
}

/// Source ranges are replaced again and again: who is in all of them is always served, who is in none
/// never.
fn replace_ranges(sequence: Sequence) -> Result<()> {
    if !has_two_cpus()? {
        return Ok(());
    }
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for (family, hook) in VARIANTS {
        let arena = Arena::new(family, hook, Frontend::ClusterIp)?;
        let mut contender = Contender::new(&arena)?;
        contender.cycle(sequence)?;
        let short = time(Duration::from_secs(3));
        let tally = arena.race(FLOWS, short, || contender.cycle(sequence))?;
        let what = format!("{sequence:?}, {family:?} {hook:?}");
        if sequence == Sequence::Admitted {
            judge(&what, tally)?;
            // A thousandth is more than ports or buffers ever cost here.
            ensure!(
                tally.sent - tally.served <= tally.sent / 1_000,
                "{what}: {tally:?}"
            );
        } else {
            println!("{what}: {tally:?}");
            ensure!(
                tally.served == 0 && tally.missed == 0 && tally.foreign == 0,
                "{what}: {tally:?}"
            );
            ensure!(tally.sent + tally.refused > 1_000, "{what}: {tally:?}");
        }
        ensure!(tally.cycles > 10, "{what}: too few changes: {tally:?}");
    }
    Ok(())
}

#[test]
fn source_ranges_never_drop_the_admitted() -> Result<()> {
    replace_ranges(Sequence::Admitted)
}

#[test]
fn source_ranges_never_admit_the_excluded() -> Result<()> {
    replace_ranges(Sequence::Excluded)
}

fn judge(what: &str, tally: Tally) -> Result<()> {
    println!("{what}: {tally:?}");
    ensure!(tally.missed == 0 && tally.foreign == 0, "{what}: {tally:?}");
    // The rest must have been tested: served, or dropped to be tried again, which is rare.
    ensure!(
        tally.served > tally.sent - tally.sent / 100 && tally.cycles > 1,
        "{what}: too few served: {tally:?}"
    );
    Ok(())
}

#[test]
fn count_changes_at_full_rate() -> Result<()> {
    replay(Sequence::Count, 2, Frontend::ClusterIp)
}

#[test]
fn endpoint_replacement_at_full_rate() -> Result<()> {
    replay(Sequence::Replacement, 3, Frontend::ClusterIp)
}

#[test]
fn count_changes_of_a_node_port() -> Result<()> {
    replay(Sequence::Count, 2, Frontend::NodePort)
}

#[test]
fn endpoint_replacement_of_a_node_port() -> Result<()> {
    replay(Sequence::Replacement, 3, Frontend::NodePort)
}

#[test]
fn count_changes_of_a_load_balancer() -> Result<()> {
    replay(Sequence::Count, 2, Frontend::LoadBalancer)
}

#[test]
fn endpoint_replacement_of_a_load_balancer() -> Result<()> {
    replay(Sequence::Replacement, 3, Frontend::LoadBalancer)
}

#[test]
fn count_changes() -> Result<()> {
    race(Sequence::Count, Duration::from_secs(1))
}

#[test]
fn endpoint_replacement() -> Result<()> {
    race(Sequence::Replacement, Duration::from_secs(1))
}

#[test]
fn class_creation_and_removal() -> Result<()> {
    race(Sequence::Classes, Duration::from_secs(6))
}

#[test]
fn map_growth() -> Result<()> {
    race(Sequence::Growth, Duration::from_secs(6))
}

#[test]
fn table_take_over() -> Result<()> {
    race(Sequence::TakeOver, Duration::from_secs(6))
}

/// Clients stick to an endpoint that comes and goes.
#[test]
fn count_changes_with_affinity() -> Result<()> {
    race_by(Sequence::Count, Duration::from_secs(1), true)
}

#[test]
fn endpoint_replacement_with_affinity() -> Result<()> {
    let time = Duration::from_secs(1);
    race_by(Sequence::Replacement, time, true)
}

#[test]
fn table_take_over_with_affinity() -> Result<()> {
    race_by(Sequence::TakeOver, Duration::from_secs(4), true)
}
