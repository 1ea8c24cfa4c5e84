//! Who has the tables that kproxy is to fill.

use std::path::Path;

use nft_batch::{Connection, Errno};
use nl_codec::msg::Family;

use super::{Check, Finding, Level, finding};
use crate::engine::{StateDir, TABLE};
use crate::family::FAMILIES;
use crate::lower::nf_family;
use crate::netns::Netns;

pub(super) fn look(
    connection: &mut Connection,
    netns: &Netns,
    state_folder: &Path,
) -> Vec<Finding> {
    let mut owners = Vec::new();
    let read = connection.dump_tables(Family::UNSPEC, |family, table| {
        if table.name.is_some_and(|name| name == *TABLE) {
            owners.push((family, table.owner));
        }
    });
    if let Err(error) = read {
        let message = format!("tables cannot be listed: {error}");
        return vec![finding(Check::Table, Level::Problem, message)];
    }
    let at_work = StateDir::look(state_folder, netns).and_then(|state| state.in_use());
    let at_work = matches!(at_work, Ok(true));
    let mut findings = Vec::new();
    for family in FAMILIES {
        let found = owners.iter().find(|(it, _)| *it == nf_family(family));
        let place = format!("table {family} {TABLE}");
        findings.push(match found {
            Some((_, Some(owner))) => finding(
                Check::Table,
                Level::Problem,
                format!("{place} belongs to netlink port {owner}: nobody else can change it"),
            ),
            Some(_) if at_work => finding(
                Check::Table,
                Level::Ok,
                format!("{place}: a kproxy is at work"),
            ),
            Some(_) if is_ours(connection, family) => finding(
                Check::Table,
                Level::Ok,
                format!("{place} was left by a kproxy"),
            ),
            Some(_) => finding(
                Check::Table,
                Level::Note,
                format!(
                    "{place} is another proxy's (kube-proxy's?): kproxy takes it over; \
                     two at work undo each other's work"
                ),
            ),
            None => finding(Check::Table, Level::Ok, format!("{place} is not there yet")),
        });
    }
    findings
}

/// Only we keep a set of this name.
fn is_ours(connection: &mut Connection, family: svc_planner::plan::Family) -> bool {
    let mut found = false;
    let read = connection.dump_sets(nf_family(family), TABLE, |set| {
        found |= set.name.is_some_and(|name| {
            name.to_str()
                .is_some_and(|name| crate::lower::base_name(name) == "state")
        });
    });
    match read {
        Err(error) if error.errno() != Some(Errno::ENOENT) => false,
        _ => found,
    }
}
