//! The first page: families, maps, transactions, what is wrong.

use svc_planner::SetFill;
use svc_planner::plan::Family;

use super::html::{Ago, Escaped, Grouped, Page, Took};
use super::{Sources, api_server, chart};
use crate::health::family_label;
use crate::metrics::Table;
use crate::proxy::{FamilyStatus, Past, Status};

pub(super) fn page(sources: &Sources) -> String {
    let mut page = Page::new("Overview", &sources.node, "/statusz");
    let status = sources.health.status();
    let tables: Vec<_> = sources.sync.tables().read().collect();
    let past = sources.history.read();
    page.add(format_args!("<div class=\"cards\">"));
    node(&mut page, sources, &status);
    if let Some(board) = &sources.api {
        api_server::card(&mut page, &board.snapshot());
    }
    for family in &status.families {
        let table = tables.iter().find(|(it, _)| *it == family.family);
        self::family(&mut page, sources, family, table.map(|(_, table)| table));
    }
    page.add(format_args!("</div>"));
    problems(&mut page, &past);
    transactions(&mut page, &past);
    failures(&mut page, &past);
    fills(&mut page, &tables);
    page.finish()
}

fn node(page: &mut Page, sources: &Sources, status: &Status) {
    let (class, word) = match (status.node.known, status.node.eligible) {
        (false, _) => ("bad", "not known yet: nothing is programmed"),
        (true, false) => ("warn", "gone or about to go: no traffic is wanted"),
        (true, true) => ("good", "there"),
    };
    let [services, slices] = sources.sync.pending();
    page.add(format_args!(
        "<section class=\"card\"><h2>Node</h2><span class=\"{class}\">{word}</span><dl>\
         <dt>Changes that wait</dt><dd>{} Services, {} slices</dd>\
         <dt>Started</dt><dd>{}</dd><dt>Release</dt><dd>{}</dd></dl>",
        Grouped(services),
        Grouped(slices),
        Ago::since(sources.sync.started()),
        env!("CARGO_PKG_VERSION")
    ));
    for left in sources.health.leftovers().read() {
        page.add(format_args!("<p class=\"bad\">{}</p>", Escaped(left)));
    }
    page.add(format_args!("</section>"));
}

fn family(page: &mut Page, sources: &Sources, status: &FamilyStatus, table: Option<&Table>) {
    let (class, word) = state(sources, status);
    page.add(format_args!(
        "<section class=\"card\"><h2>{}</h2><span class=\"{class}\">{}</span><dl>",
        family_label(status.family),
        Escaped(word)
    ));
    let mut row = |name: &str, value: String| {
        page.add(format_args!("<dt>{name}</dt><dd>{}</dd>", Escaped(value)));
    };
    if let Some(Table { totals, .. }) = table {
        row("Services", Grouped::of(totals.services).to_string());
        row("Endpoints", Grouped::of(totals.endpoints).to_string());
        let classes = Grouped::of(totals.classes);
        row(
            "Classes",
            format!("{classes} of {}", Grouped(totals.classes_max.into())),
        );
        let groups = Grouped::of(totals.groups);
        row(
            "Groups",
            format!("{groups} of {}", Grouped(totals.groups_max.into())),
        );
    }
    if let Some((clients, room)) = table.and_then(|table| table.clients) {
        let clients = Grouped(clients.into());
        row(
            "Clients that stick",
            format!("{clients} of {}", Grouped(room.into())),
        );
    }
    let success = status.last_success.map_or_else(
        || "never".to_owned(),
        |time| Ago::since(sources.health.time_of_day(time)).to_string(),
    );
    row("Last in force", success);
    row("Failures", Grouped(status.all_failures).to_string());
    row(
        "Not served",
        Grouped::of(status.not_served.total()).to_string(),
    );
    let edits = Grouped(status.interference.edits);
    row("Edits of others", edits.to_string());
    page.add(format_args!("</dl></section>"));
}

fn state(sources: &Sources, status: &FamilyStatus) -> (&'static str, String) {
    if status.interference.contended_since.is_some() {
        let who = status.interference.changed_by();
        return ("bad", format!("{who} keeps changing the table back"));
    }
    if !sources.health.is_family_in_step(status) {
        return ("bad", "changes wait for too long".to_owned());
    }
    match (status.last_success, status.failures) {
        (None, _) => ("warn", "not programmed yet".to_owned()),
        (Some(_), 0) => ("good", "in step".to_owned()),
        (Some(_), failures) => ("warn", format!("failed {failures} times, is tried again")),
    }
}

fn problems(page: &mut Page, past: &Past) {
    if past.problems.is_empty() {
        return;
    }
    page.add(format_args!(
        "<h2>Not, or not fully, served</h2><div class=\"card\"><ul>"
    ));
    for (family, problem) in &past.problems {
        page.add(format_args!(
            "<li><span class=\"soft\">{}</span> {}</li>",
            family_label(*family),
            Escaped(problem)
        ));
    }
    page.add(format_args!("</ul></div>"));
}

