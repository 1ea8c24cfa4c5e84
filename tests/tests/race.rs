//! No flow to a Service that has an endpoint all along may leave the node untranslated or reach
//! another Service, whatever is committed meanwhile.

use anyhow::{Result, ensure};
use e2e::race::{Arena, Control, Hook};
use svc_planner::plan::Family;

const VARIANTS: [(Family, Hook); 4] = [
    (Family::Ipv4, Hook::Prerouting),
    (Family::Ipv4, Hook::Output),
    (Family::Ipv6, Hook::Prerouting),
    (Family::Ipv6, Hook::Output),
];

/// If this sees no miss, the other races prove nothing.
#[test]
fn count_and_slot_in_one_batch_loses_flows() -> Result<()> {
    for (family, hook) in VARIANTS {
        let arena = Arena::new(family, hook)?;
        let mut control = Control::new(&arena)?;
        let tally = arena.race(1_000_000, || control.cycle(), |tally| tally.missed > 0)?;
        println!("{family:?} {hook:?}: {tally:?}");
        ensure!(tally.missed > 0, "{family:?} {hook:?}: blind: {tally:?}");
    }
    Ok(())
}
