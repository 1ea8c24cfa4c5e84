//! The list of Services: searched, filtered, a page at a time.

use std::time::SystemTime;

use svc_planner::object::TrafficPolicy;

use super::Sources;
use super::html::{Ago, Escaped, Grouped, Page};
use super::query::{Query, link};
use crate::health::family_label;
use crate::proxy::{Listing, ServiceRow};

/// Services on a page.
const PER_PAGE: usize = 100;

/// All Services, by name.
pub(super) struct Services {
    time: SystemTime,
    rows: Vec<ServiceRow>,
}

impl Services {
    pub(super) fn new(listing: Listing) -> Self {
        let Listing { time, mut rows } = listing;
        rows.sort_unstable_by(|a, b| (&a.name, a.family).cmp(&(&b.name, b.family)));
        Self { time, rows }
    }
}

/// Which Services are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Filter {
    All,
    WithoutEndpoints,
    NotAllReady,
    Local,
    Affinity,
}

impl Filter {
    const ALL: [(Self, &str, &str); 5] = [
        (Self::All, "", "all"),
        (Self::WithoutEndpoints, "empty", "without ready endpoints"),
        (Self::NotAllReady, "unready", "not all endpoints ready"),
        (Self::Local, "local", "traffic policy Local"),
        (Self::Affinity, "affinity", "session affinity"),
    ];

    fn of(word: &str) -> Self {
        let known = Self::ALL.iter().find(|(_, it, _)| *it == word);
        known.map_or(Self::All, |(filter, ..)| *filter)
    }

    fn admits(self, row: &ServiceRow) -> bool {
        let is_local = [row.internal, row.external].contains(&TrafficPolicy::Local);
        match self {
            Self::All => true,
            Self::WithoutEndpoints => row.ready == 0,
            Self::NotAllReady => row.ready < row.endpoints,
            Self::Local => is_local,
            Self::Affinity => row.affinity.is_some(),
        }
    }
}

pub(super) fn page(sources: &Sources, services: &Services, query: &Query) -> String {
    let mut page = Page::new("Services", &sources.node, "/statusz/services");
    let (search, only) = (query.text("q"), query.text("only"));
    let filter = Filter::of(only);
    let wanted = search.trim().to_lowercase();
    let found: Vec<_> = services
        .rows
        .iter()
        .filter(|row| filter.admits(row) && matches(row, &wanted))
        .collect();
    let pages = found.len().div_ceil(PER_PAGE).max(1);
    let number = query.number("page").clamp(1, pages);
    page.add(format_args!(
        "<h1>Services</h1><form action=\"/statusz/services\"><input type=\"search\" name=\"q\" \
         value=\"{}\" placeholder=\"namespace, name or address\" aria-label=\"Search\">\
         <select name=\"only\" aria-label=\"Only\">",
        Escaped(search)
    ));
    for (it, word, text) in Filter::ALL {
        let selected = if it == filter { " selected" } else { "" };
        page.add(format_args!(
            "<option value=\"{word}\"{selected}>{text}</option>"
        ));
    }
    page.add(format_args!("</select><button>Search</button></form>"));
    let turn = |to: usize| {
        let number = to.to_string();
        link(
            "/statusz/services",
            &[("q", search), ("only", only), ("page", &number)],
        )
    };
    let pager = |page: &mut Page| {
        page.add(format_args!(
            "<div class=\"pages soft\"><span>{} of {} rows, {}</span>",
            Grouped::of(found.len()),
            Grouped::of(services.rows.len()),
            Ago::since(services.time)
        ));
        if number > 1 {
            page.add(format_args!(
                "<a href=\"{}\">← back</a>",
                Escaped(turn(number - 1))
            ));
        }
        page.add(format_args!("<span>page {number} of {pages}</span>"));
        if number < pages {
            page.add(format_args!(
                "<a href=\"{}\">on →</a>",
                Escaped(turn(number + 1))
            ));
        }
        page.add(format_args!("</div>"));
    };
    pager(&mut page);
    let shown = found.iter().skip((number - 1) * PER_PAGE).take(PER_PAGE);
    page.add(format_args!(
        "<div class=\"wrap\"><table><tr><th>Service<th>ClusterIP<th class=\"num\">Ready\
         <th class=\"num wide\">Here<th class=\"num wide\">Ports<th class=\"wide\">Besides</tr>"
    ));
    for row in shown {
        self::row(&mut page, row);
    }
    page.add(format_args!("</table></div>"));
    if found.is_empty() {
        page.add(format_args!(
            "<p class=\"soft\">No Service is like that.</p>"
        ));
    } else if pages > 1 {
        pager(&mut page);
    }
    page.finish()
}

/// Does a part of the name or the whole address match?
fn matches(row: &ServiceRow, wanted: &str) -> bool {
    wanted.is_empty() || row.name.contains(wanted) || row.cluster_ip.to_string() == wanted
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
