//! Where a connection may go, and which endpoints of its Service it does not go to.

use core::net::SocketAddr;

use svc_planner::fake::{Outcome, Verdict};
use svc_planner::object::{Endpoint, TrafficPolicy};

use super::known::{Hit, Known};
use super::source::is_shortcut;
use super::{EndpointShare, UnusedEndpoint};

/// Both, the chosen ones in order of address.
pub(super) fn all(
    outcomes: &[(Outcome, f64)],
    hit: Option<&Hit>,
    known: &Known<'_>,
) -> (Vec<EndpointShare>, Vec<UnusedEndpoint>) {
    let of_service = hit.and_then(|hit| hit.owner.as_ref());
    let of_service = of_service.map(|port| known.objects.endpoints(port));
    let of_service: Vec<(SocketAddr, &Endpoint)> = of_service
        .into_iter()
        .flatten()
        .map(|(endpoint, port)| (SocketAddr::new(endpoint.address, port), endpoint))
        .collect();
    let mut chosen: Vec<EndpointShare> = Vec::new();
    for (outcome, share) in outcomes {
        let Verdict::Delivered {
            endpoint,
            masqueraded,
        } = outcome.verdict
        else {
            continue;
        };
        let endpoint = SocketAddr::new(endpoint.address, endpoint.port);
        let same =
            |it: &&mut EndpointShare| (it.endpoint, it.masqueraded) == (endpoint, masqueraded);
        if let Some(known) = chosen.iter_mut().find(same) {
            known.share += share;
            continue;
        }
        let object = of_service.iter().find(|(it, _)| *it == endpoint);
        let object = object.map(|(_, object)| *object);
        let node = object.and_then(|it| it.node.as_deref());
        chosen.push(EndpointShare {
            endpoint,
            share: *share,
            masqueraded,
            node: node.map(str::to_owned),
            here: node == Some(known.node_name),
            terminating: object.is_some_and(|it| it.terminating),
        });
    }
    chosen.sort_by_key(|it| (it.endpoint, it.masqueraded));
    let local_only = hit.is_some_and(|hit| hit.target.policy == Some(TrafficPolicy::Local))
        && chosen.iter().all(|it| it.here)
        && !outcomes.iter().any(|(outcome, _)| is_shortcut(outcome));
    let family = outcomes
        .first()
        .is_none_or(|(outcome, _)| match outcome.verdict {
            Verdict::Delivered { endpoint, .. } => endpoint.address.is_ipv4(),
            _ => true,
        });
    let unused = of_service
        .iter()
        .filter(|(it, _)| chosen.iter().all(|share| share.endpoint != *it))
        .filter(|(it, _)| chosen.is_empty() || it.is_ipv4() == family)
        .map(|(it, endpoint)| UnusedEndpoint {
            endpoint: *it,
            node: endpoint.node.as_deref().map(str::to_owned),
            why: why_not(endpoint, local_only, chosen.is_empty(), known.node_name).to_owned(),
        })
        .collect();
    (chosen, unused)
}

fn why_not(
    endpoint: &Endpoint,
    local_only: bool,
    none_chosen: bool,
    node_name: &str,
) -> &'static str {
    if !endpoint.ready && endpoint.terminating && endpoint.serving {
        "terminating"
    } else if !endpoint.ready && endpoint.terminating {
        "terminating and no longer serving"
    } else if !endpoint.ready {
        "not ready"
    } else if local_only && endpoint.node.as_deref() != Some(node_name) {
        "on another node, and the policy is Local"
    } else if none_chosen {
        "the connection does not get that far"
    } else if !endpoint.zone_hints.is_empty() || !endpoint.node_hints.is_empty() {
        "meant for other zones or nodes (topology hints)"
    } else {
        "not among those programmed"
    }
}
