//! What a table of our name already holds: names of chains and sets, never their contents.

use nft_batch::{Connection, Errno, QueryError, Transport};
use nl_codec::nft;
use svc_planner::Inventory;
use svc_planner::plan::{BaseChain, Chain, ChainKind, Family, Hook, Name};

use super::TABLE;
use crate::lower::nf_family;

/// Reads the names; `None` if there is no such table.
pub(crate) fn read<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
) -> Result<Option<Inventory>, QueryError> {
    let nf = nf_family(family);
    match connection.table_info(nf, TABLE, |_| ()) {
        Ok(()) => {}
        Err(error) if error.errno() == Some(Errno::ENOENT) => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut inventory = Inventory::default();
    let gone = |error: QueryError| match error.errno() {
        Some(Errno::ENOENT) => Ok(()),
        _ => Err(error),
    };
    connection
        .dump_chains(nf, TABLE, |chain| {
            inventory.chains.extend(self::chain(chain))
        })
        .map(drop)
        .or_else(gone)?;
    connection
        .dump_sets(nf, TABLE, |set| inventory.sets.extend(name(set)))
        .map(drop)
        .or_else(gone)?;
    Ok(Some(inventory))
}

fn name(set: &nft::Set<'_>) -> Option<Name> {
    // Anonymous sets go with their rules.
    let anonymous = set
        .flags
        .is_some_and(|flags| flags.contains(nft::set::SetFlags::ANONYMOUS));
    let name = set.name.filter(|_| !anonymous)?;
    name.to_str().map(Name::from)
}

fn chain(chain: &nft::Chain<'_>) -> Option<Chain> {
    Some(Chain {
        name: Name::from(chain.name?.to_str()?),
        base: chain.hook.and_then(|hook| {
            Some(BaseChain {
                kind: match chain.kind?.to_str()? {
                    "nat" => ChainKind::Nat,
                    _ => ChainKind::Filter,
                },
                hook: self::hook(hook.hook?)?,
                priority: hook.priority?,
            })
        }),
    })
}

const fn hook(hook: nft::Hook) -> Option<Hook> {
    match hook {
        nft::Hook::PREROUTING => Some(Hook::Prerouting),
        nft::Hook::INPUT => Some(Hook::Input),
        nft::Hook::FORWARD => Some(Hook::Forward),
        nft::Hook::OUTPUT => Some(Hook::Output),
        nft::Hook::POSTROUTING => Some(Hook::Postrouting),
        _ => None,
    }
}
