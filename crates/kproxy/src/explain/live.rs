//! The live table, as far as one packet is concerned: its rules, and of its sets only the rows the
//! packet asks for. What it asks for depends on what it finds, so it is sent through again with what
//! was found until it asks for nothing new.

use core::time::Duration;
use std::collections::{HashMap, HashSet};

use nft_batch::{Connection, Errno, QueryError, Transport};
use nl_codec::nft::elem::ElemFlags;
use nl_codec::nft::{Elem, Value};
use svc_planner::fake::{ApplyError, Host, Kernel, Packet, Step};
use svc_planner::plan::{Datum, Family, Key, Name, Row, Set, SetChange, Transaction};
use thiserror::Error;

use crate::engine::{self, TABLE};
use crate::lower::{RaiseError, datum_of, key_bytes, nf_family, raise_rule, raise_set};

/// Rulesets change; so often reading begins anew.
const ATTEMPTS: u32 = 5;

/// Why a live table cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LiveError {
    /// There is none.
    #[error("there is no table {0} {TABLE}")]
    NoTable(Family),
    /// The kernel's answers.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// It is not kproxy's, or somebody edited it.
    #[error("table {0} {TABLE}: {1}")]
    Foreign(Family, RaiseError),
    /// It contradicts the model of the kernel.
    #[error("table {0} {TABLE}: {1}")]
    Model(Family, Box<ApplyError>),
    /// It changes faster than it can be read.
    #[error("table {0} {TABLE} changes faster than it can be read")]
    Unsteady(Family),
}

/// What was read.
#[derive(Debug)]
pub struct LiveState {
    /// Rules, and the rows that count.
    pub kernel: Kernel,
    /// How many rows were asked for.
    pub reads: usize,
}

impl LiveState {
    /// Reads what decides about `packet`.
    ///
    /// # Errors
    /// See [`LiveError`].
    pub fn read<T: Transport>(
        connection: &mut Connection<T>,
        packet: &Packet,
        host: &Host,
    ) -> Result<Self, LiveError> {
        for _ in 0..ATTEMPTS {
            let before = connection.generation()?;
            let state = read_once(connection, packet, host);
            if connection.generation()? == before {
                return state;
            }
        }
        Err(LiveError::Unsteady(packet.family()))
    }
}

fn read_once<T: Transport>(
    connection: &mut Connection<T>,
    packet: &Packet,
    host: &Host,
) -> Result<LiveState, LiveError> {
    let family = packet.family();
    let model = |error| LiveError::Model(family, Box::new(error));
    let (sets, skeleton) = skeleton(connection, family)?;
    let mut kernel = Kernel::new();
    kernel.apply(&skeleton, Duration::ZERO).map_err(model)?;
    let mut asked = HashSet::new();
    loop {
        let outcomes = kernel.outcomes(packet, host);
        let mut rows = Transaction::new(family);
        let mut news = false;
        for step in outcomes.iter().flat_map(|(outcome, _)| &outcome.trace) {
            let Step::Lookup { set, key, .. } = step else {
                continue;
            };
            let Some(definition) = sets.get(set) else {
                continue;
            };
            if !asked.insert((set.clone(), *key)) {
                continue;
            }
            news = true;
            if let Some(datum) = row(connection, family, definition, key)? {
                rows.elements.push(SetChange {
                    set: set.clone(),
                    key: definition.key,
                    data: definition.data,
                    delete: Vec::new(),
                    add: vec![Row {
                        key: stored_as(definition, key),
                        datum,
                    }],
                });
            }
        }
        if !news {
            return Ok(LiveState {
                kernel,
                reads: asked.len(),
            });
        }
        kernel.apply(&rows, Duration::ZERO).map_err(model)?;
    }
}

/// Sets without rows, chains and rules: their number does not depend on that of Services.
fn skeleton<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
) -> Result<(HashMap<Name, Set>, Transaction), LiveError> {
    let foreign = |error| LiveError::Foreign(family, error);
    let found = engine::inventory(connection, family)?;
    let found = found.ok_or(LiveError::NoTable(family))?;
    let nf = nf_family(family);
    let mut sets = Vec::new();
    connection.dump_sets(nf, TABLE, |set| sets.push(raise_set(family, set)))?;
    let mut transaction = Transaction::new(family);
    transaction.add_table = true;
    transaction.add_chains = found.chains;
    transaction.add_sets = sets
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(foreign)?;
    let sets: HashMap<_, _> = transaction
        .add_sets
        .iter()
        .map(|set| (set.name.clone(), set.clone()))
        .collect();
    let mut rules = Vec::new();
    connection.dump_rules(nf, TABLE, None, |rule| {
        rules.push(raise_rule(family, &sets, rule));
    })?;
    transaction.add_rules = rules
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(foreign)?;
    Ok((sets, transaction))
}

/// One row, read by its key. An interval is found by any address inside.
fn row<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
    set: &Set,
    key: &Key,
) -> Result<Option<Datum>, LiveError> {
    let Some(bytes) = key_bytes(family, set.key, key) else {
        return Ok(None);
    };
    let elem = Elem::new(Value::new(bytes.as_slice()));
    let read = connection.element(nf_family(family), TABLE, &set.name, &elem, |elem| {
        let end = elem
            .flags
            .is_some_and(|it| it.contains(ElemFlags::INTERVAL_END));
        if end {
            return None;
        }
        datum_of(family, set.data, elem)
    });
    match read {
        Ok(found) => Ok(found.flatten()),
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Intervals hold prefixes: of the one that was found only this address counts.
fn stored_as(set: &Set, key: &Key) -> Key {
    match key {
        Key::Address(address) if set.interval => Key::Prefix((*address).into()),
        key => *key,
    }
}

#[cfg(test)]
mod tests {
    use svc_planner::plan::{DataType, KeyType};

    use super::*;

    #[test]
    fn an_address_in_an_interval_is_a_prefix_of_its_own() {
        let mut set = Set {
            name: "cidrs".into(),
            key: KeyType::Address,
            data: DataType::None,
            interval: true,
            dynamic: false,
            size: None,
        };
        let key = Key::Address([10, 0, 0, 1].into());
        let prefix = Key::Prefix("10.0.0.1/32".parse().unwrap());
        assert_eq!(stored_as(&set, &key), prefix);
        set.interval = false;
        assert_eq!(stored_as(&set, &key), key);
    }
}
