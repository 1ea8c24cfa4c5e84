//! Leftovers in nf_tables: what `iptables-nft` made, in the tables `nat`, `filter` and `mangle` of families
//! `ip` and `ip6`. Handles name rules for ever, so that a rule of somebody else is never hit.

use std::collections::BTreeSet;

use nft_batch::{Batch, BatchError, BatchOptions, Connection, Errno, OpError, Outcome, QueryError};
use nl_codec::Attrs;
use nl_codec::msg::NftMsg;
use nl_codec::nft::expr::Expr;
use nl_codec::nft::{Data, Rule, Str};
use svc_planner::plan::Family;
use thiserror::Error;

use super::names::{self, Table};
use crate::lower::nf_family;

/// Chains that one transaction deletes: a node may have hundreds of thousands.
const CHUNK: usize = 1_000;
/// `linux/netfilter/nf_tables_compat.h`, of expression `match`.
const NFTA_MATCH_NAME: u16 = 1;
/// How often to look again when somebody changed the same things meanwhile.
const TRIES: u32 = 5;

/// What kube-proxy left in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    table: Table,
    /// Rules of built-in chains: chain and handle.
    jumps: Vec<(String, u64)>,
    /// All of kube-proxy's chains but those that stay as they are.
    chains: Vec<String>,
    /// Those of them that rules of others jump to: emptied, but kept.
    used: BTreeSet<String>,
    /// Whether there are rules in [`Self::chains`].
    filled: bool,
}

/// What was removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) chains: usize,
    pub(super) jumps: usize,
}

