//! Why a packet ends as it does, in words.

use core::net::IpAddr;

use svc_planner::fake::{Outcome, Step};
use svc_planner::object::{Endpoint, Protocol, Service, TrafficPolicy};
use svc_planner::plan::{Rule, Statement};
use svc_planner::report::Reason;

use super::known::{Hit, Known};
use super::objects::Holder;
use super::source::is_shortcut;
use super::{Decision, FrontendKind, Question, twice};
use crate::lower::base_name;

/// Why.
pub(super) fn why(
    question: &Question,
    decision: Decision,
    telling: Option<&Outcome>,
    hit: Option<&Hit>,
    known: &Known<'_>,
) -> String {
    let name = match hit.and_then(|hit| hit.target.port.as_deref()) {
        Some(name) => format!("Service {name}"),
        None => "a Service".to_owned(),
    };
    match decision {
        Decision::Endpoint => {
            let what = match hit.and_then(|hit| hit.target.kind) {
                Some(FrontendKind::NodePort) => {
                    format!("{} is a node port", question.to.port())
                }
                Some(kind) => format!("{} is {}", question.to.ip(), kind.with_article()),
                None => format!("{} is an address", question.to),
            };
            format!("{what} of {name}")
        }
        Decision::Untouched => untouched(question, known),
        Decision::Rejected | Decision::Dropped => {
            let Some(outcome) = telling else {
                return String::new();
            };
            stopped(question, outcome, &name, hit, known)
        }
    }
}

/// What else an operator should know.
pub(super) fn notes(
    question: &Question,
    outcomes: &[(Outcome, f64)],
    hit: Option<&Hit>,
    known: &Known<'_>,
) -> Vec<String> {
    let mut notes = Vec::new();
    if outcomes.iter().any(|(outcome, _)| is_shortcut(outcome)) {
        notes.push(
            "externalTrafficPolicy Local is for others: pods and this node itself reach every endpoint"
                .to_owned(),
        );
    }
    if let Some(seconds) = hit.and_then(|hit| hit.target.affinity) {
        notes.push(format!(
            "session affinity: a client that came within the last {seconds} s goes where it went then"
        ));
    }
    if let Some(owner) = hit.and_then(|hit| hit.owner.as_ref()) {
        let reports = known.reports.iter().filter(|it| it.port == *owner);
        notes.extend(reports.map(|it| format!("{}: {}", it.port, it.reason)));
    }
    let taken = known.reports.iter().filter(|it| match it.reason {
        Reason::AddressTaken {
            address, number, ..
        } => (address, number) == (question.to.ip(), question.to.port()),
        Reason::NodePortTaken { number, .. } => {
            number == question.to.port() && known.host.is_local(&question.to.ip())
        }
        _ => false,
    });
    notes.extend(taken.map(|it| format!("{} claims it as well: {}", it.port, it.reason)));
    notes
}

/// A rule dropped or rejected it.
fn stopped(
    question: &Question,
    outcome: &Outcome,
    name: &str,
    hit: Option<&Hit>,
    known: &Known<'_>,
) -> String {
    let last = outcome.trace.iter().rev().find_map(|step| match step {
        Step::Rule { chain, index } => {
            let rules = known.kernel.rules(question.family(), chain)?;
            Some((chain, rules.get(*index)?))
        }
        _ => None,
    });
    let Some((chain, rule)) = last else {
        return "no rule says why".to_owned();
    };
    if let Some(endpoint) = twice::endpoint(outcome) {
        return twice::stopped(endpoint, question.protocol, deciding_set(rule), known);
    }
    let to = question.to.ip();
    let at_loopback = |it: &Statement| matches!(it, Statement::Daddr { invert: false, .. });
    if to.is_loopback() && rule.statements.iter().any(at_loopback) {
        return format!(
            "node ports of {} are not served at loopback addresses",
            protocol(question.protocol)
        );
    }
    match deciding_set(rule) {
        Some("reject-services") if is_only_elsewhere(hit, known) => no_endpoint(name, hit),
        Some("reject-services" | "reject-nodeports") => {
            format!("no endpoint of {name} is ready, on any node")
        }
        Some("cluster-addresses") => {
            let holders: Vec<_> = known.objects.holders(to).collect();
            format!(
                "{to} is a ClusterIP{}, but not with port {}/{}",
                of_services(&holders),
                question.to.port(),
                protocol(question.protocol),
            )
        }
        Some("service-cidrs") => {
            format!("{to} is in a ServiceCIDR, but no Service has this ClusterIP")
        }
        _ if &**chain == "firewall-check" || deciding_set(rule).is_some_and(is_firewall) => {
            format!(
                "{} is not in the loadBalancerSourceRanges of {name}",
                question.from
            )
        }
        _ if hit.is_some_and(|hit| hit.target.route.is_some()) => no_endpoint(name, hit),
        _ => format!("a rule of chain {chain} says so"),
    }
}

