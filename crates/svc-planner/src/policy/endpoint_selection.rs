//! Which endpoints serve a Service port: ready ones, else those that still serve while
//! terminating; of the cluster, and of this node.

use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use super::candidate::Candidate;
use super::topology::Nearness;
use crate::model::Model;
use crate::model::address::{LocalTarget, Target};
use crate::model::service::Port;
use crate::model::slice::{Flags, Slice, SlicePort};
use crate::object::Protocol;

/// The endpoints of a Service port; kept between uses for its buffers.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    /// For policy Cluster.
    pub(crate) cluster: Vec<Target>,
    /// For policy Local.
    pub(crate) local: Vec<Target>,
    /// All endpoints of this node that are in one of the two.
    pub(crate) on_this_node: Vec<Target>,
    /// The same as the rows they need.
    pub(crate) hairpins: Vec<LocalTarget>,
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
        self.gather(model, port.service, port.name, port.protocol);
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

    /// How many addresses of this node a Service's load balancers may count on: of ready endpoints, by
    /// whichever port of a slice, also by one that the Service does not have.
    pub(crate) fn ready_here(&mut self, model: &Model, service: u32) -> usize {
        let mut ports: SmallVec<[(u32, Protocol); 4]> = slices_of(model, service)
            .flat_map(|(_, slice)| &slice.ports)
            .map(|port| (port.name, port.protocol))
            .collect();
        ports.sort_unstable();
        ports.dedup();
        let mut addresses = HashSet::new();
        for (name, protocol) in ports {
            self.gather(model, service, name, protocol);
            let counted = self.candidates.iter();
            let counted = counted.filter(|c| c.is_local() && c.is_ready());
            addresses.extend(counted.map(|c| c.target.address));
        }
        addresses.len()
    }

    /// Collects the endpoints of all slices; of several with the same target the one that is not
    /// terminating counts, then the ready, the serving, and the first by slice name.
    fn gather(&mut self, model: &Model, service: u32, name: u32, protocol: Protocol) {
        self.candidates.clear();
        for (id, slice) in slices_of(model, service) {
            let serves = |p: &&SlicePort| p.name == name && p.protocol == protocol;
            for slice_port in slice.ports.iter().filter(serves) {
                let candidates = slice.endpoints.iter().map(|endpoint| Candidate {
                    target: Target {
                        address: endpoint.address,
                        port: slice_port.port,
                    },
                    zones: endpoint.zones,
                    flags: endpoint.flags,
                    slice: id,
                    in_cluster: false,
                    in_local: false,
                });
                self.candidates.extend(candidates);
            }
        }
        self.merge_duplicates();
    }

    /// Of an address and port that a slice has more than once the last that does not terminate
    /// counts, else the first, as for kube-proxy. Which of several slices' counts is chance there;
    /// here the one that does not terminate, then the ready, the serving, the first slice's.
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
                    let known = &mut self.candidates[known];
                    let counts = if candidate.slice == known.slice {
                        !candidate.flags.has(Flags::TERMINATING)
                    } else {
                        rank(&candidate) > rank(known)
                    };
                    if counts {
                        *known = candidate;
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

/// A Service's slices, with their numbers.
fn slices_of(model: &Model, service: u32) -> impl Iterator<Item = (u32, &Slice)> {
    let slices = model
        .services
        .at(service)
        .map_or(&[][..], |service| &service.slices);
    slices
        .iter()
        .filter_map(|id| Some((*id, model.slices.at(*id)?)))
}

#[cfg(test)]
pub(super) mod tests {
    use smallvec::smallvec;

    use super::*;
    use crate::model::interner::Interner;
    use crate::object::{self, Change, EndpointSlice, ObjectName};
    use crate::plan::Family;

    fn endpoint(address: &str, ready: bool, serving: bool, terminating: bool) -> object::Endpoint {
        object::Endpoint {
            address: address.trim_end_matches('@').parse().unwrap(),
            ready,
            serving,
            terminating,
            node: address.ends_with('@').then(|| "own".into()),
            zone_hints: smallvec![],
            node_hints: smallvec![],
            weight: 1,
        }
    }

    fn slice(name: &str, endpoints: Vec<object::Endpoint>) -> EndpointSlice {
        let object_name = |name: &str| ObjectName {
            namespace: "default".into(),
            name: name.into(),
        };
        EndpointSlice {
            name: object_name(name),
            service: "web".into(),
            triggers: Default::default(),
            ports: smallvec![object::SlicePort {
                name: "".into(),
                protocol: Protocol::Tcp,
                port: 80
            }],
            endpoints,
        }
    }

    /// A ready endpoint with hints.
    pub(in super::super) fn candidate(zone: &str, node: &str, names: &mut Interner) -> Candidate {
        let hints = |hint: &str| -> SmallVec<[Box<str>; 1]> {
            [hint]
                .into_iter()
                .filter(|hint| !hint.is_empty())
                .map(Into::into)
                .collect()
        };
        let endpoint = object::Endpoint {
            zone_hints: hints(zone),
            node_hints: hints(node),
            ..endpoint("10.0.0.1", true, true, false)
        };
        let slice = Slice::new(slice("a", vec![endpoint]), 0, Family::Ipv4, "own", names);
        let endpoint = &slice.endpoints[0];
        Candidate {
            target: Target {
                address: endpoint.address,
                port: 80,
            },
            zones: endpoint.zones,
            flags: endpoint.flags,
            slice: 0,
            in_cluster: false,
            in_local: false,
        }
    }

    /// Last bytes of the endpoints selected from slices, of the cluster and of this node.
    fn selected(slices: Vec<EndpointSlice>) -> (Vec<u8>, Vec<u8>) {
        let mut model = Model::new(Family::Ipv4, "own".into());
        model.apply(Change::Service(object::Service {
            name: ObjectName {
                namespace: "default".into(),
                name: "web".into(),
            },
            created: None,
            uid: None,
            cluster_ips: smallvec!["10.96.0.1".parse().unwrap()],
            external_ips: smallvec![],
            load_balancer_ips: smallvec![],
            source_ranges: smallvec![],
            internal_policy: object::TrafficPolicy::Cluster,
            external_policy: object::TrafficPolicy::Cluster,
            affinity: None,
            health_check_node_port: 0,
            algorithm: object::Algorithm::Random,
            ports: smallvec![object::ServicePort {
                name: "".into(),
                protocol: Protocol::Tcp,
                port: 80,
                node_port: 0
            }],
        }));
        for slice in slices {
            model.apply(Change::EndpointSlice(slice));
        }
        let mut selection = Selection::default();
        selection.select(&model, model.ports.at(0).unwrap());
        let last = |targets: &[Target]| {
            let octets = targets
                .iter()
                .map(|target| match target.address.ip(Family::Ipv4) {
                    core::net::IpAddr::V4(ip) => ip.octets()[3],
                    core::net::IpAddr::V6(ip) => panic!("{ip}"),
                });
            octets.collect()
        };
        (last(&selection.cluster), last(&selection.local))
    }

    #[test]
    fn terminating_endpoints_serve_only_when_none_is_ready() {
        let all = vec![
            endpoint("10.0.0.1", true, true, false),
            endpoint("10.0.0.2@", false, true, true),
            endpoint("10.0.0.3@", false, false, true),
            endpoint("10.0.0.4@", false, true, false),
        ];
        assert_eq!(
            selected(vec![slice("a", all[1..].to_vec())]),
            (vec![2], vec![2])
        );
        // Ready ones elsewhere do not keep this node's from serving local clients.
        assert_eq!(selected(vec![slice("a", all.clone())]), (vec![1], vec![2]));
        assert_eq!(
            selected(vec![slice("a", all[2..].to_vec())]),
            (vec![], vec![])
        );
    }

    #[test]
    fn of_duplicates_the_one_that_is_not_terminating_counts() {
        let old = slice("a", vec![endpoint("10.0.0.1", false, true, true)]);
        let new = slice("b", vec![endpoint("10.0.0.1", true, true, false)]);
        for slices in [vec![old.clone(), new.clone()], vec![new, old]] {
            assert_eq!(selected(slices), (vec![1], vec![]));
        }
        // Within a slice the last one.
        let ready = endpoint("10.0.0.1", true, true, false);
        let not_ready = endpoint("10.0.0.1", false, false, false);
        let here = endpoint("10.0.0.1@", true, true, false);
        let draining = endpoint("10.0.0.1", false, true, true);
        for (endpoints, chosen) in [
            (vec![ready.clone(), not_ready.clone()], (vec![], vec![])),
            (vec![not_ready.clone(), ready.clone()], (vec![1], vec![])),
            (vec![ready.clone(), here.clone()], (vec![1], vec![1])),
            (vec![here.clone(), ready.clone()], (vec![1], vec![])),
            (vec![here, draining], (vec![1], vec![1])),
        ] {
            assert_eq!(selected(vec![slice("a", endpoints)]), chosen);
        }
        assert_eq!(
            selected(vec![slice("a", vec![not_ready]), slice("b", vec![ready])]),
            (vec![1], vec![])
        );
        let many = |name| {
            let endpoints = (1..100).map(|i| endpoint(&format!("10.0.0.{i}"), true, true, false));
            slice(name, endpoints.collect())
        };
        assert_eq!(selected(vec![many("a"), many("b")]).0.len(), 99);
    }
}
