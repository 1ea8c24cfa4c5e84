//! One Service: where its frontends lead, and its endpoints.

use svc_planner::object::{ObjectName, Protocol};
use svc_planner::plan::Family;
use svc_planner::{EndpointDetail, FrontendDetail, ServiceDetail};

use super::Sources;
use super::html::{Escaped, Grouped, Page};
use super::query::{Query, link};
use crate::health::family_label;

/// Endpoints on a page.
const PER_PAGE: usize = 250;

/// Position of the first endpoint on the page that is asked for.
pub(super) fn first_endpoint(query: &Query) -> usize {
    query
        .number("page")
        .max(1)
        .saturating_sub(1)
        .saturating_mul(PER_PAGE)
}

pub(super) fn page(
    sources: &Sources,
    name: &ObjectName,
    details: &[(Family, ServiceDetail)],
    query: &Query,
) -> String {
    let name = format!("{}/{}", name.namespace, name.name);
    let mut page = Page::new(&name, &sources.node, "");
    page.add(format_args!("<h1>{}</h1>", Escaped(&name)));
    let past = sources.history.read();
    for (family, problem) in &past.problems {
        let of_this = problem
            .strip_prefix(&*name)
            .is_some_and(|rest| rest.starts_with([':', '/']));
        if of_this {
            page.add(format_args!(
                "<p class=\"bad\">{}: {}</p>",
                family_label(*family),
                Escaped(problem)
            ));
        }
    }
    let number = query.number("page").max(1);
    for (family, detail) in details {
        let label = family_label(*family);
        page.add(format_args!("<h2>{label} frontends</h2>"));
        frontends(&mut page, &detail.frontends);
        page.add(format_args!(
            "<h2>{label} endpoints <span class=\"soft\">{} of {} ready</span></h2>",
            Grouped::of(detail.ready),
            Grouped::of(detail.all)
        ));
        let pages = detail.all.div_ceil(PER_PAGE).max(1);
        endpoints(&mut page, detail.endpoints.iter().take(PER_PAGE));
        if pages > 1 {
            page.add(format_args!("<div class=\"pages soft\">"));
            for (to, word) in [
                ((number - 1).min(pages), "← back"),
                (number.saturating_add(1), "on →"),
            ] {
                if (1..=pages).contains(&to) {
                    let to = link(
                        "/statusz/service",
                        &[("name", &name), ("page", &to.to_string())],
                    );
                    page.add(format_args!("<a href=\"{}\">{word}</a>", Escaped(to)));
                }
            }
            page.add(format_args!("<span>page {number} of {pages}</span></div>"));
        }
    }
    page.finish()
}

fn frontends(page: &mut Page, frontends: &[FrontendDetail]) {
    page.add(format_args!(
        "<div class=\"wrap\"><table><tr><th>Address and port<th>Kind<th class=\"wide\">Name\
         <th>Leads to</tr>"
    ));
    for frontend in frontends {
        let address = frontend
            .address
            .map_or_else(|| "node port".to_owned(), |address| address.to_string());
        page.add(format_args!(
            "<tr><td class=\"addr\">{address} {} {}<td>{}<td class=\"wide\">{}<td>",
            protocol(frontend.protocol),
            frontend.port,
            frontend.role,
            Escaped(&frontend.port_name)
        ));
        match &frontend.route {
            _ if frontend.lost => page.add(format_args!(
                "<span class=\"bad\">another Service has it</span></tr>"
            )),
            Some((chain, class, group)) => page.add(format_args!(
                "<span class=\"addr\">{}</span> <span class=\"soft\">class {class}, group {group}</span></tr>",
                Escaped(chain)
            )),
            None if frontend.rejects => page.add(format_args!(
                "<span class=\"warn\">rejected: no endpoint</span></tr>"
            )),
            None => page.add(format_args!(
                "<span class=\"warn\">not in the kernel</span></tr>"
            )),
        }
    }
    page.add(format_args!("</table></div>"));
}

fn endpoints<'e>(page: &mut Page, endpoints: impl Iterator<Item = &'e EndpointDetail>) {
    page.add(format_args!(
        "<div class=\"wrap\"><table><tr><th>Address<th>Ports<th>State<th class=\"wide\">Slice</tr>"
    ));
    for endpoint in endpoints {
        let (class, state) = match (endpoint.ready, endpoint.serving, endpoint.terminating) {
            (true, _, _) => ("good", "ready"),
            (false, true, true) => ("warn", "terminating, serves"),
            (false, false, true) => ("bad", "terminating"),
            (false, _, false) => ("bad", "not ready"),
        };
        page.add(format_args!(
            "<tr><td class=\"addr\">{}{}<td>",
            endpoint.address,
            if endpoint.local { " <b>here</b>" } else { "" }
        ));
        for (position, (name, protocol, port)) in endpoint.ports.iter().enumerate() {
            let comma = if position > 0 { ", " } else { "" };
            page.add(format_args!(
                "{comma}{} {port} <span class=\"soft\">{}</span>",
                self::protocol(*protocol),
                Escaped(name)
            ));
        }
        page.add(format_args!(
            "<td class=\"{class}\">{state}<td class=\"wide soft\">{}</tr>",
            Escaped(&endpoint.slice)
        ));
    }
    page.add(format_args!("</table></div>"));
}

const fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
        _ => "?",
    }
}