fn no_endpoint(name: &str, hit: Option<&Hit>) -> String {
    let target = hit.map(|hit| &hit.target);
    let policy = match target.and_then(|it| it.kind) {
        Some(FrontendKind::ClusterIp) => "internalTrafficPolicy",
        _ => "externalTrafficPolicy",
    };
    match target.and_then(|it| it.policy) {
        Some(TrafficPolicy::Local) => {
            format!("{policy} of {name} is Local, and no endpoint of it is on this node")
        }
        _ => format!("{name} has no endpoint for it here"),
    }
}

/// Does the policy of a ClusterIP leave out endpoints that other nodes would use?
fn is_only_elsewhere(hit: Option<&Hit>, known: &Known<'_>) -> bool {
    let Some((hit, port)) = hit.and_then(|hit| Some((hit, hit.owner.as_ref()?))) else {
        return false;
    };
    let is_local = hit.target.kind == Some(FrontendKind::ClusterIp)
        && hit.target.policy == Some(TrafficPolicy::Local);
    let is_used = |it: &Endpoint| it.ready || (it.serving && it.terminating);
    let mut endpoints = known.objects.endpoints(port).into_iter();
    is_local && endpoints.any(|(endpoint, _)| is_used(endpoint))
}

/// Sets that source ranges are kept in.
fn is_firewall(set: &str) -> bool {
    set.starts_with("firewall") || set.starts_with("source-ranges")
}

/// The set whose row made the rule match, without the number of its generation.
fn deciding_set(rule: &Rule) -> Option<&str> {
    let mut sets = rule.statements.iter().rev().filter_map(|it| match it {
        Statement::InSet { set, .. } => Some(set),
        Statement::VerdictMap { map, .. } => Some(map),
        _ => None,
    });
    Some(base_name(sets.next()?))
}

fn untouched(question: &Question, known: &Known<'_>) -> String {
    let (to, port) = (question.to.ip(), question.to.port());
    let holders: Vec<_> = known.objects.holders(to).collect();
    if let Some(holder) = holders.first() {
        return format!(
            "{to} is {}{}, but not with port {port}/{}: kproxy leaves it alone",
            holder.kind.with_article(),
            of_services(&holders),
            protocol(question.protocol),
        );
    }
    if to.is_loopback() {
        return format!(
            "node ports at loopback addresses are not translated: {to} is answered by what listens \
             there, for TCP by kproxy itself (--feature-gates, --nodeport-addresses localhost)"
        );
    }
    if known.host.is_local(&to) {
        return node_port(question, to, known);
    }
    "no Service has this address: kproxy leaves it alone".to_owned()
}

fn node_port(question: &Question, to: IpAddr, known: &Known<'_>) -> String {
    let (number, protocol) = (question.to.port(), question.protocol);
    match known.objects.claimant(None, protocol, number) {
        Some(port) => {
            format!("{number} is a node port of Service {port}, but {to} does not serve node ports")
        }
        None => format!(
            "{to} is an address of this node, and no Service has node port {number}/{}",
            self::protocol(protocol)
        ),
    }
}

/// Whose an address is, and with which ports.
fn of_services(holders: &[Holder<'_>]) -> String {
    let one = |service: &Service| {
        let ports = service.ports.iter();
        let ports: Vec<_> = ports
            .map(|it| format!("{}/{}", it.port, protocol(it.protocol)))
            .collect();
        format!(
            "{}/{} ({})",
            service.name.namespace,
            service.name.name,
            ports.join(", ")
        )
    };
    if holders.is_empty() {
        return String::new();
    }
    let services: Vec<_> = holders.iter().map(|it| one(it.service)).collect();
    format!(" of {}", services.join(" and "))
}

const fn protocol(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "TCP",
        Protocol::Udp => "UDP",
        Protocol::Sctp => "SCTP",
        _ => "?",
    }
}
