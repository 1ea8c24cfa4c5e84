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
//! [`check_order`] looks at the objects instead of packets: chains come before the rows that lead
//! to them and go after them.

use core::fmt;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use super::eval::outcomes;
use super::kernel::Kernel;
use super::packet::{Endpoint, Host, Outcome, Packet, Verdict};
use super::reader::View;
use super::table::Table;
use super::timeline::Timeline;
use crate::plan::{Datum, Family, Key, Name, Route, Statement};

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
            let mut whole = BTreeMap::new();
            (timeline.first..=timeline.last).find_map(|entered| {
                let until = timeline.visible_until(entered, windows.hold);
                let view = View {
                    until,
                    late: Some((&timeline, windows.settle)),
                };
                violation(kernel, packet, host, entered, view, &mut whole)
            })
        })
        .collect()
}

fn violation(
    kernel: &Kernel,
    packet: &Packet,
    host: &Host,
    entered: u64,
    view: View<'_>,
    whole: &mut BTreeMap<u64, BTreeSet<Verdict>>,
) -> Option<Violation> {
    let until = view.until;
    if entered == until {
        return None;
    }
    let mut expected = BTreeSet::new();
    for generation in entered..=until {
        let verdicts = whole.entry(generation).or_insert_with(|| {
            let outcomes = outcomes(kernel, packet, host, generation, View::of(generation));
            outcomes
                .into_iter()
                .map(|(outcome, _)| outcome.verdict)
                .collect()
        });
        expected.extend(verdicts.iter().copied());
    }
    // The source of a connection to an endpoint on its way out may be either address.
    let endpoints: BTreeSet<_> = expected.iter().copied().map(endpoint).collect();
    let must_arrive = !endpoints.contains(&None);
    let outcomes = outcomes(kernel, packet, host, entered, view);
    let wrong = outcomes
        .into_iter()
        .map(|(outcome, _)| outcome)
        .find(|outcome| {
            let reached = endpoint(outcome.verdict);
            (must_arrive || reached.is_some()) && !endpoints.contains(&reached)
        })?;
    Some(Violation {
        packet: packet.clone(),
        entered,
        until,
        outcome: Box::new(wrong),
        expected,
    })
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

/// An object that came too late or went too early.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OrderViolation {
    /// A row leads to a class that was not there, chain and verdict row, one commit before.
    ClassTooLate {
        /// The row's route.
        route: Route,
        /// The row's generation.
        generation: u64,
    },
    /// A class's verdict row or chain went while packets may still have held a route to it.
    ClassTooEarly {
        /// Class number.
        class: u32,
        /// Generation without the class.
        generation: u64,
    },
}

/// Checks that classes exist a commit before the first row that leads to them and `hold` longer
/// than the last. Rows in maps that no base chain leads to, such as those of a table not yet or no
/// more in use, lead nowhere.
#[must_use]
pub fn check_order(kernel: &Kernel, family: Family, hold: Duration) -> Vec<OrderViolation> {
    let timeline = Timeline::new(kernel);
    let table = kernel.table(family);
    let states: BTreeMap<u64, State> = (timeline.first..=timeline.last)
        .map(|generation| (generation, State::of(table, generation)))
        .collect();
    let mut violations = Vec::new();
    for ((_, before), (&generation, now)) in states.iter().zip(states.iter().skip(1)) {
        for &route in now.routes.difference(&before.routes) {
            if !before.classes.contains(&route.class()) {
                violations.push(OrderViolation::ClassTooLate { route, generation });
            }
        }
        for &class in before.classes.difference(&now.classes) {
            // Every state that a packet still on its way may have read.
            let used = states
                .range(..generation)
                .filter(|(old, _)| timeline.visible_until(**old, hold) >= generation)
                .any(|(_, old)| old.routes.iter().any(|route| route.class() == class));
            if used {
                violations.push(OrderViolation::ClassTooEarly { class, generation });
            }
        }
    }
    violations
}

/// Who leads where at one generation.
struct State {
    /// Routes in maps that packets are looked up in.
    routes: BTreeSet<Route>,
    /// Classes whose verdict row leads to a chain with rules, or drops.
    classes: BTreeSet<u32>,
}

impl State {
    fn of(table: &Table, generation: u64) -> Self {
        let chain = |name: &Name| table.chains.get(name)?.at(generation);
        let rows = |name: &Name| {
            let set = table.sets.get(name);
            set.into_iter()
                .flat_map(|set| &set.rows)
                .filter_map(move |(key, versions)| Some((*key, versions.at(generation)?)))
        };
        let mut reached: Vec<&Name> = table
            .chains
            .keys()
            .filter(|name| chain(name).is_some_and(|chain| chain.base.is_some()))
            .collect();
        let mut seen: BTreeSet<&Name> = reached.iter().copied().collect();
        let mut maps = BTreeSet::new();
        while let Some(name) = reached.pop() {
            let rules = chain(name).into_iter().flat_map(|chain| chain.rules.iter());
            for statement in rules.flat_map(|rule| &rule.statements) {
                let mut leads_to: Vec<&Name> = match statement {
                    Statement::Jump(to) | Statement::Goto(to) => vec![to],
                    _ => Vec::new(),
                };
                if let Some(set) = statement.set()
                    && maps.insert(set)
                {
                    leads_to.extend(rows(set).filter_map(|(_, datum)| match datum {
                        Datum::Goto(to) => Some(to),
                        _ => None,
                    }));
                }
                reached.extend(leads_to.into_iter().filter(|to| seen.insert(to)));
            }
        }
        let routes = maps
            .iter()
            .flat_map(|map| rows(map))
            .filter_map(|(_, datum)| match datum {
                Datum::Route(route) => Some(*route),
                _ => None,
            });
        let has_rules = |name| chain(name).is_some_and(|chain| !chain.rules.is_empty());
        let verdicts = table.sets.keys().flat_map(rows);
        let classes = verdicts.filter_map(|(key, datum)| match (key, datum) {
            (Key::Class(class), Datum::Goto(to)) if has_rules(to) => Some(Route(class).class()),
            (Key::Class(class), Datum::Drop) => Some(Route(class).class()),
            _ => None,
        });
        Self {
            routes: routes.collect(),
            classes: classes.collect(),
        }
    }
}
