//! Which endpoints of a Service port are used.

use super::Oracle;
use crate::fake::packet::Endpoint;
use crate::object::{self, EndpointSlice, Service, ServicePort};

/// An endpoint in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) endpoint: Endpoint,
    pub(super) on_this_node: bool,
}

/// An endpoint of a Service port with its conditions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    endpoint: Endpoint,
    of: &'a object::Endpoint,
}

impl Candidate<'_> {
    const fn is_draining(&self) -> bool {
        self.of.serving && self.of.terminating
    }
}

impl Oracle {
    /// The endpoints of a Service port, one for each address and port. Of duplicates in a slice the
    /// last that does not terminate counts, else the first. Of those in several slices the one that
    /// does not terminate, then the ready, the serving, the one in the first slice by name.
    pub(super) fn candidates(&self, service: &Service, port: &ServicePort) -> Vec<Candidate<'_>> {
        let mut candidates: Vec<Candidate<'_>> = Vec::new();
        let mut found_in: Vec<&EndpointSlice> = Vec::new();
        for slice in self.slices.values() {
            if slice.name.namespace != service.name.namespace || slice.service != service.name.name
            {
                continue;
            }
            for slice_port in &slice.ports {
                if slice_port.name != port.name || slice_port.protocol != port.protocol {
                    continue;
                }
                for of in slice
                    .endpoints
                    .iter()
                    .filter(|of| self.is_ours(&of.address))
                {
                    let endpoint = Endpoint {
                        address: of.address,
                        port: slice_port.port,
                    };
                    let rank = |of: &object::Endpoint| (!of.terminating, of.ready, of.serving);
                    let known = candidates.iter().position(|c| c.endpoint == endpoint);
                    let Some(known) = known else {
                        candidates.push(Candidate { endpoint, of });
                        found_in.push(slice);
                        continue;
                    };
                    let counts = if found_in[known].name == slice.name {
                        !of.terminating
                    } else {
                        rank(of) > rank(candidates[known].of)
                    };
                    if counts {
                        (candidates[known].of, found_in[known]) = (of, slice);
                    }
                }
            }
        }
        candidates
    }

    pub(super) fn cluster_endpoints(&self, candidates: &[Candidate<'_>]) -> Vec<Chosen> {
        let ready: Vec<_> = candidates
            .iter()
            .filter(|candidate| candidate.of.ready)
            .collect();
        if ready.is_empty() {
            let draining = candidates
                .iter()
                .filter(|candidate| candidate.is_draining());
            return draining.map(|candidate| self.chosen(candidate)).collect();
        }
        let hinted_node = |c: &Candidate<'_>| c.of.node_hints.contains(&self.config.node_name);
        let zone = self.node.as_ref().and_then(|node| node.zone.as_ref());
        let hinted_zone =
            |c: &Candidate<'_>| zone.is_some_and(|zone| c.of.zone_hints.contains(zone));
        let by_node = ready.iter().all(|c| !c.of.node_hints.is_empty())
            && ready.iter().any(|c| hinted_node(c));
        let by_zone = ready.iter().all(|c| !c.of.zone_hints.is_empty())
            && ready.iter().any(|c| hinted_zone(c));
        ready
            .into_iter()
            .filter(|c| {
                if by_node {
                    hinted_node(c)
                } else {
                    !by_zone || hinted_zone(c)
                }
            })
            .map(|c| self.chosen(c))
            .collect()
    }

    pub(super) fn local_endpoints(&self, candidates: &[Candidate<'_>]) -> Vec<Chosen> {
        let local = || {
            candidates
                .iter()
                .filter(|candidate| self.chosen(candidate).on_this_node)
        };
        let any_ready = local().any(|candidate| candidate.of.ready);
        local()
            .filter(|c| {
                if any_ready {
                    c.of.ready
                } else {
                    c.is_draining()
                }
            })
            .map(|candidate| self.chosen(candidate))
            .collect()
    }

    fn chosen(&self, candidate: &Candidate<'_>) -> Chosen {
        let on_this_node = candidate.of.node.as_ref() == Some(&self.config.node_name);
        Chosen {
            endpoint: candidate.endpoint,
            on_this_node,
        }
    }
}
