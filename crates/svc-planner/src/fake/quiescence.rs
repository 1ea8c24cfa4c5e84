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
//! - a packet is only delivered where some generation in sight would have delivered it;
//! - if all generations in sight deliver it whatever the random numbers are, it is delivered.
//!
//! A packet's client may be stuck to any endpoint that some generation may have remembered for it, or
//! to none; each is tried, and stays so while the packet is on its way.
//!
//! [`check_order`] looks at the objects instead of packets: chains come before the rows that lead
//! to them and go after them.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::clients::Memory;
use super::eval::outcomes;
use super::kernel::Kernel;
use super::packet::{Endpoint, Host, Outcome, Packet, Step, Verdict};
use super::reader::{View, answers};
use super::timeline::Timeline;
use crate::plan::{EndpointId, Family, Key, Name};

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
    check_with_owners(kernel, windows, packets, host, &|_, _| false)
}

/// As [`check`], but knows more than the states tell: whether a packet is for a Service that has, or
/// had, an endpoint. When a Service's address goes while its endpoint is replaced, a packet may
/// reach the new endpoint through the old address.
#[must_use]
pub fn check_with_owners(
    kernel: &Kernel,
    windows: Windows,
    packets: &[Packet],
    host: &Host,
    is_own: &dyn Fn(&Packet, &Endpoint) -> bool,
) -> Vec<Violation> {
    let timeline = Timeline::new(kernel);
    packets
        .iter()
        .filter_map(|packet| {
            let stranger = Memory::Assumed(None);
            let whole = all_whole(kernel, &timeline, packet, host, stranger);
            let stuck: BTreeSet<_> = whole.iter().flat_map(|it| it.stuck.clone()).collect();
            let known = |row| (row, all_whole(kernel, &timeline, packet, host, row));
            let rows = stuck.iter().map(|row| known(Memory::Assumed(Some(row))));
            let mut all = core::iter::once((stranger, whole)).chain(rows);
            all.find_map(|(memory, whole)| {
                (timeline.first..)
                    .zip(0..whole.len())
                    .find_map(|(entered, index)| {
                        let until = timeline.visible_until(entered, windows.hold);
                        let length = usize::try_from(until - entered).unwrap_or(usize::MAX);
                        let seen = whole.get(index..=index.saturating_add(length))?;
                        let view = View {
                            until,
                            late: Some((&timeline, windows.settle)),
                        };
                        let outcomes = || outcomes(kernel, packet, host, entered, view, memory);
                        let (wrong, expected) =
                            wrong(seen, outcomes, |endpoint| is_own(packet, endpoint))?;
                        Some(Violation {
                            packet: packet.clone(),
                            entered,
                            until,
                            outcome: Box::new(wrong),
                            expected,
                        })
                    })
            })
        })
        .collect()
}

/// What becomes of a packet at each generation.
fn all_whole(
    kernel: &Kernel,
    timeline: &Timeline,
    packet: &Packet,
    host: &Host,
    memory: Memory<'_>,
) -> Vec<Rc<Whole>> {
    let mut whole: Vec<Rc<Whole>> = Vec::new();
    for generation in timeline.first..=timeline.last {
        let next = match whole.last() {
            Some(last) if !last.is_changed(kernel, packet, generation) => Rc::clone(last),
            _ => Rc::new(Whole::of(kernel, packet, host, generation, memory)),
        };
        whole.push(next);
    }
    whole
}

/// What becomes of a packet that sees nothing but one generation.
struct Whole {
    verdicts: BTreeSet<Verdict>,
    /// Rows and chains looked at.
    rows: BTreeSet<(Name, Key)>,
    chains: BTreeSet<Name>,
    /// What the rules may remember of the packet's client.
    stuck: BTreeSet<(Name, EndpointId)>,
}

impl Whole {
    fn of(
        kernel: &Kernel,
        packet: &Packet,
        host: &Host,
        generation: u64,
        memory: Memory<'_>,
    ) -> Self {
        let mut whole = Self {
            verdicts: BTreeSet::new(),
            rows: BTreeSet::new(),
            chains: BTreeSet::new(),
            stuck: BTreeSet::new(),
        };
        let view = View::of(generation);
        for (outcome, _) in outcomes(kernel, packet, host, generation, view, memory) {
            whole.verdicts.insert(outcome.verdict);
            for step in outcome.trace {
                match step {
                    Step::Hook { chain, .. } | Step::Chain { chain } => {
                        whole.chains.insert(chain);
                    }
                    Step::Lookup { set, key, .. } => {
                        whole.rows.insert((set, key));
                    }
                    Step::Stuck { map, endpoint, .. } => {
                        whole.stuck.insert((map, endpoint));
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

/// The first outcome that none of the generations seen, each as a whole, accounts for, and the
/// verdicts that they do account for.
fn wrong(
    seen: &[Rc<Whole>],
    outcomes: impl FnOnce() -> Vec<(Outcome, f64)>,
    is_own: impl Fn(&Endpoint) -> bool,
) -> Option<(Outcome, BTreeSet<Verdict>)> {
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
    let mut outcomes = outcomes().into_iter().map(|(outcome, _)| outcome);
    let wrong = outcomes.find(|outcome| match endpoint(outcome.verdict) {
        None => must_arrive,
        Some(reached) => !endpoints.contains(&Some(reached)) && !is_own(&reached),
    })?;
    Some((wrong, expected))
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
