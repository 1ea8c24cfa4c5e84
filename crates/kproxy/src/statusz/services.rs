//! The list of Services: searched, filtered, a page at a time.

use svc_planner::object::TrafficPolicy;
use svc_planner::plan::Family;

use super::Sources;
use super::html::{Ago, Escaped, Grouped, Page};
use super::query::{Query, link};
use crate::health::family_label;
use crate::proxy::{Listing, Only, Place, ServiceRow, Wanted};

/// Services on a page.
const PER_PAGE: usize = 100;
const PATH: &str = "/statusz/services";

/// Kinds of Services: word of a link, and what is shown.
const KINDS: [(Only, &str, &str); 5] = [
    (Only::All, "", "all"),
    (Only::WithoutEndpoints, "empty", "without ready endpoints"),
    (Only::NotAllReady, "unready", "not all endpoints ready"),
    (Only::Local, "local", "traffic policy Local"),
    (Only::Affinity, "affinity", "session affinity"),
];

/// What a page is to show.
pub(super) fn wanted(query: &Query) -> Wanted {
    let word = query.text("only");
    let known = KINDS.iter().find(|(_, it, _)| *it == word);
    let place = |name: &str| {
        let (name, family) = query.text(name).rsplit_once('/')?;
        let family = [Family::Ipv4, Family::Ipv6]
            .into_iter()
            .find(|it| family_label(*it) == family)?;
        Some((name.into(), family))
    };
    Wanted {
        search: query.text("q").into(),
        only: known.map_or(Only::All, |(only, ..)| *only),
        from: match (place("after"), place("before")) {
            (Some((name, family)), _) => Place::After(name, family),
            (None, Some((name, family))) => Place::Before(name, family),
            (None, None) => Place::Start,
        },
        rows: PER_PAGE,
    }
}

pub(super) fn page(sources: &Sources, listing: &Listing, query: &Query) -> String {
    let mut page = Page::new("Services", &sources.node, PATH);
    let (search, only) = (query.text("q"), query.text("only"));
    page.add(format_args!(
        "<h1>Services</h1><form action=\"{PATH}\"><input type=\"search\" name=\"q\" \
         value=\"{}\" placeholder=\"namespace, name or address\" aria-label=\"Search\">\
         <select name=\"only\" aria-label=\"Only\">",
        Escaped(search)
    ));
    for (_, word, text) in KINDS {
        let selected = if word == only { " selected" } else { "" };
        page.add(format_args!(
            "<option value=\"{word}\"{selected}>{text}</option>"
        ));
    }
    page.add(format_args!("</select><button>Search</button></form>"));
    pager(&mut page, listing, query);
    page.add(format_args!(
        "<div class=\"wrap\"><table><tr><th>Service<th>ClusterIP<th class=\"num\">Ready\
         <th class=\"num wide\">Here<th class=\"num wide\">Ports<th class=\"wide\">Besides</tr>"
    ));
    for row in &listing.rows {
        self::row(&mut page, row);
    }
    page.add(format_args!("</table></div>"));
    if listing.found == 0 {
        page.add(format_args!(
            "<p class=\"soft\">No Service is like that.</p>"
        ));
    } else if listing.found > listing.rows.len() {
        pager(&mut page, listing, query);
    }
    page.finish()
}

/// Which rows these are, and the way to others.
fn pager(page: &mut Page, listing: &Listing, query: &Query) {
    page.add(format_args!(
        "<div class=\"pages soft\"><span>{} of {} rows, {}</span>",
        Grouped::of(listing.found),
        Grouped::of(listing.all),
        Ago::since(listing.time)
    ));
    let turn = |place: &str, row: &ServiceRow| {
        let at = format!("{}/{}", row.name, family_label(row.family));
        let (search, only) = (query.text("q"), query.text("only"));
        link(PATH, &[("q", search), ("only", only), (place, &at)])
    };
    let end = listing.before + listing.rows.len();
    let first = listing.rows.first().filter(|_| listing.before > 0);
    if let Some(first) = first {
        let to = turn("before", first);
        page.add(format_args!("<a href=\"{}\">← back</a>", Escaped(to)));
    }
    if !listing.rows.is_empty() {
        page.add(format_args!(
            "<span>{} to {}</span>",
            Grouped::of(listing.before + 1),
            Grouped::of(end)
        ));
    }
    if let Some(last) = listing.rows.last().filter(|_| end < listing.found) {
        let to = turn("after", last);
        page.add(format_args!("<a href=\"{}\">on →</a>", Escaped(to)));
    }
    page.add(format_args!("</div>"));
}

fn row(page: &mut Page, row: &ServiceRow) {
    let class = match (row.ready, row.endpoints) {
        (0, _) => "bad",
        (ready, all) if ready < all => "warn",
        _ => "good",
    };
    page.add(format_args!(
        "<tr><td class=\"name\"><a href=\"{}\">{}</a> <span class=\"soft\">{}</span>\
         <td class=\"addr\">{}<td class=\"num {class}\">{}<span class=\"soft\"> / {}</span>\
         <td class=\"num wide\">{}<td class=\"num wide\">{}<td class=\"wide soft\">{}</tr>",
        Escaped(link("/statusz/service", &[("name", &row.name)])),
        Escaped(&row.name),
        family_label(row.family),
        row.cluster_ip,
        Grouped::of(row.ready),
        Grouped::of(row.endpoints),
        Grouped::of(row.local),
        Grouped::of(row.ports),
        Escaped(besides(row))
    ));
}

/// What is special about a Service.
fn besides(row: &ServiceRow) -> String {
    let mut words = Vec::new();
    if row.node_ports > 0 {
        words.push("node ports".to_owned());
    }
    if row.other_addresses > 0 {
        words.push(format!("{} more addresses", row.other_addresses));
    }
    for (policy, name) in [(row.internal, "internal"), (row.external, "external")] {
        if policy == TrafficPolicy::Local {
            words.push(format!("{name} Local"));
        }
    }
    if let Some(seconds) = row.affinity {
        words.push(format!("sticks {seconds} s"));
    }
    words.join(", ")
}