/// Why something was not.
#[derive(Debug, Error)]
pub(super) enum NftError {
    #[error(transparent)]
    Query(#[from] QueryError),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error("{}", .0.first().map_or_else(|| "rejected".to_owned(), ToString::to_string))]
    Rejected(Vec<OpError>),
    #[error("{0}")]
    NotCommitted(String),
}

/// Removes everything of a family: first all ways in, in one transaction, then what they led to.
///
/// # Errors
/// What was removed until then stays so.
pub(super) fn remove(connection: &mut Connection, family: Family) -> Result<Removed, NftError> {
    let mut removed = Removed::default();
    let mut busy = Busy::new();
    let mut attempt = 1;
    loop {
        let mut found = find(connection, family)?;
        for found in &mut found {
            found.keep(&busy);
        }
        if found.iter().all(Found::is_nothing) {
            return Ok(removed);
        }
        match remove_found(connection, family, &found, &mut removed) {
            Ok(()) => {}
            // The elements of others' maps are not looked through: the kernel knows who is used.
            Err(NftError::Rejected(errors)) if note_busy(&mut busy, &errors) => continue,
            // What was found may be gone since.
            Err(NftError::Rejected(errors))
                if attempt < TRIES && errors.iter().all(|it| it.errno == Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        attempt += 1;
    }
}

/// Chains, by table, that cannot be deleted as something refers to them that is no rule of the table's.
type Busy = BTreeSet<(String, String)>;

/// Notes chains that are in use; whether one is new.
fn note_busy(busy: &mut Busy, errors: &[OpError]) -> bool {
    let mut any = false;
    for error in errors.iter().filter(|error| error.errno == Errno::EBUSY) {
        if let (Some(NftMsg::DEL_CHAIN), Some(table), Some(chain)) =
            (error.kind, &error.table, &error.object)
        {
            any |= busy.insert((table.clone(), chain.clone()));
        }
    }
    any
}

/// Whether the kubelet says that the node's rules are these (KEP-3178), and not those of legacy iptables.
///
/// # Errors
/// Of reading.
pub(super) fn has_kubelet_hint(connection: &mut Connection) -> Result<bool, QueryError> {
    let mut hinted = false;
    for family in crate::family::FAMILIES {
        let mangle = Table::Mangle.name();
        connection.dump_chains(nf_family(family), mangle, |chain| {
            let name = chain.name.and_then(|name| name.to_str());
            hinted |= name.is_some_and(|name| names::KUBELET_HINTS.contains(&name));
        })?;
    }
    Ok(hinted)
}

/// What there is of a family.
///
/// # Errors
/// Of reading.
pub(super) fn find(connection: &mut Connection, family: Family) -> Result<Vec<Found>, QueryError> {
    let mut found = Vec::new();
    for table in Table::ALL {
        let mut ours = Vec::new();
        let chains = connection.dump_chains(nf_family(family), table.name(), |chain| {
            let name = chain.name.and_then(|name| name.to_str());
            // A base chain of that name hooks somewhere by itself, which kube-proxy's do not.
            if let Some(name) = name.filter(|name| table.holds(name) && chain.hook.is_none()) {
                ours.push(name.to_owned());
            }
        });
        absent(chains)?;
        if !ours.is_empty() {
            found.push(look(connection, family, table, ours)?);
        }
    }
    Ok(found)
}

/// Finds out how a table's rules use chains that are kube-proxy's.
fn look(
    connection: &mut Connection,
    family: Family,
    table: Table,
    mut chains: Vec<String>,
) -> Result<Found, QueryError> {
    let mut jumps = Vec::new();
    let mut used = BTreeSet::new();
    let mut marked = BTreeSet::new();
    let mut filled = false;
    let rules = connection.dump_rules(nf_family(family), table.name(), None, |rule| {
        let Some(chain) = text(rule.chain) else {
            return;
        };
        if table.holds(chain) && chain != names::MARK {
            filled = true;
            return;
        }
        for target in targets(rule).filter(|target| table.holds(target)) {
            match rule.handle {
                Some(handle) if table.holds_jump(chain, target) && is_plain(rule) => {
                    jumps.push((chain.to_owned(), handle));
                }
                _ if chain == names::MARK => {
                    marked.insert(target.to_owned());
                }
                _ => {
                    used.insert(target.to_owned());
                }
            }
        }
    });
    absent(rules)?;
    if used.remove(names::MARK) {
        chains.retain(|chain| chain != names::MARK);
        used.append(&mut marked);
    }
    Ok(Found {
        table,
        jumps,
        chains,
        used,
        filled,
    })
}

/// A table that is not there holds nothing.
fn absent<T>(read: Result<T, QueryError>) -> Result<(), QueryError> {
    match read {
        Err(error) if error.errno() != Some(Errno::ENOENT) => Err(error),
        _ => Ok(()),
    }
}

/// Whether a rule looks at nothing that kube-proxy's jumps do not look at: the state of a connection, at
/// most. Any other is somebody else's.
fn is_plain(rule: &Rule<'_>) -> bool {
    let mut exprs = rule.exprs.into_iter().flat_map(|exprs| exprs.iter());
    exprs.all(|expr| match expr {
        Ok(Expr::Counter(_) | Expr::Immediate(_)) => true,
        Ok(Expr::Ct(_) | Expr::Bitwise(_) | Expr::Cmp(_)) => true,
        Ok(Expr::Unknown { name, data }) if name.as_bytes() == b"match" => {
            let name = Attrs::new(data)
                .flatten()
                .find(|it| it.kind == NFTA_MATCH_NAME);
            name.is_some_and(|it| matches!(it.payload, b"comment\0" | b"conntrack\0"))
        }
        _ => false,
    })
}

/// The chains that a rule may go on with.
fn targets<'a>(rule: &Rule<'a>) -> impl Iterator<Item = &'a str> {
    let exprs = rule.exprs.into_iter().flat_map(|exprs| exprs.iter());
    // What cannot be decoded is somebody else's; if it uses a chain, the kernel says so.
    exprs.flatten().filter_map(|expr| match expr {
        Expr::Immediate(immediate) => match immediate.data {
            Some(Data::Verdict(verdict)) => text(verdict.chain),
            _ => None,
        },
        _ => None,
    })
}

fn text(name: Option<Str<'_>>) -> Option<&str> {
    name.and_then(|name| name.to_str())
}

fn remove_found(
    connection: &mut Connection,
    family: Family,
    found: &[Found],
    removed: &mut Removed,
) -> Result<(), NftError> {
    let nf = nf_family(family);
    let batch = || Batch::new(BatchOptions::default());
    let mut jumps = batch();
    for Found {
        table,
        jumps: found,
        ..
    } in found
    {
        for (chain, handle) in found {
            jumps.delete_rule(nf, table.name(), chain, *handle)?;
        }
    }
    removed.jumps += commit(connection, jumps)?;
    // They jump to each other; empty ones do not.
    for Found { table, chains, .. } in found {
        for chains in chains.chunks(CHUNK) {
            let mut flush = batch();
            for chain in chains {
                flush.flush_chain(nf, table.name(), chain)?;
            }
            commit(connection, flush)?;
        }
    }
    for Found {
        table,
        chains,
        used,
        ..
    } in found
    {
        let unused: Vec<_> = chains
            .iter()
            .filter(|chain| !used.contains(*chain))
            .collect();
        for chains in unused.chunks(CHUNK) {
            let mut delete = batch();
            for chain in chains {
                delete.delete_chain(nf, table.name(), chain.as_str().into())?;
            }
            removed.chains += commit(connection, delete)?;
        }
    }
    Ok(())
}

/// How many operations were committed.
fn commit(connection: &mut Connection, batch: Batch) -> Result<usize, NftError> {
    let operations = batch.operations();
    if operations == 0 {
        return Ok(0);
    }
    match connection.commit(&mut batch.seal()) {
        Outcome::Committed(_) => Ok(usize::try_from(operations).unwrap_or(usize::MAX)),
        Outcome::Rejected(rejected) => Err(NftError::Rejected(rejected.errors)),
        other => Err(NftError::NotCommitted(other.to_string())),
    }
}

impl Found {
    /// Leaves out of what is to be deleted what the kernel says is in use.
    fn keep(&mut self, busy: &Busy) {
        let table = self.table.name();
        let chains = busy.iter().filter(|(of, _)| of == table);
        self.used.extend(chains.map(|(_, chain)| chain.clone()));
    }

    /// Whether there is nothing but empty chains that others use.
    fn is_nothing(&self) -> bool {
        let used = |chain: &String| self.used.contains(chain);
        self.jumps.is_empty() && !self.filled && self.chains.iter().all(used)
    }
}
