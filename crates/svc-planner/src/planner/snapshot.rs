//! What outlives the process: which row stands for what.
//!
//! Numbers of groups, slots and classes depend on history, so a new process cannot guess them. A
//! snapshot holds them with everything that is still to be deleted. It describes the table exactly
//! if its state row ([`Snapshot::state`]) is there.

mod restore;

pub use restore::RestoreError;

use core::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Planner, Stage};
use crate::kernel::RuleSettings;
use crate::kernel::class::{Shape, State};
use crate::kernel::set::{SetId, SetState};
use crate::kernel::sticky::{Member, Sticky};
use crate::model::address::Target;
use crate::model::arena::NONE;
use crate::object::Protocol;
use crate::plan::{EndpointId, Family, Key, Name, Route};
use crate::planning::takeover::Leftovers;
use crate::report::PortName;

/// Changes with what the rules say or what rows mean.
const VERSION: u32 = 4;

/// State of a [`Planner`] between two transactions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    version: u32,
    family: Family,
    state: (u32, u32),
    sets: Vec<SavedSet>,
    /// A bigger set that has all rows.
    growth: Option<(SetId, SavedSet)>,
    chain_suffix: u32,
    rules: RuleSettings,
    node_port_ips: Vec<IpAddr>,
    service_cidrs: Vec<IpNet>,
    cluster_ips: Vec<IpAddr>,
    classes: Vec<(u32, Shape, SavedClass)>,
    groups: Vec<SavedGroup>,
    ports: Vec<SavedPort>,
    frontends: Vec<(Key, Option<Route>, bool)>,
    hairpins: Vec<(SocketAddr, Protocol)>,
    source_lists: Vec<SavedList>,
    /// Restricted frontends and their lists.
    guards: Vec<(Key, u32)>,
    leftovers: Vec<Leftovers>,
    endpoint_ids: (EndpointId, Vec<EndpointId>),
    departed: Vec<(Key, u32)>,
    left: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct SavedSet {
    generation: u32,
    size: Option<u32>,
    rows: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum SavedClass {
    Ready,
    Rowless,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedGroup {
    number: u32,
    count: u32,
    slots: Vec<SocketAddr>,
    shortcuts: [Option<Route>; 2],
    /// Numbers of endpoints that clients stick to, and of those that are leaving.
    sticky: Option<SavedSticky>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedSticky {
    local: bool,
    members: Vec<(SocketAddr, EndpointId)>,
    leaving: Vec<(SocketAddr, EndpointId)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedList {
    number: u32,
    namespace: Box<str>,
    ranges: Vec<IpNet>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct SavedPort {
    name: PortName,
    cluster_group: u32,
    local_group: u32,
    hairpins: Vec<SocketAddr>,
}

impl Snapshot {
    /// The row of set `state` that is in the table if this snapshot describes it.
    #[must_use]
    pub const fn state(&self) -> Key {
        let (instance, sequence) = self.state;
        Key::State { instance, sequence }
    }

    /// The set that row is in.
    #[must_use]
    pub fn state_set(&self) -> Name {
        let saved = self.sets.get(SetId::State as usize);
        SetState::new(SetId::State, saved.map_or(0, |set| set.generation), None).name
    }
}

impl Planner {
    /// The state after the last commit; `None` while a transaction is in flight, a set is being
    /// copied to a bigger one, or ours is not the table in force.
    #[must_use]
    pub fn snapshot(&self) -> Option<Snapshot> {
        let copying = self
            .growth
            .as_ref()
            .is_some_and(|growth| growth.cursor != NONE);
        if self.in_flight.is_some() || copying || self.stage != Stage::Serving {
            return None;
        }
        let family = self.model.family;
        let saved_set = |state: &SetState| SavedSet {
            generation: state.generation,
            size: state.size,
            rows: state.rows,
        };
        let socket = |target: Target| SocketAddr::new(target.address.ip(family), target.port);
        let classes = self.kernel.classes.iter().filter_map(|(number, class)| {
            let state = match class.state {
                State::Ready(_) => SavedClass::Ready,
                State::Rowless => SavedClass::Rowless,
                State::Creating | State::Deleting => return None,
            };
            Some((number, class.shape, state))
        });
        let member = |member: &Member| (socket(member.target), member.id);
        let sticky = |sticky: &Sticky| {
            let leaving = sticky.leaving().iter();
            SavedSticky {
                local: sticky.is_local(),
                members: sticky.members().iter().map(member).collect(),
                leaving: leaving.map(|leaving| member(&leaving.member)).collect(),
            }
        };
        let groups = self.kernel.groups.iter().map(|(number, group)| SavedGroup {
            number,
            count: group.facts.count,
            slots: group.slots.iter().copied().map(socket).collect(),
            shortcuts: group.facts.shortcuts,
            sticky: group.sticky.as_deref().map(sticky),
        });
        let ports = self.model.ports.iter().filter_map(|(id, port)| {
            let hairpins = port.hairpins.iter();
            Some(SavedPort {
                name: self.model.port_name(id)?,
                cluster_group: port.cluster_group,
                local_group: port.local_group,
                hairpins: hairpins.map(|local| socket(local.target)).collect(),
            })
        });
        let frontends = self
            .model
            .frontends
            .arena
            .iter()
            .filter_map(|(_, frontend)| {
                let known = frontend.route.is_some() || frontend.rejects;
                known.then(|| (frontend.key.lower(family), frontend.route, frontend.rejects))
            });
        let present = self
            .model
            .cluster_ips
            .arena
            .iter()
            .filter(|(_, ip)| ip.present);
        let mut hairpins: Vec<_> = self.kernel.hairpins.keys().collect();
        hairpins.sort_unstable_by_key(|local| (local.target, local.protocol));
        let lists = self.kernel.lists.iter().map(|(number, list)| SavedList {
            number,
            namespace: (&*list.namespace).into(),
            ranges: list.ranges.to_vec(),
        });
        let guards = self.kernel.guards.iter().filter_map(|(id, guard)| {
            let frontend = self.model.frontends.arena.at(*id)?;
            Some((frontend.key.lower(family), guard.list))
        });
        let mut guards: Vec<_> = guards.collect();
        guards.sort_unstable();
        let settings = &self.kernel.settings;
        let ids = &self.kernel.endpoint_ids;
        let departed = self.kernel.departed.iter();
        Some(Snapshot {
            version: VERSION,
            family,
            state: self.committed?,
            sets: self.kernel.sets.iter().map(saved_set).collect(),
            growth: self
                .growth
                .as_ref()
                .map(|growth| (growth.set, saved_set(&growth.state))),
            chain_suffix: self.kernel.chain_suffix,
            rules: settings.rules.clone(),
            node_port_ips: settings
                .node_port_ips
                .iter()
                .map(|ip| ip.ip(family))
                .collect(),
            service_cidrs: settings.service_cidrs.clone(),
            cluster_ips: present.map(|(_, ip)| ip.address.ip(family)).collect(),
            classes: classes.collect(),
            groups: groups.collect(),
            ports: ports.collect(),
            frontends: frontends.collect(),
            hairpins: hairpins
                .into_iter()
                .map(|local| (socket(local.target), local.protocol))
                .collect(),
            source_lists: lists.collect(),
            guards,
            leftovers: self
                .leftovers
                .iter()
                .map(|(_, names)| names.clone())
                .collect(),
            endpoint_ids: (ids.next, ids.taken.clone()),
            departed: departed
                .map(|(key, group)| (key.lower(family), *group))
                .collect(),
            left: self.kernel.left.clone(),
        })
    }
}
