//! Base chains of other tables that drop what they do not accept. An accept in our table cannot
//! overrule them: every base chain of a hook has its say.

use nft_batch::{Connection, QueryError};
use nl_codec::msg::Family;
use nl_codec::nft::Hook;
use nl_codec::nft::chain::Policy;

use super::{Check, Finding, Level, finding};
use crate::engine::TABLE;

/// A base chain with policy drop.
struct Dropping {
    family: Family,
    table: String,
    chain: String,
    hook: Hook,
    priority: i32,
}

pub(super) fn look(connection: &mut Connection) -> Vec<Finding> {
    let dropping = match dropping(connection) {
        Ok(dropping) => dropping,
        Err(error) => {
            let message = format!("base chains of other tables cannot be read: {error}");
            return vec![finding(Check::Forward, Level::Problem, message)];
        }
    };
    let mut findings: Vec<_> = dropping.iter().filter_map(judge).collect();
    if findings.iter().all(|it| it.check != Check::Forward) {
        findings.push(finding(
            Check::Forward,
            Level::Ok,
            "no other table drops forwarded packets by default",
        ));
    }
    findings
}

fn judge(chain: &Dropping) -> Option<Finding> {
    let Dropping {
        family,
        table,
        chain,
        hook,
        priority,
    } = chain;
    let place = format!("table {family} {table}, chain {chain} (priority {priority})");
    match *hook {
        Hook::FORWARD => Some(finding(
            Check::Forward,
            Level::Problem,
            format!(
                "{place} drops forwarded packets that it does not accept: traffic to endpoints needs \
                 an accept there; kproxy cannot overrule it and does not edit it"
            ),
        )),
        Hook::INPUT => Some(finding(
            Check::Input,
            Level::Note,
            format!(
                "{place} drops packets to this node that it does not accept; node ports are \
                 translated before (prerouting, -100) and are not filtered by it"
            ),
        )),
        _ => None,
    }
}

fn dropping(connection: &mut Connection) -> Result<Vec<Dropping>, QueryError> {
    let mut tables = Vec::new();
    connection.dump_tables(Family::UNSPEC, |family, table| {
        let name = table.name.map(|name| name.to_string());
        let routed = [Family::IPV4, Family::IPV6, Family::INET].contains(&family);
        if let Some(name) = name.filter(|name| routed && name != TABLE) {
            tables.push((family, name));
        }
    })?;
    let mut dropping = Vec::new();
    for (family, table) in tables {
        let read = connection.dump_chains(family, &table, |chain| {
            let hook = chain.hook.and_then(|it| Some((it.hook?, it.priority?)));
            let (Some((hook, priority)), Some(name)) = (hook, chain.name) else {
                return;
            };
            if chain.policy == Some(Policy::DROP) {
                dropping.push(Dropping {
                    family,
                    table: table.clone(),
                    chain: name.to_string(),
                    hook,
                    priority,
                });
            }
        });
        match read {
            Ok(_) => {}
            // It was deleted meanwhile.
            Err(error) if error.errno() == Some(nft_batch::Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(dropping)
}
