//! Whether keys, data and rules fit the sets they name.

use core::net::IpAddr;

use super::error::{Errno, Refusal};
use super::table::Table;
use crate::plan::{DataType, Datum, Family, Field, Key, KeyType, Rule, Set, Statement};

/// Longest name of a chain or set, without the terminating zero (`NFT_NAME_MAXLEN`).
const MAX_NAME: usize = 255;
/// Longest comment that libnftnl accepts (`NFTNL_UDATA_COMMENT_MAXLEN`).
const MAX_COMMENT: usize = 128;
/// Most expressions in a rule (`NFT_RULE_MAXEXPRS`); a statement is one or more.
const MAX_STATEMENTS: usize = 128;

pub(super) fn check_name(name: &str) -> Result<(), Refusal> {
    if name.is_empty() || name.contains('\0') {
        return Err(Refusal::new(Errno::Einval, "empty name or a zero in it"));
    }
    if name.len() > MAX_NAME {
        return Err(Refusal::new(
            Errno::Erange,
            format!(
                "name of {} bytes, {MAX_NAME} are possible: {name}",
                name.len()
            ),
        ));
    }
    Ok(())
}

pub(super) fn check_key(family: Family, set: &Set, key: &Key) -> Result<(), Refusal> {
    let wrong = |why: &str| {
        Err(Refusal::new(
            Errno::Einval,
            format!("key {key} of set {}: {why}", set.name),
        ))
    };
    let address_fits = |address: &IpAddr| Family::of(*address) == family;
    match (set.key, key) {
        (KeyType::Address, Key::Prefix(prefix)) if set.interval => {
            if !address_fits(&prefix.addr()) {
                return wrong("address of the other family");
            }
            if prefix.trunc() != *prefix {
                return wrong("bits behind the prefix");
            }
            Ok(())
        }
        (KeyType::Address, Key::Address(address)) if !set.interval => {
            if address_fits(address) {
                Ok(())
            } else {
                wrong("address of the other family")
            }
        }
        (KeyType::Source, Key::Source { range, .. }) if set.interval => {
            if !address_fits(&range.addr()) {
                return wrong("address of the other family");
            }
            if range.trunc() != *range {
                return wrong("bits behind the prefix");
            }
            Ok(())
        }
        (KeyType::Frontend, Key::Frontend { address, .. })
        | (KeyType::Hairpin, Key::Hairpin { address, .. }) => {
            if address_fits(address) {
                Ok(())
            } else {
                wrong("address of the other family")
            }
        }
        (
            KeyType::Client,
            Key::Client {
                client, address, ..
            },
        ) => {
            if address_fits(client) && address_fits(address) {
                Ok(())
            } else {
                wrong("address of the other family")
            }
        }
        (KeyType::NodePort, Key::NodePort { .. })
        | (KeyType::EndpointId, Key::EndpointId(_))
        | (KeyType::Class, Key::Class(_))
        | (KeyType::Slot, Key::Slot { .. })
        | (KeyType::Group, Key::Group(_))
        | (KeyType::State, Key::State { .. }) => Ok(()),
        _ => wrong("the set has another key layout"),
    }
}

pub(super) fn check_datum(
    family: Family,
    table: &Table,
    set: &Set,
    key: &Key,
    datum: &Datum,
) -> Result<(), Refusal> {
    let wrong = |errno, why: &str| {
        Err(Refusal::new(
            errno,
            format!("row {key} of set {}: {why}", set.name),
        ))
    };
    match (set.data, datum) {
        (DataType::None, Datum::None)
        | (DataType::Verdict, Datum::Drop)
        | (DataType::Route, Datum::Route(_))
        | (DataType::List, Datum::List(_))
        | (DataType::EndpointId, Datum::EndpointId(_)) => Ok(()),
        (DataType::EndpointId, Datum::Stuck { .. }) if set.dynamic => Ok(()),
        (DataType::Verdict, Datum::Goto(chain)) => match table.chain(chain) {
            None => wrong(Errno::Enoent, &format!("no chain {chain}")),
            Some(target) if target.base.is_some() => {
                wrong(Errno::Eopnotsupp, &format!("chain {chain} is a base chain"))
            }
            Some(_) => Ok(()),
        },
        (DataType::Endpoint, Datum::Endpoint { address, .. }) => {
            if Family::of(*address) == family {
                Ok(())
            } else {
                wrong(Errno::Einval, "address of the other family")
            }
        }
        _ => wrong(Errno::Einval, "the set has another data type"),
    }
}

