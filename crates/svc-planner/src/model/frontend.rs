//! Frontends: the addresses and ports on which Service ports are reached, each with at most one
//! owner, and what the kernel holds for it.

use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use smallvec::SmallVec;

use super::address::Address;
use super::arena::{Arena, NONE};
use super::service::Role;
use crate::object::Protocol;
use crate::plan::{Family, Key, Route};

/// Key of a row in `services`, or in `nodeports` (no address).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FrontendKey {
    pub(crate) address: Option<Address>,
    pub(crate) protocol: Protocol,
    pub(crate) port: u16,
}

impl FrontendKey {
    pub(crate) fn lower(self, family: Family) -> Key {
        let Self {
            address,
            protocol,
            port,
        } = self;
        match address {
            Some(address) => Key::Frontend {
                address: address.ip(family),
                protocol,
                port,
            },
            None => Key::NodePort { protocol, port },
        }
    }
}

/// Who asks for a frontend, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) port: u32,
    pub(crate) role: Role,
}

/// One frontend.
#[derive(Debug)]
pub(crate) struct Frontend {
    pub(crate) key: FrontendKey,
    /// Who is served; port [`NONE`] if nobody.
    pub(crate) owner: Claim,
    /// Row in `services` or `nodeports`.
    pub(crate) route: Option<Route>,
    /// Row in `reject-services` or `reject-nodeports`.
    pub(crate) rejects: bool,
    /// Since when the reject row is not needed, see [`crate::clock`].
    pub(crate) since: u64,
}

impl Frontend {
    /// Nobody wants it and the kernel knows nothing of it.
    pub(crate) fn is_unused(&self) -> bool {
        self.owner.port == NONE && self.route.is_none() && !self.rejects
    }
}

/// All frontends.
#[derive(Debug, Default)]
pub(crate) struct Frontends {
    pub(crate) arena: Arena<Frontend>,
    index: HashTable<u32>,
    /// Claims beside the owner's.
    pub(crate) rivals: HashMap<u32, SmallVec<[Claim; 2]>>,
    hasher: DefaultHashBuilder,
}

impl Frontends {
    pub(crate) fn find(&self, key: &FrontendKey) -> Option<u32> {
        let same = |&id: &u32| self.arena.at(id).is_some_and(|f| f.key == *key);
        self.index.find(self.hasher.hash_one(key), same).copied()
    }

    pub(crate) fn find_or_insert(&mut self, key: FrontendKey) -> u32 {
        if let Some(id) = self.find(&key) {
            return id;
        }
        let id = self.arena.insert(Frontend {
            key,
            owner: Claim {
                port: NONE,
                role: Role::ClusterIp,
            },
            route: None,
            rejects: false,
            since: crate::clock::IN_USE,
        });
        let (arena, hasher) = (&self.arena, &self.hasher);
        self.index.insert_unique(hasher.hash_one(key), id, |&id| {
            arena.at(id).map_or(0, |f| hasher.hash_one(f.key))
        });
        id
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let Some(frontend) = self.arena.remove(id) else {
            return;
        };
        let hash = self.hasher.hash_one(frontend.key);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }
}

/// Addresses of one kind, counted: ClusterIPs.
#[derive(Debug)]
pub(crate) struct ClusterIp {
    pub(crate) address: Address,
    /// Services that have it.
    pub(crate) claims: u32,
    /// Row in `cluster-addresses`.
    pub(crate) present: bool,
    /// The row goes with the transaction in flight.
    pub(crate) leaves: bool,
}

/// All ClusterIPs.
#[derive(Debug, Default)]
pub(crate) struct ClusterIps {
    pub(crate) arena: Arena<ClusterIp>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl ClusterIps {
    pub(crate) fn find(&self, address: Address) -> Option<u32> {
        let same = |&id: &u32| self.arena.at(id).is_some_and(|ip| ip.address == address);
        self.index
            .find(self.hasher.hash_one(address), same)
            .copied()
    }

    /// Claims an address; its number.
    pub(crate) fn claim(&mut self, address: Address) -> u32 {
        if let Some(id) = self.find(address) {
            if let Some(ip) = self.arena.at_mut(id) {
                ip.claims = ip.claims.saturating_add(1);
            }
            return id;
        }
        let id = self.arena.insert(ClusterIp {
            address,
            claims: 1,
            present: false,
            leaves: false,
        });
        let (arena, hasher) = (&self.arena, &self.hasher);
        self.index
            .insert_unique(hasher.hash_one(address), id, |&id| {
                arena.at(id).map_or(0, |ip| hasher.hash_one(ip.address))
            });
        id
    }

    /// A row that is there, of a Service yet to come.
    pub(crate) fn expect(&mut self, address: Address) {
        let id = self.claim(address);
        if let Some(ip) = self.arena.at_mut(id) {
            (ip.claims, ip.present) = (0, true);
        }
    }

    /// Takes a claim back; the number if it was the last.
    pub(crate) fn release(&mut self, address: Address) -> Option<u32> {
        let id = self.find(address)?;
        let ip = self.arena.at_mut(id)?;
        ip.claims = ip.claims.saturating_sub(1);
        (ip.claims == 0).then_some(id)
    }

    pub(crate) fn remove(&mut self, id: u32) {
        let Some(ip) = self.arena.remove(id) else {
            return;
        };
        let hash = self.hasher.hash_one(ip.address);
        if let Ok(entry) = self.index.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
    }
}
