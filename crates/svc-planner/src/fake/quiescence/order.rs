//! Chains come before the rows that lead to them and go after them.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use crate::fake::kernel::Kernel;
use crate::fake::table::Table;
use crate::fake::timeline::Timeline;
use crate::plan::{Datum, Family, Key, Name, Route, Statement};

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
    /// A row names a list of source ranges that was not complete one commit before.
    ListTooLate {
        /// List number.
        list: u32,
        /// The row's generation.
        generation: u64,
    },
    /// Ranges of a list went, or came, while packets may still have held its number.
    ListChanged {
        /// List number.
        list: u32,
        /// Generation that changed them.
        generation: u64,
    },
}

/// Checks that classes and lists of source ranges exist a commit before the first row that leads to them and `hold` longer
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
        let kept: BTreeSet<&(Name, u32)> = before.ranges.keys().chain(now.ranges.keys()).collect();
        for of_set in kept {
            if before.ranges.get(of_set) == now.ranges.get(of_set) {
                continue;
            }
            // A table that is taken over numbers its lists in a set of its own.
            let (set, list) = of_set;
            let names = |state: &State| state.sets.contains(set) && state.lists.contains(list);
            let list = *list;
            let is_named = states
                .range(..generation)
                .filter(|(old, _)| timeline.visible_until(**old, hold) >= generation)
                .any(|(_, old)| names(old));
            if is_named {
                violations.push(OrderViolation::ListChanged { list, generation });
            } else if names(now) && before.in_force {
                violations.push(OrderViolation::ListTooLate { list, generation });
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
    /// Lists of source ranges named in maps that packets are looked up in.
    lists: BTreeSet<u32>,
    /// Sets that packets are looked up in.
    sets: BTreeSet<Name>,
    /// The ranges of each list of each set, wherever it is.
    ranges: BTreeMap<(Name, u32), BTreeSet<IpNet>>,
    /// There are base chains.
    in_force: bool,
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
        let in_force = !reached.is_empty();
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
        let mut routes = BTreeSet::new();
        let mut lists = BTreeSet::new();
        for (_, datum) in maps.iter().flat_map(|map| rows(map)) {
            match datum {
                Datum::Route(route) => {
                    routes.insert(*route);
                }
                Datum::List(list) => {
                    lists.insert(*list);
                }
                _ => {}
            }
        }
        let mut ranges: BTreeMap<(Name, u32), BTreeSet<IpNet>> = BTreeMap::new();
        for set in table.sets.keys() {
            for (key, _) in rows(set) {
                if let Key::Source { list, range } = key {
                    let list = ranges.entry((set.clone(), list)).or_default();
                    list.insert(range);
                }
            }
        }
        let has_rules = |name| chain(name).is_some_and(|chain| !chain.rules.is_empty());
        let verdicts = table.sets.keys().flat_map(rows);
        let classes = verdicts.filter_map(|(key, datum)| match (key, datum) {
            (Key::Class(class), Datum::Goto(to)) if has_rules(to) => Some(Route(class).class()),
            (Key::Class(class), Datum::Drop) => Some(Route(class).class()),
            _ => None,
        });
        Self {
            routes,
            classes: classes.collect(),
            lists,
            sets: maps.into_iter().cloned().collect(),
            ranges,
            in_force,
        }
    }
}