fn transactions(page: &mut Page, past: &Past) {
    page.add(format_args!("<h2>Last transactions</h2>"));
    if past.transactions.is_empty() {
        page.add(format_args!("<p class=\"soft\">None yet.</p>"));
        return;
    }
    page.add(format_args!(
        "<div class=\"card\">{}<p class=\"key soft\"><i class=\"plan\"></i>plan\
         <i class=\"encode\"></i>encode<i class=\"commit\"></i>kernel</p></div>\
         <div class=\"wrap\" style=\"margin-top:.6rem\"><table><tr><th>When<th>Family<th class=\"num\">Rows\
         <th class=\"num\">Bytes<th class=\"num wide\">Plan<th class=\"num wide\">Encode\
         <th class=\"num\">Kernel</tr>",
        chart::transactions(past.transactions.iter())
    ));
    for past in past.transactions.iter().rev().take(10) {
        let it = &past.applied;
        page.add(format_args!(
            "<tr><td>{}<td>{}<td class=\"num\">{}<td class=\"num\">{}<td class=\"num wide\">{}\
             <td class=\"num wide\">{}<td class=\"num\">{}</tr>",
            Ago::since(past.time),
            family_label(it.family),
            Grouped::of(it.rows),
            Grouped::of(it.bytes),
            Took(it.plan),
            Took(it.encode),
            Took(it.commit)
        ));
    }
    page.add(format_args!("</table></div>"));
}

fn failures(page: &mut Page, past: &Past) {
    if past.failures.is_empty() {
        return;
    }
    page.add(format_args!(
        "<h2>Last failures</h2><div class=\"card\"><ul>"
    ));
    for failure in past.failures.iter().rev() {
        page.add(format_args!(
            "<li><span class=\"soft\">{}, {}</span> {} <span class=\"soft\">tried again after {}</span></li>",
            Ago::since(failure.time),
            family_label(failure.family),
            Escaped(&failure.error),
            Took(failure.pause)
        ));
    }
    page.add(format_args!("</ul></div>"));
}

/// Maps and sets, the families side by side.
fn fills(page: &mut Page, tables: &[(Family, Table)]) {
    let Some((_, first)) = tables.first() else {
        return;
    };
    if first.sets.is_empty() {
        return;
    }
    page.add(format_args!(
        "<h2>Maps and sets</h2><div class=\"wrap\"><table><tr><th>Name"
    ));
    for (family, _) in tables {
        page.add(format_args!(
            "<th class=\"num\">{0} rows<th class=\"num wide\">of<th class=\"wide\">full",
            family_label(*family)
        ));
    }
    page.add(format_args!("</tr>"));
    for (position, set) in first.sets.iter().enumerate() {
        page.add(format_args!("<tr><td class=\"addr\">{}", Escaped(set.set)));
        for (_, table) in tables {
            let set = table.sets.get(position);
            let clients = table
                .clients
                .filter(|_| set.is_some_and(|set| set.rows.is_none()));
            fill(page, set, clients);
        }
        page.add(format_args!("</tr>"));
    }
    page.add(format_args!("</table></div>"));
}

fn fill(page: &mut Page, set: Option<&SetFill>, clients: Option<(u32, u32)>) {
    let rows = set
        .and_then(|set| set.rows)
        .or_else(|| clients.map(|(clients, _)| clients));
    let room = set
        .and_then(|set| set.room)
        .or_else(|| clients.map(|(_, room)| room));
    let number = |number: Option<u32>| {
        number.map_or_else(
            || "–".to_owned(),
            |number| Grouped(number.into()).to_string(),
        )
    };
    let part = |of: Option<u32>| {
        let both = rows.zip(of.filter(|of| *of > 0));
        both.map(|(rows, of)| f64::from(rows) / f64::from(of))
    };
    // A set without room is replaced by a bigger one, up to its limit.
    let limit = set.and_then(|set| set.limit).or(room);
    let is_full = part(limit).is_some_and(|part| part > 0.9);
    let part = part(room);
    page.add(format_args!(
        "<td class=\"num{}\">{}<td class=\"num wide soft\">{}<td class=\"wide\">",
        // The bars do not fit on a phone.
        if is_full { " bad" } else { "" },
        number(rows),
        number(room)
    ));
    if let Some(part) = part {
        let full = if is_full { " class=\"full\"" } else { "" };
        let percent = (part * 100.0).clamp(0.0, 100.0);
        page.add(format_args!(
            "<div class=\"bar\" title=\"{percent:.1} %\"><i{full} style=\"width:{percent:.1}%\"></i></div>"
        ));
    }
}
