//! One transaction, operation by operation, in the order of its fields.

use core::time::Duration;
use std::sync::Arc;

use super::clients::{Client, Clients};
use super::error::{Errno, Op, Refusal, Rejection};
use super::layout::{check_datum, check_key, check_name, check_rule};
use super::table::{Chain, Table};
use super::validate::check_reachable;
use crate::plan::{self, Datum, Key, Name, Rule, Set, SetChange, Transaction};

/// Applies a transaction as `generation`, or takes everything back.
pub(super) fn apply(
    table: &mut Table,
    generation: u64,
    now: Duration,
    transaction: &Transaction,
) -> Result<(), Rejection> {
    let mut pending = Pending {
        table,
        generation,
        now,
        undo: Vec::new(),
        validate: false,
    };
    let result = pending.run(transaction);
    if result.is_err() {
        pending.take_back();
    }
    result
}

/// What a failing transaction has to take back.
enum Undo {
    Table,
    Chain(Name),
    Definition(Name),
    Row(Name, Key),
    Live(Name, usize),
    Client(Name, Key, Option<Client>),
    Clients(Name, Option<Clients>),
}

struct Pending<'a> {
    table: &'a mut Table,
    generation: u64,
    now: Duration,
    undo: Vec<Undo>,
    /// A rule or a verdict row was added (the kernel's `NFT_VALIDATE_NEED`).
    validate: bool,
}

