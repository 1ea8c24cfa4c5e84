use core::net::IpAddr;
use core::time::Duration;
use std::collections::BTreeSet;
use std::sync::Arc;

use ipnet::IpNet;

use super::choice::Choose;
use super::clients::Clients;
use super::table::{Chain, SetHistory, Table};
use super::timeline::Timeline;
use super::versions::Versions;
use crate::plan::{BaseChain, Datum, Hook, Key, KeyType, Name, Rule};

/// What of the future a packet can see.
#[derive(Debug, Clone, Copy)]
pub(super) struct View<'a> {
    /// Newest generation in sight.
    pub(super) until: u64,
    /// How long rules can be older than lookups where that makes a new chain be missing; `None`
    /// sets no bound.
    pub(super) late: Option<(&'a Timeline, Duration)>,
}

impl View<'_> {
    /// Nothing but one generation.
    pub(super) const fn of(generation: u64) -> Self {
        Self {
            until: generation,
            late: None,
        }
    }
}

/// Reads a table the way a packet does while transactions commit: the rules it meets between one
/// base chain's first and last rule are those of one generation, each set lookup reads the newest
/// generation anew, and none of these generations is older than one read before
/// (`nft_do_chain` reads the generation's rule blobs once, every set backend's lookup reads the
/// generation cursor itself).
///
/// Where several answers are possible a [`Choose`] decides. A choice only narrows the generations
/// that are still possible, so that all choices together are exactly what packets can see.
pub(super) struct Reader<'a> {
    table: &'a Table,
    choose: &'a mut dyn Choose,
    view: View<'a>,
    /// The newest read cannot have been older.
    floor: u64,
    /// Generations that the current base chain's rules can be of.
    pin: (u64, u64),
    /// The rules cannot be newer than the first lookup that followed.
    bound: u64,
    /// An earlier choice turned out to be one that no packet can take.
    impossible: bool,
}

impl<'a> Reader<'a> {
    /// The first base chain's rules are of generation `first`, the rest is in `view`.
    pub(super) fn new(
        table: &'a Table,
        choose: &'a mut dyn Choose,
        first: u64,
        view: View<'a>,
    ) -> Self {
        Self {
            table,
            choose,
            view,
            floor: first,
            pin: (first, first),
            bound: view.until,
            impossible: false,
        }
    }

    /// Whether a packet can have made all choices so far.
    pub(super) const fn is_possible(&self) -> bool {
        !self.impossible
    }

    /// The key layout of a set.
    pub(super) fn key_type(&self, set: &str) -> Option<KeyType> {
        self.table.sets.get(set)?.layout.map(|(key, _)| key)
    }

