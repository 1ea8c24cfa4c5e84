//! Proves that packets on their way while transactions commit lose nothing.
//!
//! A packet's set lookups each read the newest generation, its rules are those of the generation at
//! which it entered the hook. So a packet sees a mixture of generations that never go back, all
//! within the time it takes. [`check`] tries all such mixtures: a packet that enters at any
//! generation and may see whatever was committed less than [`Windows::hold`] after that generation
//! ended.
//!
//! What is right is derived from the same states, each looked at as a whole:
//!
//! - a packet is only delivered where some generation in sight would have delivered it, whatever
//!   sets of addresses it is looked up in before (a node port that comes while an address goes may
//!   be served on it for a moment);
//! - if all generations in sight deliver it whatever the random numbers are, it is delivered.
//!
//! [`check_order`] looks at the objects instead of packets: chains come before the rows that lead
//! to them and go after them.

use core::fmt;
use core::ops::RangeInclusive;
use core::time::Duration;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::eval::outcomes;
use super::kernel::Kernel;
use super::packet::{Endpoint, Host, Outcome, Packet, Step, Verdict};
use super::reader::{View, answers};
use super::timeline::Timeline;
use crate::plan::{Family, Key, Name};

mod order;

pub use self::order::{OrderViolation, check_order};

/// A packet that was lost or misled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The packet.
    pub packet: Packet,
    /// Generation at which it entered.
    pub entered: u64,
    /// Newest generation it may have seen.
    pub until: u64,
    /// What became of it, and how.
    pub outcome: Box<Outcome>,
    /// What should have become of it.
    pub expected: BTreeSet<Verdict>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            packet,
            entered,
            until,
            outcome,
            expected,
        } = self;
        write!(
            f,
            "{packet}, generations {entered} to {until}: {}; expected: ",
            outcome.verdict
        )?;
        for (index, verdict) in expected.iter().enumerate() {
            write!(f, "{}{verdict}", if index > 0 { " or " } else { "" })?;
        }
        for step in &outcome.trace {
            write!(f, "\n  {step}")?;
        }
        Ok(())
    }
}

/// How long packets can be on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Longest way of a packet: so long it may hold what it read.
    pub hold: Duration,
    /// Longest way between entering a hook and reaching a chain there: so long it may find a chain
    /// without rules that was made after it entered. No longer than `hold`, and often shorter: a
    /// chain that comes too late costs one packet, and waiting for it delays all.
    pub settle: Duration,
}

/// Checks the packets against the kernel's whole history; one violation a packet at most.
#[must_use]
pub fn check(kernel: &Kernel, windows: Windows, packets: &[Packet], host: &Host) -> Vec<Violation> {
    let timeline = Timeline::new(kernel);
    packets
        .iter()
        .filter_map(|packet| {
            let mut whole: Vec<Rc<Whole>> = Vec::new();
            for generation in timeline.first..=timeline.last {
                let next = match whole.last() {
                    Some(last) if !last.is_changed(kernel, packet, generation) => Rc::clone(last),
                    _ => Rc::new(Whole::of(kernel, packet, host, generation)),
                };
                whole.push(next);
            }
            (timeline.first..)
                .zip(0..whole.len())
                .find_map(|(entered, index)| {
                    let until = timeline.visible_until(entered, windows.hold);
                    let length = usize::try_from(until - entered).unwrap_or(usize::MAX);
                    let seen = whole.get(index..=index.saturating_add(length))?;
                    let view = View {
                        until,
                        late: Some((&timeline, windows.settle)),
                        any_member: false,
                    };
                    violation(kernel, packet, host, entered, view, seen)
                })
        })
        .collect()
}

/// What becomes of a packet that sees nothing but one generation.
struct Whole {
    verdicts: BTreeSet<Verdict>,
    /// Rows and chains looked at.
    rows: BTreeSet<(Name, Key)>,
    chains: BTreeSet<Name>,
}

