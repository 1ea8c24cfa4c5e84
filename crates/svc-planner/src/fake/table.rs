use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::IpNet;

use super::clients::Clients;
use super::versions::Versions;
use crate::plan::{BaseChain, Datum, Family, Key, KeyType, Name, Rule, Set, Statement};

/// A chain at one generation.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    pub(super) base: Option<BaseChain>,
    /// Order of creation; decides between base chains of equal priority.
    pub(super) serial: u64,
    pub(super) rules: Arc<Vec<Rule>>,
}

/// A set, its rows, and what both once were.
#[derive(Debug, Default)]
pub(super) struct SetHistory {
    pub(super) definition: Versions<Arc<Set>>,
    /// Order of creation.
    pub(super) serial: u64,
    /// Key layout and whether keys are prefixes; known after deletion, too, and never different
    /// for one name in this design.
    pub(super) layout: Option<(KeyType, bool)>,
    pub(super) rows: BTreeMap<Key, Versions<Datum>>,
    /// Rows of a dynamic map, which has no others.
    pub(super) clients: Option<Clients>,
    /// Rows after the newest change, committed or pending.
    pub(super) live: usize,
}

/// The table `kube-proxy` of one family, with its history.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) family: Family,
    pub(super) exists: Versions<()>,
    pub(super) chains: BTreeMap<Name, Versions<Chain>>,
    pub(super) sets: BTreeMap<Name, SetHistory>,
}

impl Table {
    pub(super) fn new(family: Family) -> Self {
        Self {
            family,
            exists: Versions::default(),
            chains: BTreeMap::new(),
            sets: BTreeMap::new(),
        }
    }

    pub(super) fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.get(name)?.latest()
    }

    pub(super) fn set(&self, name: &str) -> Option<&Arc<Set>> {
        self.sets.get(name)?.definition.latest()
    }

    /// Who keeps a chain from being deleted: a rule or a verdict row that leads to it.
    pub(super) fn chain_user(&self, name: &str) -> Option<String> {
        let by_rule = self.live_rules().find_map(|(chain, index, rule)| {
            let leads = rule.statements.iter().any(|statement| {
                matches!(statement, Statement::Jump(to) | Statement::Goto(to) if &**to == name)
            });
            leads.then(|| format!("rule {index} of chain {chain}"))
        });
        by_rule.or_else(|| {
            self.sets.iter().find_map(|(set, history)| {
                let (key, _) = history.rows.iter().find(|(_, versions)| {
                    matches!(versions.latest(), Some(Datum::Goto(to)) if &**to == name)
                })?;
                Some(format!("row {key} of map {set}"))
            })
        })
    }

    /// Which rule keeps a set from being deleted.
    pub(super) fn set_user(&self, name: &str) -> Option<String> {
        self.live_rules().find_map(|(chain, index, rule)| {
            let looks_up = rule
                .statements
                .iter()
                .any(|statement| statement.set().is_some_and(|set| &**set == name));
            looks_up.then(|| format!("rule {index} of chain {chain}"))
        })
    }

    fn live_rules(&self) -> impl Iterator<Item = (&Name, usize, &Rule)> {
        self.chains
            .iter()
            .filter_map(|(name, versions)| Some((name, versions.latest()?)))
            .flat_map(|(name, chain)| {
                chain
                    .rules
                    .iter()
                    .enumerate()
                    .map(move |(index, rule)| (name, index, rule))
            })
    }

    /// Forgets what no reader at `oldest` or later can see.
    pub(super) fn forget(&mut self, oldest: u64) {
        self.exists.forget(oldest);
        self.chains.retain(|_, versions| !versions.forget(oldest));
        self.sets.retain(|_, set| {
            set.rows.retain(|_, versions| !versions.forget(oldest));
            !set.definition.forget(oldest)
        });
    }
}

impl Statement {
    /// The set or map the statement looks up.
    pub(super) fn set(&self) -> Option<&Name> {
        match self {
            Self::InSet { set, .. } => Some(set),
            Self::ScratchFromMap { map, .. }
            | Self::Stick { map, .. }
            | Self::Unstick { map, .. }
            | Self::VerdictMap { map, .. }
            | Self::Dnat { map, .. } => Some(map),
            _ => None,
        }
    }
}

impl SetHistory {
    /// A live row that shares keys with `key`, which stands for several; live rows are disjoint.
    pub(super) fn overlapping(&self, key: &Key) -> Option<IpNet> {
        let list = match key {
            Key::Source { list, .. } => Some(*list),
            _ => None,
        };
        let (Key::Prefix(prefix) | Key::Source { range: prefix, .. }) = *key else {
            return None;
        };
        let key_of = |net| match list {
            None => Key::Prefix(net),
            Some(list) => Key::Source { list, range: net },
        };
        let live = |net: IpNet| {
            let versions = self.rows.get(&key_of(net))?;
            versions.latest().map(|_| net)
        };
        let around = (0..prefix.prefix_len())
            .filter_map(|length| IpNet::new(prefix.addr(), length).ok())
            .find_map(|net| live(net.trunc()));
        around.or_else(|| {
            // Prefixes inside sort directly behind their own beginning.
            let from = IpNet::new(prefix.network(), 0).unwrap_or(prefix);
            self.rows
                .range(key_of(from)..)
                .map_while(|(other, versions)| match other {
                    Key::Prefix(net) | Key::Source { range: net, .. }
                        if *other == key_of(*net) && prefix.contains(&net.addr()) =>
                    {
                        Some((net, versions))
                    }
                    _ => None,
                })
                .find_map(|(net, versions)| versions.latest().map(|_| *net))
        })
    }
}
