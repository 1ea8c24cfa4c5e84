//! Why a packet that was translated is stopped: its endpoint is itself an address of a Service, and
//! nothing is translated twice.

use core::net::SocketAddr;

use svc_planner::fake::{Outcome, Step};
use svc_planner::object::Protocol;
use svc_planner::plan::{Datum, Key};

use super::FrontendKind;
use super::known::Known;
use super::objects::kind_of;

/// The endpoint that a packet was translated to.
pub(super) fn endpoint(outcome: &Outcome) -> Option<SocketAddr> {
    outcome.trace.iter().rev().find_map(|step| match step {
        Step::Lookup {
            found: Some(Datum::Endpoint { address, port }),
            ..
        } => Some(SocketAddr::new(*address, *port)),
        _ => None,
    })
}

/// What stops packets to an endpoint, whose row is in `set`.
pub(super) fn stopped(
    endpoint: SocketAddr,
    protocol: Protocol,
    set: Option<&str>,
    known: &Known<'_>,
) -> String {
    let address = endpoint.ip();
    let (what, policy) = match set {
        Some("cluster-addresses") => {
            return format!("its endpoint {endpoint} is itself at a ClusterIP");
        }
        Some("service-cidrs") => {
            return format!(
                "its endpoint {endpoint} is in a ServiceCIDR, but no Service has this ClusterIP"
            );
        }
        _ => match frontend(endpoint, protocol, known) {
            Some((kind, port)) => {
                let policy = match kind {
                    FrontendKind::ClusterIp => "internalTrafficPolicy",
                    _ => "externalTrafficPolicy",
                };
                (format!("{} of Service {port}", kind.with_article()), policy)
            }
            None => ("an address of a Service".to_owned(), "its traffic policy"),
        },
    };
    let why = match set {
        Some("drop-classes") => {
            format!("{policy} is Local, and no endpoint of that is on this node")
        }
        Some("reject-services" | "reject-nodeports") => {
            "no endpoint of that is ready, on any node".to_owned()
        }
        _ => format!("its rules keep {address} from being reached like that"),
    };
    format!("its endpoint {endpoint} is itself {what}: {why}")
}

/// The Service port that has an address, or else a node port.
fn frontend(
    at: SocketAddr,
    protocol: Protocol,
    known: &Known<'_>,
) -> Option<(FrontendKind, String)> {
    let (address, port) = (at.ip(), at.port());
    let by_address = Key::Frontend {
        address,
        protocol,
        port,
    };
    let claimant = |address| known.objects.claimant(address, protocol, port);
    if let Some(owner) = (known.owner)(&by_address).or_else(|| claimant(Some(address))) {
        let service = known.objects.service(&owner.service)?;
        return Some((kind_of(service, address)?, owner.to_string()));
    }
    let owner = (known.owner)(&Key::NodePort { protocol, port }).or_else(|| claimant(None))?;
    Some((FrontendKind::NodePort, owner.to_string()))
}