impl Whole {
    fn of(kernel: &Kernel, packet: &Packet, host: &Host, generation: u64) -> Self {
        let mut whole = Self {
            verdicts: BTreeSet::new(),
            rows: BTreeSet::new(),
            chains: BTreeSet::new(),
        };
        for (outcome, _) in outcomes(kernel, packet, host, generation, View::of(generation)) {
            whole.verdicts.insert(outcome.verdict);
            for step in outcome.trace {
                match step {
                    Step::Hook { chain, .. } | Step::Chain { chain } => {
                        whole.chains.insert(chain);
                    }
                    Step::Lookup { set, key, .. } => {
                        whole.rows.insert((set, key));
                    }
                    _ => {}
                }
            }
        }
        whole
    }

    /// Whether `generation` changed anything that the packet looks at.
    fn is_changed(&self, kernel: &Kernel, packet: &Packet, generation: u64) -> bool {
        let table = kernel.table(packet.family());
        let chains = table.chains.iter().any(|(name, versions)| {
            let spans = versions.spans(generation - 1, generation);
            let is_base = spans
                .iter()
                .any(|span| span.value.is_some_and(|chain| chain.base.is_some()));
            spans.len() > 1 && (is_base || self.chains.contains(name))
        });
        chains
            || self.rows.iter().any(|(set, key)| {
                let set = table.sets.get(set);
                set.is_some_and(|set| answers(set, key, generation - 1, generation).len() > 1)
            })
    }
}

fn violation(
    kernel: &Kernel,
    packet: &Packet,
    host: &Host,
    entered: u64,
    view: View<'_>,
    seen: &[Rc<Whole>],
) -> Option<Violation> {
    // What sees the same in all generations sees the same in all mixtures of them.
    if seen.windows(2).all(|pair| Rc::ptr_eq(&pair[0], &pair[1])) {
        return None;
    }
    let expected: BTreeSet<Verdict> = seen
        .iter()
        .flat_map(|whole| whole.verdicts.iter().copied())
        .collect();
    // The source of a connection to an endpoint on its way out may be either address.
    let endpoints: BTreeSet<_> = expected.iter().copied().map(endpoint).collect();
    let must_arrive = !endpoints.contains(&None);
    let outcomes = outcomes(kernel, packet, host, entered, view);
    let suspects = outcomes
        .into_iter()
        .map(|(outcome, _)| outcome)
        .filter(|outcome| {
            let reached = endpoint(outcome.verdict);
            (must_arrive || reached.is_some()) && !endpoints.contains(&reached)
        });
    let mut elsewhere = None;
    let wrong = suspects.into_iter().find(|suspect| {
        let reached = endpoint(suspect.verdict);
        let of_its_service = || of_any_member(kernel, packet, host, entered..=view.until);
        reached.is_none()
            || !elsewhere
                .get_or_insert_with(of_its_service)
                .contains(&reached)
    })?;
    Some(Violation {
        packet: packet.clone(),
        entered,
        until: view.until,
        outcome: Box::new(wrong),
        expected,
    })
}

/// Endpoints a packet would reach at one of these generations if it was in the right sets.
fn of_any_member(
    kernel: &Kernel,
    packet: &Packet,
    host: &Host,
    generations: RangeInclusive<u64>,
) -> BTreeSet<Option<Endpoint>> {
    let view = |generation| View {
        any_member: true,
        ..View::of(generation)
    };
    generations
        .flat_map(|generation| outcomes(kernel, packet, host, generation, view(generation)))
        .map(|(outcome, _)| endpoint(outcome.verdict))
        .collect()
}

fn endpoint(verdict: Verdict) -> Option<Endpoint> {
    match verdict {
        Verdict::Delivered { endpoint, .. } => Some(endpoint),
        _ => None,
    }
}

/// All Service addresses and ports that rows ever led on from, in maps of frontends.
#[must_use]
pub fn frontends(kernel: &Kernel, family: Family) -> BTreeSet<Key> {
    kernel
        .table(family)
        .sets
        .values()
        .flat_map(|set| set.rows.keys())
        .filter(|key| matches!(key, Key::Frontend { .. } | Key::NodePort { .. }))
        .copied()
        .collect()
}