    /// The rows of a dynamic map; `None` if it is not one.
    pub(super) fn clients(&self, set: &str) -> Option<&'a Clients> {
        self.table.sets.get(set)?.clients.as_ref()
    }

    /// Room of a set, without a bound if it has none.
    pub(super) fn size(&self, set: &str) -> usize {
        let size = self.table.set(set).and_then(|set| set.size);
        size.map_or(usize::MAX, |size| {
            usize::try_from(size).unwrap_or(usize::MAX)
        })
    }

    /// The oldest generation that the next read can be of.
    pub(super) const fn floor(&self) -> u64 {
        self.floor
    }

    pub(super) fn choose(&mut self, options: usize) -> usize {
        if options == 1 {
            0
        } else {
            self.choose.choose(options)
        }
    }

    /// Base chains of a hook in the order in which they run.
    pub(super) fn base_chains(&self, hook: Hook) -> Vec<(BaseChain, Name)> {
        let mut chains: Vec<_> = self
            .table
            .chains
            .iter()
            .filter_map(|(name, versions)| {
                versions
                    .spans(self.floor, self.view.until)
                    .iter()
                    .rev()
                    .find_map(|span| {
                        let chain = span.value?;
                        let base = chain.base.filter(|base| base.hook == hook)?;
                        Some((base.priority, chain.serial, base, name.clone()))
                    })
            })
            .collect();
        chains.sort_by(|a, b| (a.0, a.1, &a.3).cmp(&(b.0, b.1, &b.3)));
        chains
            .into_iter()
            .map(|(_, _, base, name)| (base, name))
            .collect()
    }

    /// Leaves the rules of the base chain before and takes those of any generation still possible.
    pub(super) fn next_base_chain(&mut self) {
        self.pin = (self.floor, self.view.until);
        self.bound = self.view.until;
    }

    /// A chain's rules; none if it does not exist in the generation of the rules.
    pub(super) fn rules(&mut self, chain: &str) -> Option<Arc<Vec<Rule>>> {
        let versions = self.table.chains.get(chain)?;
        let spans: Vec<_> = versions
            .spans(self.pin.0, self.pin.1.min(self.bound))
            .into_iter()
            .map(|span| (span, self.newest_without(versions, span.last, span.value)))
            .filter(|(_, newest)| *newest >= self.floor)
            .collect();
        let way = self.choose(spans.len().max(1));
        let Some((span, newest)) = spans.get(way) else {
            self.impossible = true;
            return None;
        };
        self.pin = (span.first, span.last);
        self.floor = self.floor.max(span.first);
        self.view.until = *newest;
        span.value.map(|chain| Arc::clone(&chain.rules))
    }

    /// The newest generation in sight of a packet for which a chain has these rules at `last`.
    fn newest_without(&self, versions: &Versions<Chain>, last: u64, rules: Option<&Chain>) -> u64 {
        let until = self.view.until;
        let Some((timeline, settle)) = self.view.late else {
            return until;
        };
        let has_rules = |chain: Option<&Chain>| chain.is_some_and(|chain| !chain.rules.is_empty());
        if has_rules(rules) {
            return until;
        }
        let made = versions
            .changes(last, until)
            .find(|at| has_rules(versions.at(*at)));
        made.map_or(until, |made| {
            timeline.visible_until(made - 1, settle).min(until)
        })
    }

    /// A row's datum, and the first generation at which it can have been read.
    pub(super) fn lookup(&mut self, set: &str, key: &Key) -> (Option<Datum>, u64) {
        let Some(history) = self.table.sets.get(set) else {
            return (None, self.floor);
        };
        let answers = answers(history, key, self.floor, self.view.until);
        let way = self.choose(answers.len());
        let Some((first, last, datum)) = answers.into_iter().nth(way) else {
            return (None, self.floor);
        };
        self.floor = self.floor.max(first);
        self.bound = self.bound.min(last);
        (datum, first)
    }
}

/// What readers at `first ..= last` find under a key, with the generations at which they do.
pub(super) fn answers(
    history: &SetHistory,
    key: &Key,
    first: u64,
    last: u64,
) -> Vec<(u64, u64, Option<Datum>)> {
    let around = |address: IpAddr| {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let nets = (0..=longest).filter_map(move |length| IpNet::new(address, length).ok());
        nets.map(|net| net.trunc())
    };
    let rows: Vec<&Versions<Datum>> = match *key {
        Key::Address(address) if matches!(history.layout, Some((_, true))) => around(address)
            .filter_map(|net| history.rows.get(&Key::Prefix(net)))
            .collect(),
        Key::Source { list, range } => around(range.addr())
            .filter_map(|range| history.rows.get(&Key::Source { list, range }))
            .collect(),
        _ => history.rows.get(key).into_iter().collect(),
    };
    let mut starts: BTreeSet<u64> = rows
        .iter()
        .flat_map(|versions| versions.changes(first, last))
        .collect();
    starts.insert(first);
    let ends = starts.iter().skip(1).map(|next| next - 1).chain([last]);
    starts
        .iter()
        .zip(ends)
        .map(|(start, end)| {
            (
                *start,
                end,
                rows.iter().find_map(|row| row.at(*start)).cloned(),
            )
        })
        .collect()
}