impl Pending<'_> {
    fn run(&mut self, t: &Transaction) -> Result<(), Rejection> {
        let family = t.family;
        let at = |op| move |refusal: Refusal| refusal.at(family, op);
        if t.add_table && self.table.exists.latest().is_none() {
            self.table.exists.set(self.generation, Some(()));
            self.undo.push(Undo::Table);
        }
        for (i, name) in t.flush_chains.iter().enumerate() {
            self.flush_chain(name).map_err(at(Op::FlushChain(i)))?;
        }
        for (i, name) in t.replace_chains.iter().enumerate() {
            self.delete_chain(name).map_err(at(Op::ReplaceChain(i)))?;
        }
        for (i, set) in t.add_sets.iter().enumerate() {
            self.add_set(set).map_err(at(Op::AddSet(i)))?;
        }
        for (i, chain) in t.add_chains.iter().enumerate() {
            self.add_chain(chain).map_err(at(Op::AddChain(i)))?;
        }
        for (i, change) in t.elements.iter().enumerate() {
            self.change_elements(i, change)
                .map_err(|(op, refusal)| refusal.at(family, op))?;
        }
        for (i, rule) in t.add_rules.iter().enumerate() {
            self.add_rule(rule).map_err(at(Op::AddRule(i)))?;
        }
        for (i, name) in t.delete_sets.iter().enumerate() {
            self.delete_set(name).map_err(at(Op::DeleteSet(i)))?;
        }
        for (i, name) in t.delete_chains.iter().enumerate() {
            self.delete_chain(name).map_err(at(Op::DeleteChain(i)))?;
        }
        if t.delete_table {
            self.delete_table().map_err(at(Op::DeleteTable))?;
        }
        if self.validate {
            check_reachable(self.table).map_err(at(Op::Validate))?;
        }
        Ok(())
    }

    fn flush_chain(&mut self, name: &Name) -> Result<(), Refusal> {
        let chain = self.existing_chain(name)?;
        if !chain.rules.is_empty() {
            let flushed = Chain {
                rules: Arc::default(),
                ..chain.clone()
            };
            self.put_chain(name, Some(flushed));
        }
        Ok(())
    }

    /// A chain's own rules go with it (`nf_tables_delchain`).
    fn delete_chain(&mut self, name: &Name) -> Result<(), Refusal> {
        self.flush_chain(name)?;
        if let Some(user) = self.table.chain_user(name) {
            return Err(Refusal::new(
                Errno::Ebusy,
                format!("chain {name} is used by {user}"),
            ));
        }
        self.put_chain(name, None);
        Ok(())
    }

    fn add_chain(&mut self, chain: &plan::Chain) -> Result<(), Refusal> {
        self.existing_table()?;
        check_name(&chain.name)?;
        let name = &chain.name;
        match (self.table.chain(name).map(|old| old.base), chain.base) {
            (None, base) => {
                let serial = self.generation;
                self.put_chain(
                    name,
                    Some(Chain {
                        base,
                        serial,
                        rules: Arc::default(),
                    }),
                );
                Ok(())
            }
            (Some(old), new) if old == new => Ok(()),
            // Without a hook in the message nothing is compared (`nf_tables_updchain`).
            (Some(_), None) => Ok(()),
            // It has no policy that could be set.
            (Some(None), Some(_)) => Err(Refusal::new(
                Errno::Eopnotsupp,
                format!("chain {name} exists and is no base chain"),
            )),
            (Some(Some(_)), Some(_)) => Err(Refusal::new(
                Errno::Eopnotsupp,
                format!("base chain {name} exists with another type, hook or priority"),
            )),
        }
    }

    fn add_set(&mut self, set: &Set) -> Result<(), Refusal> {
        self.existing_table()?;
        check_name(&set.name)?;
        let name = &set.name;
        if let Some(old) = self.table.set(name) {
            if **old == *set {
                return Ok(());
            }
            // Another size alone is taken over silently, at commit (6.x) or not at all (older):
            // nothing to build on.
            return Err(Refusal::new(
                Errno::Eexist,
                format!("set {name} exists with other properties"),
            ));
        }
        let history = self.table.sets.entry(name.clone()).or_default();
        history
            .definition
            .set(self.generation, Some(Arc::new(set.clone())));
        history.serial = self.generation;
        history.layout = Some((set.key, set.interval));
        let clients = set.dynamic.then(Clients::default);
        let clients = core::mem::replace(&mut history.clients, clients);
        self.undo.push(Undo::Definition(name.clone()));
        self.undo.push(Undo::Clients(name.clone(), clients));
        Ok(())
    }

    fn change_elements(&mut self, i: usize, change: &SetChange) -> Result<(), (Op, Refusal)> {
        if change.delete.is_empty() && change.add.is_empty() {
            // No message, so nothing to refuse.
            return Ok(());
        }
        let set = self
            .existing_set(&change.set)
            .map(Arc::clone)
            .map_err(|refusal| (Op::Elements(i), refusal))?;
        if (set.key, set.data) != (change.key, change.data) {
            let reason = format!(
                "set {} is {:?} : {:?}, the change says {:?} : {:?}",
                set.name, set.key, set.data, change.key, change.data
            );
            return Err((Op::Elements(i), Refusal::new(Errno::Einval, reason)));
        }
        for (index, key) in change.delete.iter().enumerate() {
            self.delete_row(&set, key)
                .map_err(|refusal| (Op::DeleteElement { change: i, index }, refusal))?;
        }
        for (index, row) in change.add.iter().enumerate() {
            self.add_row(&set, &row.key, &row.datum)
                .map_err(|refusal| (Op::AddElement { change: i, index }, refusal))?;
        }
        Ok(())
    }

    fn delete_row(&mut self, set: &Set, key: &Key) -> Result<(), Refusal> {
        check_key(self.table.family, set, key)?;
        let missing = || Refusal::new(Errno::Enoent, format!("set {} has no row {key}", set.name));
        let history = self.table.sets.get_mut(&set.name).ok_or_else(missing)?;
        if let Some(clients) = &mut history.clients {
            let client = clients.at(key, self.now).ok_or_else(missing)?;
            clients.put(*key, None);
            let undo = Undo::Client(set.name.clone(), *key, Some(client));
            self.undo.push(undo);
            return Ok(());
        }
        let versions = history.rows.get_mut(key).ok_or_else(missing)?;
        if versions.latest().is_none() {
            return Err(missing());
        }
        self.undo.push(Undo::Live(set.name.clone(), history.live));
        self.undo.push(Undo::Row(set.name.clone(), *key));
        versions.set(self.generation, None);
        history.live = history.live.saturating_sub(1);
        Ok(())
    }

    fn add_row(&mut self, set: &Set, key: &Key, datum: &Datum) -> Result<(), Refusal> {
        check_key(self.table.family, set, key)?;
        check_datum(self.table.family, self.table, set, key, datum)?;
        let missing = || Refusal::new(Errno::Enoent, format!("no set {}", set.name));
        let history = self.table.sets.get_mut(&set.name).ok_or_else(missing)?;
        let size = set
            .size
            .map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let is_full = |live| size.is_some_and(|size| live >= size);
        if let Some(clients) = &mut history.clients {
            let Datum::Stuck {
                endpoint,
                milliseconds,
            } = *datum
            else {
                return Err(Refusal::new(Errno::Einval, "a row without a lifetime"));
            };
            let until = self.now + Duration::from_millis(milliseconds.into());
            if let Some(old) = clients.at(key, self.now) {
                if old.endpoint == endpoint {
                    return Ok(());
                }
                return Err(Refusal::new(
                    Errno::Eexist,
                    format!("set {} has row {key} with other data", set.name),
                ));
            }
            let live = clients.len(self.now);
            if is_full(live) {
                return Err(Refusal::new(
                    Errno::Enfile,
                    format!("set {} is full with {live} rows", set.name),
                ));
            }
            let old = clients.put(*key, Some(Client { endpoint, until }));
            let undo = Undo::Client(set.name.clone(), *key, old);
            self.undo.push(undo);
            return Ok(());
        }
        if let Some(old) = history.rows.get(key).and_then(|versions| versions.latest()) {
            if old == datum {
                return Ok(());
            }
            return Err(Refusal::new(
                Errno::Eexist,
                format!("set {} has row {key} with other data", set.name),
            ));
        }
        if let Some(other) = history.overlapping(key) {
            return Err(Refusal::new(
                Errno::Eexist,
                format!("{key} overlaps {other} in set {}", set.name),
            ));
        }
        if is_full(history.live) {
            return Err(Refusal::new(
                Errno::Enfile,
                format!("set {} is full with {} rows", set.name, history.live),
            ));
        }
        self.undo.push(Undo::Live(set.name.clone(), history.live));
        self.undo.push(Undo::Row(set.name.clone(), *key));
        history
            .rows
            .entry(*key)
            .or_default()
            .set(self.generation, Some(datum.clone()));
        history.live += 1;
        self.validate |= matches!(datum, Datum::Goto(_));
        Ok(())
    }

    fn add_rule(&mut self, rule: &Rule) -> Result<(), Refusal> {
        self.existing_chain(&rule.chain)?;
        check_rule(self.table, rule)?;
        let mut chain = self.existing_chain(&rule.chain)?.clone();
        Arc::make_mut(&mut chain.rules).push(rule.clone());
        self.put_chain(&rule.chain, Some(chain));
        self.validate = true;
        Ok(())
    }

    fn delete_set(&mut self, name: &Name) -> Result<(), Refusal> {
        self.existing_set(name)?;
        if let Some(user) = self.table.set_user(name) {
            return Err(Refusal::new(
                Errno::Ebusy,
                format!("set {name} is used by {user}"),
            ));
        }
        self.drop_set(name);
        Ok(())
    }

    fn delete_table(&mut self) -> Result<(), Refusal> {
        self.existing_table()?;
        let chains: Vec<Name> = self.table.chains.keys().cloned().collect();
        for name in chains {
            if self.table.chain(&name).is_some() {
                self.put_chain(&name, None);
            }
        }
        let sets: Vec<Name> = self.table.sets.keys().cloned().collect();
        for name in sets {
            if self.table.set(&name).is_some() {
                self.drop_set(&name);
            }
        }
        self.table.exists.set(self.generation, None);
        self.undo.push(Undo::Table);
        Ok(())
    }

    /// A reader that still holds the set finds no row in it: the safe assumption for races.
    fn drop_set(&mut self, name: &Name) {
        let Some(history) = self.table.sets.get_mut(name) else {
            return;
        };
        self.undo.push(Undo::Live(name.clone(), history.live));
        self.undo.push(Undo::Definition(name.clone()));
        for (key, versions) in &mut history.rows {
            if versions.latest().is_some() {
                versions.set(self.generation, None);
                self.undo.push(Undo::Row(name.clone(), *key));
            }
        }
        history.live = 0;
        history.definition.set(self.generation, None);
        if history.clients.is_some() {
            let clients = history.clients.replace(Clients::default());
            self.undo.push(Undo::Clients(name.clone(), clients));
        }
    }

    fn put_chain(&mut self, name: &Name, chain: Option<Chain>) {
        self.undo.push(Undo::Chain(name.clone()));
        self.table
            .chains
            .entry(name.clone())
            .or_default()
            .set(self.generation, chain);
    }

    fn existing_table(&self) -> Result<(), Refusal> {
        match self.table.exists.latest() {
            Some(()) => Ok(()),
            None => Err(Refusal::new(Errno::Enoent, "no table kube-proxy")),
        }
    }

    fn existing_chain(&self, name: &Name) -> Result<&Chain, Refusal> {
        self.existing_table()?;
        let missing = || Refusal::new(Errno::Enoent, format!("no chain {name}"));
        self.table.chain(name).ok_or_else(missing)
    }

    fn existing_set(&self, name: &Name) -> Result<&Arc<Set>, Refusal> {
        self.existing_table()?;
        self.table
            .set(name)
            .ok_or_else(|| Refusal::new(Errno::Enoent, format!("no set {name}")))
    }

    fn take_back(&mut self) {
        for undo in self.undo.drain(..).rev() {
            match undo {
                Undo::Table => self.table.exists.undo(self.generation),
                Undo::Chain(name) => {
                    if let Some(versions) = self.table.chains.get_mut(&name) {
                        versions.undo(self.generation);
                    }
                }
                Undo::Definition(name) => {
                    if let Some(set) = self.table.sets.get_mut(&name) {
                        set.definition.undo(self.generation);
                    }
                }
                Undo::Row(name, key) => {
                    if let Some(set) = self.table.sets.get_mut(&name)
                        && let Some(versions) = set.rows.get_mut(&key)
                    {
                        versions.undo(self.generation);
                    }
                }
                Undo::Live(name, live) => {
                    if let Some(set) = self.table.sets.get_mut(&name) {
                        set.live = live;
                    }
                }
                Undo::Client(name, key, client) => {
                    let set = self.table.sets.get_mut(&name);
                    if let Some(clients) = set.and_then(|set| set.clients.as_mut()) {
                        clients.put(key, client);
                    }
                }
                Undo::Clients(name, clients) => {
                    if let Some(set) = self.table.sets.get_mut(&name) {
                        set.clients = clients;
                    }
                }
            }
        }
    }
}

/// How many operations a transaction consists of; a row deleted or added counts as one.
#[must_use]
pub fn operations(transaction: &Transaction) -> usize {
    let Transaction {
        family: _,
        add_table,
        flush_chains,
        replace_chains,
        add_sets,
        add_chains,
        elements: _,
        add_rules,
        delete_sets,
        delete_chains,
        delete_table,
    } = transaction;
    usize::from(*add_table)
        + flush_chains.len()
        + replace_chains.len()
        + add_sets.len()
        + add_chains.len()
        + transaction.rows()
        + add_rules.len()
        + delete_sets.len()
        + delete_chains.len()
        + usize::from(*delete_table)
}
