//! Who owns a frontend. Several Services may claim the same address, protocol and port (external
//! IPs, load-balancer IPs, node ports); the oldest is served, then the first by namespace and
//! name, on every node alike.

use core::cmp::Ordering;

use smallvec::SmallVec;

use crate::model::Model;
use crate::model::arena::NONE;
use crate::model::frontend::{Claim, FrontendKey};
use crate::model::service::Role;
use crate::report::{Reason, Report};

impl Model {
    /// Brings a port's claims in line with its Service.
    pub(crate) fn claim_frontends(&mut self, id: u32) {
        let wanted = self.wanted_claims(id);
        let mut ids: SmallVec<[u32; 2]> = SmallVec::with_capacity(wanted.len());
        for (key, role) in wanted {
            let frontend = self.frontends.find_or_insert(key);
            self.claim(frontend, Claim { port: id, role });
            ids.push(frontend);
        }
        let Some(port) = self.ports.at_mut(id) else {
            return;
        };
        let before = core::mem::replace(&mut port.frontends, ids.clone());
        for frontend in before {
            if !ids.contains(&frontend) {
                self.release(frontend, id);
            }
        }
    }

    /// Takes all claims of a port back.
    pub(crate) fn release_frontends(&mut self, id: u32) {
        let Some(port) = self.ports.at_mut(id) else {
            return;
        };
        for frontend in core::mem::take(&mut port.frontends) {
            self.release(frontend, id);
        }
    }

    /// Claims that came second.
    pub(crate) fn lost_claims(&self) -> impl Iterator<Item = Report> {
        let rivals = self.frontends.rivals.iter();
        rivals.flat_map(move |(id, claims)| {
            claims.iter().filter_map(move |claim| {
                let frontend = self.frontends.arena.at(*id)?;
                let winner = self.port_name(frontend.owner.port)?;
                let number = frontend.key.port;
                let reason = match frontend.key.address {
                    Some(address) => Reason::AddressTaken {
                        address: address.ip(self.family),
                        number,
                        winner,
                    },
                    None => Reason::NodePortTaken { number, winner },
                };
                let port = self.port_name(claim.port)?;
                Some(Report { port, reason })
            })
        })
    }

    fn wanted_claims(&self, id: u32) -> SmallVec<[(FrontendKey, Role); 4]> {
        let mut wanted = SmallVec::new();
        let Some(port) = self.ports.at(id) else {
            return wanted;
        };
        let spec = self.services.at(port.service).and_then(|s| s.spec.as_ref());
        let Some(spec) = spec else {
            return wanted;
        };
        let key = |address, port_number| FrontendKey {
            address,
            protocol: port.protocol,
            port: port_number,
        };
        for (address, role) in &spec.addresses {
            wanted.push((key(Some(*address), port.port), *role));
        }
        if port.node_port != 0 {
            wanted.push((key(None, port.node_port), Role::NodePort));
        }
        wanted
    }

    fn claim(&mut self, id: u32, claim: Claim) {
        let Some(frontend) = self.frontends.arena.at(id) else {
            return;
        };
        let owner = frontend.owner;
        if owner.port == NONE {
            return self.set_owner(id, claim);
        }
        if owner.port != claim.port {
            let rivals = self.frontends.rivals.entry(id).or_default();
            rivals.retain(|other| other.port != claim.port);
            rivals.push(claim);
        } else if owner != claim {
            self.set_owner(id, claim);
        }
        self.elect(id);
    }

    fn release(&mut self, id: u32, port: u32) {
        if let Some(rivals) = self.frontends.rivals.get_mut(&id) {
            rivals.retain(|other| other.port != port);
        }
        let nobody = Claim {
            port: NONE,
            role: Role::ClusterIp,
        };
        if self
            .frontends
            .arena
            .at(id)
            .is_some_and(|f| f.owner.port == port)
        {
            self.set_owner(id, nobody);
        }
        self.elect(id);
        if self
            .frontends
            .arena
            .at(id)
            .is_some_and(|f| f.owner.port == NONE)
        {
            self.lost_frontends.push(id);
        }
    }

    /// Gives a frontend to the best of its claimants.
    fn elect(&mut self, id: u32) {
        let Some(rivals) = self.frontends.rivals.get(&id) else {
            return;
        };
        let Some(frontend) = self.frontends.arena.at(id) else {
            return;
        };
        let owner = frontend.owner;
        let best = (0..rivals.len()).min_by(|a, b| self.precedence(rivals[*a], rivals[*b]));
        let better = best.filter(|best| {
            owner.port == NONE || self.precedence(rivals[*best], owner) == Ordering::Less
        });
        if let Some(better) = better
            && let Some(rivals) = self.frontends.rivals.get_mut(&id)
        {
            let winner = rivals.remove(better);
            if owner.port != NONE {
                rivals.push(owner);
                self.queue(owner.port);
            }
            self.set_owner(id, winner);
        }
        if self
            .frontends
            .rivals
            .get(&id)
            .is_some_and(|rivals| rivals.is_empty())
        {
            self.frontends.rivals.remove(&id);
        }
    }

    fn set_owner(&mut self, id: u32, owner: Claim) {
        if let Some(frontend) = self.frontends.arena.at_mut(id) {
            frontend.owner = owner;
            let key = frontend.key;
            self.note_owner(&key);
        }
        self.queue(owner.port);
    }

    fn precedence(&self, a: Claim, b: Claim) -> Ordering {
        let rank = |claim: Claim| {
            let port = self.ports.at(claim.port)?;
            let service = self.services.at(port.service)?;
            let created = service.spec.as_ref()?.created;
            let namespace = self.names.text(service.namespace);
            Some((
                created,
                namespace,
                &*service.name,
                self.names.text(port.name),
                port.protocol,
            ))
        };
        match (rank(a), rank(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            (a, b) => b.is_some().cmp(&a.is_some()),
        }
    }
}
