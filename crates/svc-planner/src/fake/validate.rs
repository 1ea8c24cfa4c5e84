//! What the kernel checks once per commit: every path from a base chain (`nft_table_validate`).

use std::collections::BTreeMap;

use super::error::{Errno, Refusal};
use super::table::Table;
use crate::display::Of;
use crate::plan::{BaseChain, ChainKind, Datum, Hook, Name, Statement};

/// Deepest nesting of jumps (`NFT_JUMP_STACK_SIZE`): the chain at this level is refused.
const JUMP_STACK: usize = 16;

/// Walks everything that can be reached from base chains.
pub(super) fn check_reachable(table: &Table) -> Result<(), Refusal> {
    for (name, versions) in &table.chains {
        if let Some(base) = versions.latest().and_then(|chain| chain.base) {
            let mut walk = Walk {
                table,
                base,
                origin: name,
                seen: BTreeMap::new(),
            };
            walk.visit(name, 0)?;
        }
    }
    Ok(())
}

struct Walk<'a> {
    table: &'a Table,
    base: BaseChain,
    origin: &'a Name,
    /// Deepest level at which a chain was found good.
    seen: BTreeMap<&'a Name, usize>,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, name: &'a Name, level: usize) -> Result<(), Refusal> {
        if level == JUMP_STACK {
            return Err(Refusal::new(
                Errno::Emlink,
                format!(
                    "jumps from {} nest too deep or in a loop, at {name}",
                    self.origin
                ),
            ));
        }
        if self.seen.get(name).is_some_and(|deepest| *deepest >= level) {
            return Ok(());
        }
        let table = self.table;
        if let Some(chain) = table.chain(name) {
            for (index, rule) in chain.rules.iter().enumerate() {
                for statement in &rule.statements {
                    self.check_hook(name, index, statement)?;
                    match statement {
                        Statement::Jump(to) | Statement::Goto(to) => self.visit(to, level + 1)?,
                        Statement::VerdictMap { map, .. } => {
                            let rows = table.sets.get(map).into_iter().flat_map(|set| &set.rows);
                            for (_, versions) in rows {
                                if let Some(Datum::Goto(to)) = versions.latest() {
                                    self.visit(to, level + 1)?;
                                }
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        self.seen.insert(name, level);
        Ok(())
    }

    fn check_hook(&self, chain: &str, index: usize, statement: &Statement) -> Result<(), Refusal> {
        let BaseChain { kind, hook, .. } = self.base;
        let possible = match statement {
            Statement::Dnat { .. } => {
                kind == ChainKind::Nat && matches!(hook, Hook::Prerouting | Hook::Output)
            }
            Statement::Masquerade => kind == ChainKind::Nat && hook == Hook::Postrouting,
            Statement::Reject => hook != Hook::Postrouting,
            _ => true,
        };
        if possible {
            return Ok(());
        }
        Err(Refusal::new(
            Errno::Eopnotsupp,
            format!(
                "rule {index} of chain {chain}, reached from {}: {} is not possible there",
                self.origin,
                Of::new(self.table.family, statement)
            ),
        ))
    }
}
