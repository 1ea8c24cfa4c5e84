//! Whether the endpoint sees the client's address or one of this node's, and why.

use svc_planner::fake::{Outcome, Step, Verdict};
use svc_planner::object::TrafficPolicy;
use svc_planner::plan::{Name, Rule, Statement};

use super::known::{Hit, Known};
use super::{FrontendKind, Question, SourceAddress};
use crate::lower::base_name;

/// The source that the end of a way sees.
pub(super) fn of(
    outcome: &Outcome,
    question: &Question,
    hit: Option<&Hit>,
    known: &Known<'_>,
) -> SourceAddress {
    let masqueraded = is_masqueraded(outcome);
    let why = if masqueraded {
        why_masqueraded(outcome, question, hit, known)
    } else {
        why_not(outcome, question, hit, known)
    };
    SourceAddress { masqueraded, why }
}

/// Whether there is an end with a source to speak of.
pub(super) const fn is_sent(outcome: &Outcome) -> bool {
    matches!(
        outcome.verdict,
        Verdict::Delivered { .. } | Verdict::Untouched { masqueraded: true }
    )
}

/// Whether it took the way on which an address of policy Local leads pods and this node itself to every
/// endpoint.
pub(super) fn is_shortcut(outcome: &Outcome) -> bool {
    outcome.trace.iter().any(|step| {
        matches!(step, Step::Lookup { set, found: Some(_), .. } if base_name(set) == "shortcuts")
    })
}

/// Whether the source becomes an address of this node.
pub(super) const fn is_masqueraded(outcome: &Outcome) -> bool {
    matches!(
        outcome.verdict,
        Verdict::Delivered {
            masqueraded: true,
            ..
        } | Verdict::Untouched { masqueraded: true }
    )
}

fn why_masqueraded(
    outcome: &Outcome,
    question: &Question,
    hit: Option<&Hit>,
    known: &Known<'_>,
) -> String {
    let executed = executed(outcome, question, known);
    let mut marking = executed.iter().filter(|(_, rule)| marks(rule));
    let Some((_, rule)) = marking.next() else {
        return "the endpoint talks to itself through its own Service (hairpin)".to_owned();
    };
    let from = question.from;
    match rule.statements.as_slice() {
        [Statement::MarkOr { .. }] if is_cluster_ip(hit) => {
            "all traffic to ClusterIPs is masqueraded (--masquerade-all)".to_owned()
        }
        [Statement::MarkOr { .. }] => {
            "through such an address replies have to come back through this node".to_owned()
        }
        [Statement::Saddr { prefix, .. }, ..] => {
            format!("{from} is no pod: it is not in {prefix}")
        }
        [Statement::Iifname { name, prefix, .. }, ..] => {
            let pods = if *prefix {
                "interfaces that begin with"
            } else {
                ""
            };
            match question.interface.as_deref() {
                None => format!("it does not come from a pod: pods are behind {pods} {name}"),
                Some(interface) => {
                    format!("{interface} has no pods: they are behind {pods} {name}")
                }
            }
        }
        [Statement::FibSaddrLocal, ..] => "it comes from this node itself".to_owned(),
        _ => "a rule marks it for masquerading".to_owned(),
    }
}

fn why_not(outcome: &Outcome, question: &Question, hit: Option<&Hit>, known: &Known<'_>) -> String {
    if is_shortcut(outcome) {
        return format!("{} is a pod's, and so it stays", question.from);
    }
    // Rules of the chains it went through that would have marked it.
    let visited = outcome.trace.iter().filter_map(|step| match step {
        Step::Chain { chain } => Some(chain),
        _ => None,
    });
    let rules = |chain: &Name| known.kernel.rules(question.family(), chain);
    let mut marking = visited
        .filter_map(rules)
        .flatten()
        .filter(|rule| marks(rule));
    let condition = marking.find_map(|rule| rule.statements.first());
    let from = question.from;
    match condition {
        Some(Statement::Saddr { prefix, .. }) => format!("{from} is a pod: it is in {prefix}"),
        Some(Statement::Iifname { name, prefix, .. }) => {
            let star = if *prefix { "*" } else { "" };
            format!("it comes from a pod: it arrives on {name}{star}")
        }
        _ if is_cluster_ip(hit) => {
            "nothing says which sources are pods (--cluster-cidr), so none is masqueraded"
                .to_owned()
        }
        _ if hit.is_some_and(|hit| hit.target.policy == Some(TrafficPolicy::Local)) => {
            "externalTrafficPolicy Local keeps the client's address".to_owned()
        }
        _ => "no rule asks for anything else".to_owned(),
    }
}

fn is_cluster_ip(hit: Option<&Hit>) -> bool {
    hit.is_some_and(|hit| hit.target.kind == Some(FrontendKind::ClusterIp))
}

fn marks(rule: &Rule) -> bool {
    let mut statements = rule.statements.iter();
    statements.any(|it| matches!(it, Statement::MarkOr { .. }))
}

/// The rules that matched, with their chains.
fn executed<'a>(
    outcome: &'a Outcome,
    question: &Question,
    known: &Known<'a>,
) -> Vec<(&'a Name, &'a Rule)> {
    let steps = outcome.trace.iter();
    steps
        .filter_map(|step| match step {
            Step::Rule { chain, index } => {
                let rule = known.kernel.rules(question.family(), chain)?.get(*index)?;
                Some((chain, rule))
            }
            _ => None,
        })
        .collect()
}
