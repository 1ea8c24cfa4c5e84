//! Which endpoints serve a Service port: ready ones, else those that still serve while
//! terminating; of the cluster, and of this node.

use hashbrown::HashMap;

use super::topology::Nearness;
use crate::model::Model;
use crate::model::address::Target;
use crate::model::service::Port;
use crate::model::slice::{Flags, SlicePort};

/// An endpoint of a Service port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) target: Target,
    pub(super) zones: u32,
    pub(super) flags: Flags,
    in_cluster: bool,
    in_local: bool,
}

impl Candidate {
    pub(super) const fn is_ready(&self) -> bool {
        self.flags.has(Flags::READY)
    }

    /// Still serves while it terminates.
    const fn is_draining(&self) -> bool {
        self.flags.has(Flags::SERVING) && self.flags.has(Flags::TERMINATING)
    }

    const fn is_local(&self) -> bool {
        self.flags.has(Flags::LOCAL)
    }
}

/// The endpoints of a Service port; kept between uses for its buffers.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// For policy Cluster.
    pub(crate) cluster: Vec<Target>,
    /// For policy Local.
    pub(crate) local: Vec<Target>,
    /// All endpoints of this node that are in one of the two.
    pub(crate) on_this_node: Vec<Target>,
    candidates: Vec<Candidate>,
    positions: HashMap<Target, usize>,
}

/// From this many candidates on duplicates are found by hash.
const MANY: usize = 16;

impl Selection {
    /// Selects anew. Afterwards [`cluster`](Self::cluster) is empty only when no endpoint anywhere
    /// can be used.
    pub(crate) fn select(&mut self, model: &Model, port: &Port) {
        self.cluster.clear();
        self.local.clear();
        self.on_this_node.clear();
        self.gather(model, port);
        let any_ready = self.candidates.iter().any(Candidate::is_ready);
        let nearness = Nearness::of(&self.candidates, model.node.zone(), &model.names);
        let local_ready = |c: &Candidate| c.is_local() && c.is_ready();
        let any_local_ready = self.candidates.iter().any(local_ready);
        for candidate in &mut self.candidates {
            candidate.in_cluster = if any_ready {
                candidate.is_ready() && nearness.admits(candidate, &model.names)
            } else {
                candidate.is_draining()
            };
            candidate.in_local = candidate.is_local()
                && if any_local_ready {
                    candidate.is_ready()
                } else {
                    candidate.is_draining()
                };
            if candidate.in_cluster {
                self.cluster.push(candidate.target);
            }
            if candidate.in_local {
                self.local.push(candidate.target);
            }
        }
    }

    /// Notes the endpoints of this node among the sets in use.
    pub(crate) fn note_local(&mut self, uses_cluster: bool, uses_local: bool) {
        let in_use = |c: &&Candidate| {
            c.is_local() && ((uses_cluster && c.in_cluster) || (uses_local && c.in_local))
        };
        let targets = self.candidates.iter().filter(in_use).map(|c| c.target);
        self.on_this_node.extend(targets);
    }

    /// Collects the endpoints of all slices; of several with the same target the one that is not
    /// terminating counts, then the ready, the serving, and the first by slice name.
    fn gather(&mut self, model: &Model, port: &Port) {
        self.candidates.clear();
        let slices = model
            .services
            .at(port.service)
            .map_or(&[][..], |s| &s.slices);
        let slices = slices.iter().filter_map(|id| model.slices.at(*id));
        for slice in slices {
            let serves = |p: &&SlicePort| p.name == port.name && p.protocol == port.protocol;
            for slice_port in slice.ports.iter().filter(serves) {
                let candidates = slice.endpoints.iter().map(|endpoint| Candidate {
                    target: Target {
                        address: endpoint.address,
                        port: slice_port.port,
                    },
                    zones: endpoint.zones,
                    flags: endpoint.flags,
                    in_cluster: false,
                    in_local: false,
                });
                self.candidates.extend(candidates);
            }
        }
        self.merge_duplicates();
    }

    fn merge_duplicates(&mut self) {
        let rank = |c: &Candidate| {
            (
                !c.flags.has(Flags::TERMINATING),
                c.flags.has(Flags::READY),
                c.flags.has(Flags::SERVING),
            )
        };
        let many = self.candidates.len() >= MANY;
        self.positions.clear();
        let mut kept = 0;
        for next in 0..self.candidates.len() {
            let candidate = self.candidates[next];
            let known = if many {
                match self.positions.try_insert(candidate.target, kept) {
                    Ok(_) => None,
                    Err(occupied) => Some(*occupied.entry.get()),
                }
            } else {
                let earlier = &self.candidates[..kept];
                earlier.iter().position(|c| c.target == candidate.target)
            };
            match known {
                Some(known) => {
                    if rank(&candidate) > rank(&self.candidates[known]) {
                        self.candidates[known] = candidate;
                    }
                }
                None => {
                    self.candidates[kept] = candidate;
                    kept += 1;
                }
            }
        }
        self.candidates.truncate(kept);
    }
}
