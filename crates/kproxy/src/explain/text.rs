//! An explanation for people.

use core::fmt::Write as _;
use core::net::SocketAddr;

use svc_planner::object::TrafficPolicy;
use svc_planner::plan::Family;

use super::{Decision, Explanation, FrontendKind, Question, StateSource, Target};
use crate::engine::TABLE;

/// Endpoints shown by name.
const MAX_ENDPOINTS: usize = 20;

/// Writes it down.
pub fn text(out: &mut String, explanation: &Explanation) {
    let question = &explanation.question;
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{}: {}", heading(question), verdict(explanation));
    let _ = writeln!(out, "{:12}{}", "Why", explanation.why);
    if let Some(target) = &explanation.service {
        service(out, question, target);
    }
    endpoints(out, explanation);
    if let Some(source) = &explanation.source {
        let what = if source.masqueraded {
            "becomes an address of this node (masqueraded)"
        } else {
            "stays the client's"
        };
        let _ = writeln!(out, "{:12}{what}: {}", "Source", source.why);
    }
    for note in &explanation.notes {
        let _ = writeln!(out, "{:12}{note}", "Note");
    }
    let _ = writeln!(
        out,
        "{:12}{}",
        "State",
        match explanation.state {
            StateSource::Planned => "planned, from manifests: what the kernel is to hold",
            StateSource::Live => "live: what the kernel holds",
        }
    );
    ways(out, explanation);
}

fn heading(question: &Question) -> String {
    let from = match question.from_port {
        Some(port) => SocketAddr::new(question.from, port).to_string(),
        None => question.from.to_string(),
    };
    let by = question.interface.as_deref();
    let by = by.map_or_else(String::new, |name| format!(" by {name}"));
    format!("{} {from}{by} -> {}", question.protocol, question.to)
}

fn verdict(explanation: &Explanation) -> String {
    match explanation.decision {
        Decision::Endpoint => match explanation.endpoints.as_slice() {
            [only] => format!("goes to {}", only.endpoint),
            several => format!("goes to one of {} endpoints", several.len()),
        },
        Decision::Untouched => "not translated, goes where it is addressed to".to_owned(),
        Decision::Rejected => "REJECTED, the client is told (ICMP port unreachable)".to_owned(),
        Decision::Dropped => "DROPPED, the client hears nothing".to_owned(),
    }
}

fn service(out: &mut String, question: &Question, target: &Target) {
    let name = target
        .port
        .as_deref()
        .unwrap_or("unknown, for want of manifests (-f)");
    let _ = writeln!(out, "{:12}{name}", "Service");
    let kind = target.kind.map(FrontendKind::with_article);
    let kind = kind.map_or_else(String::new, |kind| {
        let (_, bare) = kind.split_once(' ').unwrap_or(("", kind));
        format!("{bare} ")
    });
    let _ = writeln!(out, "{:12}{kind}{}", "Frontend", question.to);
    if let Some(policy) = target.policy {
        let which = match target.kind {
            Some(FrontendKind::ClusterIp) => "internalTrafficPolicy",
            _ => "externalTrafficPolicy",
        };
        let policy = match policy {
            TrafficPolicy::Local => "Local",
            _ => "Cluster",
        };
        let affinity = target.affinity.map_or_else(String::new, |seconds| {
            format!(", sessionAffinity ClientIP for {seconds} s")
        });
        let _ = writeln!(out, "{:12}{which} {policy}{affinity}", "Policy");
    }
}

fn endpoints(out: &mut String, explanation: &Explanation) {
    let on = |node: &Option<String>| node.clone().unwrap_or_default();
    let mut label = "Endpoints";
    for it in explanation.endpoints.iter().take(MAX_ENDPOINTS) {
        let here = if it.here { " (this node)" } else { "" };
        let ends = if it.terminating { ", terminating" } else { "" };
        let other = explanation.source.as_ref();
        let other = other.is_some_and(|source| source.masqueraded != it.masqueraded);
        let itself = if other {
            ", masqueraded, as it asks itself (hairpin)"
        } else {
            ""
        };
        let line = format!("{}  {}{here}{ends}{itself}", it.endpoint, on(&it.node));
        let _ = writeln!(
            out,
            "{label:12}{:5.1} %  {}",
            it.share * 100.0,
            line.trim_end()
        );
        label = "";
    }
    let more = explanation.endpoints.len().saturating_sub(MAX_ENDPOINTS);
    if more > 0 {
        let _ = writeln!(out, "{:12}and {more} more", "");
    }
    label = "Not used";
    for it in explanation.unused.iter().take(MAX_ENDPOINTS) {
        let _ = writeln!(
            out,
            "{label:12}{}  {}: {}",
            it.endpoint,
            on(&it.node),
            it.why
        );
        label = "";
    }
    let more = explanation.unused.len().saturating_sub(MAX_ENDPOINTS);
    if more > 0 {
        let _ = writeln!(out, "{:12}and {more} more", "");
    }
}

/// Of ways that differ only in the endpoint the first is shown.
fn ways(out: &mut String, explanation: &Explanation) {
    let family: Family = explanation.question.family();
    let mut shown: Vec<(String, usize)> = Vec::new();
    for way in &explanation.ways {
        let end = way.end.split_whitespace().next().unwrap_or_default();
        let alike = (end.trim_end_matches(',').to_owned(), way.steps.len());
        if shown.contains(&alike) {
            continue;
        }
        shown.push(alike);
        let _ = writeln!(out, "\nWay through table {family} {TABLE}, {}:", way.end);
        for step in &way.steps {
            let _ = writeln!(out, "  {step}");
        }
        if way.mark != 0 {
            let _ = writeln!(out, "  packet mark at the end: {:#x}", way.mark);
        }
    }
}
