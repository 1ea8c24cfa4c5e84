use svc_planner::display::Of;
use svc_planner::fake::{Kernel, Origin, Outcome, Step, Verdict};
use svc_planner::plan::{Datum, Family, Key};

use super::known::{Hit, Known};
use super::objects::kind_of;
use super::{
    Decision, Explanation, FrontendKind, Question, RouteNumbers, Target, Way, endpoints, reason,
    source,
};

/// Answers a question.
#[must_use]
pub fn explain(question: Question, known: &Known<'_>) -> Explanation {
    let packet = question.packet(known.host);
    let outcomes = known.kernel.outcomes(&packet, known.host);
    let decision = outcomes.iter().map(|(it, _)| decision(it)).max();
    let decision = decision.unwrap_or(Decision::Untouched);
    let hit = hit(&question, &outcomes, known);
    let (endpoints, unused) = endpoints::all(&outcomes, hit.as_ref(), known);
    // The way that explains most: the first of those with the worst end.
    let telling = outcomes.iter().map(|(it, _)| it);
    let telling = telling.min_by_key(|it| core::cmp::Reverse(self::decision(it)));
    let why = reason::why(&question, decision, telling, hit.as_ref(), known);
    // Where endpoints differ, the one that is masqueraded is the exception: it asks itself.
    let sent = outcomes.iter().map(|(it, _)| it);
    let sent = sent.filter(|it| source::is_sent(it));
    let plain = sent.clone().find(|it| !source::is_masqueraded(it));
    let plain = plain.or_else(|| sent.clone().next());
    let source = plain.map(|it| source::of(it, &question, hit.as_ref(), known));
    let family = question.family();
    Explanation {
        from_this_node: packet.origin == Origin::Local,
        state: known.state,
        decision,
        why,
        endpoints,
        unused,
        source,
        notes: reason::notes(&question, &outcomes, hit.as_ref(), known),
        ways: outcomes
            .iter()
            .map(|(outcome, share)| way(outcome, *share, family, known.kernel))
            .collect(),
        service: hit.map(|hit| hit.target),
        question,
    }
}

/// How bad an end is.
pub(super) fn decision(outcome: &Outcome) -> Decision {
    match outcome.verdict {
        Verdict::Delivered { .. } => Decision::Endpoint,
        Verdict::Untouched { .. } => Decision::Untouched,
        Verdict::Rejected => Decision::Rejected,
        Verdict::Dropped => Decision::Dropped,
    }
}

/// The frontend whose row the packet found.
fn hit(question: &Question, outcomes: &[(Outcome, f64)], known: &Known<'_>) -> Option<Hit> {
    let of_destination = |key: &Key| match *key {
        Key::Frontend { address, port, .. } => {
            (address, port) == (question.to.ip(), question.to.port())
        }
        Key::NodePort { port, .. } => port == question.to.port(),
        _ => false,
    };
    let steps = outcomes.iter().flat_map(|(outcome, _)| &outcome.trace);
    let rows = steps.filter_map(|step| match step {
        Step::Lookup {
            key,
            found: Some(found),
            ..
        } if of_destination(key) => Some((*key, found)),
        _ => None,
    });
    // The row that leads on says more than one that restricts.
    let leads = |(_, found): &(Key, &Datum)| matches!(found, Datum::Route(_));
    let (key, found) = rows.clone().find(leads).or_else(|| rows.clone().next())?;
    let route = match found {
        Datum::Route(route) => Some(RouteNumbers {
            class: route.class(),
            group: route.group(),
        }),
        _ => None,
    };
    let address = match key {
        Key::Frontend { address, .. } => Some(address),
        _ => None,
    };
    let owner = (known.owner)(&key).or_else(|| {
        let (protocol, port) = (question.protocol, question.to.port());
        known.objects.claimant(address, protocol, port)
    });
    // Without manifests the row may still say whose the group is.
    let owner = owner.or_else(|| (known.owner)(&Key::Group(route?.group)));
    let service = owner.as_ref();
    let service = service.and_then(|port| known.objects.service(&port.service));
    let kind = match address {
        Some(address) => service.and_then(|service| kind_of(service, address)),
        None => Some(FrontendKind::NodePort),
    };
    let policy = service.zip(kind).map(|(service, kind)| match kind {
        FrontendKind::ClusterIp => service.internal_policy,
        _ => service.external_policy,
    });
    Some(Hit {
        target: Target {
            port: owner.as_ref().map(ToString::to_string),
            kind,
            policy,
            affinity: service.and_then(|service| service.affinity),
            route,
        },
        owner,
    })
}

fn way(outcome: &Outcome, share: f64, family: Family, kernel: &Kernel) -> Way {
    Way {
        end: outcome.verdict.to_string(),
        share,
        mark: outcome.mark,
        steps: outcome
            .trace
            .iter()
            .map(|step| step_text(step, family, kernel))
            .collect(),
    }
}

fn step_text(step: &Step, family: Family, kernel: &Kernel) -> String {
    match step {
        Step::Hook { hook, chain } => format!("{hook}, chain {chain}"),
        Step::Rule { chain, index } => {
            let rule = kernel.rules(family, chain).and_then(|it| it.get(*index));
            let statements = rule.map(|rule| rule.statements.iter());
            let words = statements.into_iter().flatten();
            let words: Vec<_> = words.map(|it| Of::new(family, it).to_string()).collect();
            format!("  rule {index} of {chain}: {}", words.join(" "))
        }
        Step::Chain { chain } => format!("  chain {chain}"),
        Step::Lookup {
            set, key, found, ..
        } => match found {
            None => format!("    @{set} has no {key}"),
            Some(Datum::None) => format!("    @{set} has {key}"),
            Some(datum) => format!("    @{set} has {key}: {datum}"),
        },
        Step::Number { number, modulus } => format!("    random {number} of {modulus}"),
        step => format!("    {step}"),
    }
}
