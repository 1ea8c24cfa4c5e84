//! Carrying clients over that stick to endpoints in a table that is taken over.

use core::net::IpAddr;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use super::Planner;
use crate::clients::{ClientScope, StuckClient};
use crate::kernel::set::SetId;
use crate::kernel::timeouts::LONGEST;
use crate::model::address::{Address, Target};
use crate::model::frontend::FrontendKey;
use crate::plan::{Datum, EndpointId, Key, Row};
use crate::planning::draft::{Draft, Step};
use crate::policy::node_addresses::NodePortMatch;

/// How far it has got.
#[derive(Debug, Default)]
pub(super) enum Carry {
    /// Nobody will tell of clients.
    #[default]
    Nobody,
    /// Somebody will, when asked.
    Promised,
    /// Asked.
    Asked,
    /// Told; these rows are still to be added.
    Told(VecDeque<Row>),
}

impl Planner {
    /// Promises to tell of clients that stick to endpoints in the table found by
    /// [`rebuild`](Self::rebuild): before the base chains are switched over [`next`](Self::next) asks
    /// for them ([`Next::Clients`](super::Next::Clients)), as late as can be.
    pub fn promise_clients(&mut self) {
        self.carry = Carry::Promised;
    }

    /// Takes over clients, as promised: those whose Service has affinity and whose endpoint would be
    /// chosen for them go on to it for what is left of their time. Of several endpoints of a client
    /// the one it was led to last counts. More than there is room for are left out.
    pub fn carry_over(&mut self, clients: impl IntoIterator<Item = StuckClient>) {
        let mut rows: HashMap<Key, (EndpointId, u32)> = HashMap::new();
        for client in clients {
            self.rows_of(&client, |key, endpoint, left| {
                let known = rows.get(&key).map_or(0, |(_, known)| *known);
                if left > known {
                    rows.insert(key, (endpoint, left));
                }
            });
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        // Those that stay longest first, and always in the same order.
        rows.sort_unstable_by_key(|(key, (_, left))| (core::cmp::Reverse(*left), *key));
        let size = self.kernel.sets[SetId::ClientAffinity as usize].size;
        let room = size.map_or(usize::MAX, |size| {
            usize::try_from(size).unwrap_or(usize::MAX)
        });
        let rows = rows.into_iter().take(room);
        let rows = rows.map(|(key, (endpoint, milliseconds))| Row {
            key,
            datum: Datum::Stuck {
                endpoint,
                milliseconds,
            },
        });
        self.carry = Carry::Told(rows.collect());
    }

    pub(super) fn asks_for_clients(&self) -> bool {
        matches!(self.carry, Carry::Asked)
    }

    /// What is to be done about clients before the switch: asks for them, or adds rows. False if there
    /// is nothing left to do.
    pub(super) fn carry_clients(&mut self, draft: &mut Draft) -> bool {
        match &self.carry {
            Carry::Nobody => return false,
            Carry::Promised | Carry::Asked => self.carry = Carry::Asked,
            Carry::Told(rows) if rows.is_empty() => return false,
            Carry::Told(rows) => {
                for row in rows.iter().take(self.config.chunk.max(1)) {
                    draft.add(SetId::ClientAffinity, 0, row.key, row.datum.clone());
                }
                draft.step = Step::Carry;
            }
        }
        true
    }

    /// Rows that were told are in the kernel.
    pub(super) fn carried(&mut self) {
        if let Carry::Told(rows) = &mut self.carry {
            rows.drain(..rows.len().min(self.config.chunk.max(1)));
        }
    }

    /// Rows that were told are refused: clients choose anew.
    pub(super) fn give_up_clients(&mut self) {
        self.carry = Carry::Nobody;
    }

    /// The rows a client is remembered by.
    fn rows_of(&self, client: &StuckClient, mut row: impl FnMut(Key, EndpointId, u32)) {
        let family = self.model.family;
        let Some(target) = Address::new(family, client.endpoint.ip()) else {
            return;
        };
        let target = Target {
            address: target,
            port: client.endpoint.port(),
        };
        let Some(source) = Address::new(family, client.client) else {
            return;
        };
        self.frontends_of(&client.scope, |id, address| {
            let Some(endpoint) = self.endpoint_for(id, source, target) else {
                return;
            };
            let Some(frontend) = self.model.frontends.arena.at(id) else {
                return;
            };
            let key = Key::Client {
                client: client.client,
                address,
                protocol: frontend.key.protocol,
                port: frontend.key.port,
            };
            let longest = Duration::from_secs(LONGEST.into());
            let left = client.left.min(longest).as_millis();
            row(key, endpoint, u32::try_from(left).unwrap_or(u32::MAX));
        });
    }

    /// Frontends in a scope, each with the address that is asked for.
    fn frontends_of(&self, scope: &ClientScope, mut each: impl FnMut(u32, IpAddr)) {
        let (family, frontends) = (self.model.family, &self.model.frontends);
        let served = |id: u32| {
            let frontend = frontends.arena.at(id)?;
            frontend.route.map(|_| frontend.key)
        };
        let node_ports = self.node_port_addresses();
        match scope {
            ClientScope::Frontend {
                address,
                protocol,
                port,
            } => {
                let Some(own) = Address::new(family, *address) else {
                    return;
                };
                let node_port = node_ports.contains(&own).then_some(None);
                for address_key in [Some(Some(own)), node_port].into_iter().flatten() {
                    let id = frontends.find(&FrontendKey {
                        address: address_key,
                        protocol: *protocol,
                        port: *port,
                    });
                    if let Some(id) = id.filter(|id| served(*id).is_some()) {
                        return each(id, *address);
                    }
                }
            }
            ClientScope::Port(name) => {
                let port = self.model.find_port(name);
                let Some(port) = port.and_then(|id| self.model.ports.at(id)) else {
                    return;
                };
                for &id in &port.frontends {
                    let Some(key) = served(id) else {
                        continue;
                    };
                    match key.address {
                        Some(address) => each(id, address.ip(family)),
                        None => node_ports
                            .iter()
                            .for_each(|address| each(id, address.ip(family))),
                    }
                }
            }
        }
    }

    /// The number of an endpoint that a frontend could choose for a source, if clients stick to it.
    fn endpoint_for(&self, frontend: u32, source: Address, target: Target) -> Option<EndpointId> {
        let frontend = self.model.frontends.arena.at(frontend)?;
        let mut group = self.kernel.groups.at(frontend.route?.group())?;
        let source_ip = source.ip(self.model.family);
        let rules = &self.kernel.settings.rules;
        let is_near =
            rules.masquerade.is_local(source_ip) || self.model.node.host().contains(&source);
        if let Some(route) = group.facts.shortcuts[0].filter(|_| is_near) {
            group = self.kernel.groups.at(route.group())?;
        }
        group.sticky.as_ref()?.member(target)
    }

    fn node_port_addresses(&self) -> Vec<Address> {
        let node = &self.model.node;
        match node.node_ports(self.model.family, &self.config.node_port_addresses) {
            NodePortMatch::All => node.host().to_vec(),
            NodePortMatch::Listed(listed) => listed.to_vec(),
        }
    }
}
