//! What `kproxy explain` says of a probe, with `--live` and without, against what is expected of it: all must
//! agree.

use core::net::{IpAddr, SocketAddr};
use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use kproxy::explain::{
    Decision, Explanation, Known, LiveState, Objects, Planned, Question, StateSource, explain,
};
use netns_lab::{SINK, Topology, Transport};
use nft_batch::Connection;
use svc_planner::fake::Host;
use svc_planner::object::Protocol;

use super::expect::{Expected, Target};
use super::file::{Case, SourceSeen};

/// Asks about a probe, and compares: by what the kernel holds, and by what the manifests lead to if that is
/// planned here.
pub(super) fn judge(
    topology: &Topology,
    case: &Case,
    node_name: &str,
    planned: Option<&Planned>,
) -> Result<()> {
    let Some(protocol) = protocol(case.to) else {
        return Ok(());
    };
    let of_family = |it: &&IpAddr| it.is_ipv4() == case.to.to.is_ipv4();
    let (node, to) = (topology.node_addresses(), case.to.to.ip());
    let from = match case.from.as_str() {
        // As the kernel would choose.
        "node" if to.is_loopback() => Some(&to),
        "node" => node.iter().find(of_family),
        host => topology.host(host)?.addresses().iter().find(of_family),
    };
    let Some(from) = from else {
        return Ok(());
    };
    let question = Question {
        from: *from,
        from_port: None,
        to: case.to.to,
        protocol,
        interface: topology.interface(&case.from).ok(),
    };
    let (host, family) = (Host::new(node.iter().copied()), question.family());
    let packet = question.packet(&host);
    let mut connection = topology.node().run(Connection::open)??;
    let state = LiveState::read(&mut connection, &packet, &host)?;
    let explanation = explain(
        question.clone(),
        &Known {
            kernel: &state.kernel,
            state: StateSource::Live,
            host: &host,
            node_name: "",
            objects: &Objects::default(),
            owner: &|_| None,
            reports: &[],
        },
    );
    compare(topology, case, &explanation)?;
    // Who sticks to whom is not planned.
    let Some(planned) = planned.filter(|_| !case.same && !case.still) else {
        return Ok(());
    };
    let explanation = explain(
        question,
        &Known {
            kernel: planned.kernel(),
            state: StateSource::Planned,
            host: &host,
            node_name,
            objects: planned.objects(),
            owner: &|key| planned.owner(family, key),
            reports: &planned.reports(family),
        },
    );
    compare(topology, case, &explanation).context("planned")
}

fn compare(topology: &Topology, case: &Case, said: &Explanation) -> Result<()> {
    let expected = match &case.expect {
        Expected::Rejected | Expected::RejectedTranslated => Decision::Rejected,
        Expected::Dropped => Decision::Dropped,
        Expected::Untouched => Decision::Untouched,
        // Nothing listens there, translated or not.
        Expected::Reset => return Ok(()),
        Expected::Endpoints(endpoints) => {
            let told: BTreeSet<_> = said.endpoints.iter().map(|it| it.endpoint).collect();
            let mut wanted = BTreeSet::new();
            for (host, port) in endpoints {
                // It answers for every address.
                if host == SINK {
                    wanted.extend(told.iter().filter(|it| it.port() == *port));
                    continue;
                }
                let addresses = match host.as_str() {
                    "node" => topology.node_addresses(),
                    host => topology.host(host)?.addresses(),
                };
                wanted.extend(addresses.iter().map(|it| SocketAddr::new(*it, *port)));
            }
            wanted.retain(|it| it.is_ipv4() == case.to.to.is_ipv4());
            // Not through a Service.
            if wanted.contains(&case.to.to) && told.is_empty() {
                ensure!(
                    said.decision == Decision::Untouched,
                    "explained: {}",
                    said.why
                );
                return Ok(());
            }
            // A host may have more addresses than the endpoint's; a client that sticks to an endpoint
            // is told that one.
            let stuck = (case.same || case.still) && told.len() == 1;
            ensure!(
                told.is_subset(&wanted) && (stuck || told.len() == endpoints.len()),
                "explained with {told:?}"
            );
            let masqueraded = case.source == SourceSeen::Node;
            // The node's own address is what it has anyway.
            let alike = said
                .endpoints
                .iter()
                .all(|it| it.masqueraded == masqueraded);
            ensure!(
                case.from == "node" || alike,
                "explained with {:?}",
                said.source
            );
            Decision::Endpoint
        }
    };
    if said.decision != expected {
        bail!("explained as {:?}: {}", said.decision, said.why);
    }
    Ok(())
}

const fn protocol(target: Target) -> Option<Protocol> {
    match target.transport {
        Transport::Tcp => Some(Protocol::Tcp),
        Transport::Udp => Some(Protocol::Udp),
        Transport::Sctp => Some(Protocol::Sctp),
        _ => None,
    }
}