/// Checks what the kernel checks when a rule is added; hooks and depths are checked at commit.
pub(super) fn check_rule(table: &Table, rule: &Rule) -> Result<(), Refusal> {
    if rule.statements.len() > MAX_STATEMENTS {
        return Err(Refusal::new(Errno::Erange, "too many statements"));
    }
    if let Some(comment) = &rule.comment
        && comment.len() > MAX_COMMENT
    {
        return Err(Refusal::new(
            Errno::Erange,
            format!(
                "comment of {} bytes, {MAX_COMMENT} are possible",
                comment.len()
            ),
        ));
    }
    rule.statements
        .iter()
        .try_for_each(|statement| check_statement(table, statement))
}

fn check_statement(table: &Table, statement: &Statement) -> Result<(), Refusal> {
    match statement {
        Statement::Saddr { prefix, .. } | Statement::Daddr { prefix, .. } => {
            if Family::of(prefix.addr()) == table.family {
                Ok(())
            } else {
                Err(Refusal::new(
                    Errno::Einval,
                    format!("{prefix} is of the other family"),
                ))
            }
        }
        Statement::Iifname { name, .. } => {
            if name.is_empty() || name.len() > 15 {
                return Err(Refusal::new(
                    Errno::Einval,
                    format!("interface name {name:?}"),
                ));
            }
            Ok(())
        }
        Statement::InSet { key, set, .. } => check_lookup(table, key, set, &[DataType::None]),
        Statement::ScratchFromMap { key, map } => {
            let numbers = [DataType::Route, DataType::List, DataType::EndpointId];
            check_lookup(table, key, map, &numbers)
        }
        Statement::Stick { key, map, .. } | Statement::Unstick { key, map } => {
            if table.set(map).is_some_and(|map| !map.dynamic) {
                let reason = format!("map {map} is not dynamic");
                return Err(Refusal::new(Errno::Eopnotsupp, reason));
            }
            check_lookup(table, key, map, &[DataType::EndpointId])
        }
        Statement::VerdictMap { key, map } => check_lookup(table, key, map, &[DataType::Verdict]),
        Statement::Dnat { key, map } => check_lookup(table, key, map, &[DataType::Endpoint]),
        Statement::Jump(chain) | Statement::Goto(chain) => match table.chain(chain) {
            None => Err(Refusal::new(Errno::Enoent, format!("no chain {chain}"))),
            Some(target) if target.base.is_some() => Err(Refusal::new(
                Errno::Eopnotsupp,
                format!("chain {chain} is a base chain"),
            )),
            Some(_) => Ok(()),
        },
        _ => Ok(()),
    }
}

fn check_lookup(table: &Table, key: &[Field], set: &str, data: &[DataType]) -> Result<(), Refusal> {
    let Some(set) = table.set(set) else {
        return Err(Refusal::new(Errno::Enoent, format!("no set {set}")));
    };
    if !data.contains(&set.data) {
        return Err(Refusal::new(
            Errno::Einval,
            format!(
                "set {} holds {:?}, the rule wants {data:?}",
                set.name, set.data
            ),
        ));
    }
    for field in key {
        if let Field::Random { modulus, offset } = field {
            if *modulus == 0 {
                return Err(Refusal::new(Errno::Erange, "numgen with modulus 0"));
            }
            if offset.checked_add(*modulus - 1).is_none() {
                return Err(Refusal::new(
                    Errno::Eoverflow,
                    "numgen offset and modulus wrap",
                ));
            }
        }
    }
    // The kernel compares total lengths only; a key whose parts are exchanged would miss silently.
    if !key
        .iter()
        .copied()
        .map(part)
        .eq(parts(set.key).iter().copied())
    {
        return Err(Refusal::new(
            Errno::Einval,
            format!(
                "set {} has key {:?}, the rule looks up {key:?}",
                set.name, set.key
            ),
        ));
    }
    Ok(())
}

/// What a part of a key is, as far as nft's data types tell parts apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Address,
    Protocol,
    Port,
    Number,
}

fn part(field: Field) -> Part {
    match field {
        Field::Saddr | Field::Daddr => Part::Address,
        Field::L4Proto => Part::Protocol,
        Field::Dport => Part::Port,
        Field::Scratch { .. } | Field::Random { .. } => Part::Number,
    }
}

fn parts(key: KeyType) -> &'static [Part] {
    match key {
        KeyType::Address => &[Part::Address],
        KeyType::Frontend => &[Part::Address, Part::Protocol, Part::Port],
        KeyType::NodePort => &[Part::Protocol, Part::Port],
        KeyType::Class | KeyType::Group | KeyType::EndpointId => &[Part::Number],
        KeyType::Slot | KeyType::State => &[Part::Number, Part::Number],
        KeyType::Hairpin | KeyType::Client => {
            &[Part::Address, Part::Address, Part::Protocol, Part::Port]
        }
        KeyType::Source => &[Part::Number, Part::Address],
    }
}
