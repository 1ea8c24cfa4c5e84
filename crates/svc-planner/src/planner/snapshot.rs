//! What outlives the process: which row stands for what.
//!
//! Numbers of groups, slots and classes depend on history, so a new process cannot guess them. A
//! snapshot holds them with everything that is still to be deleted. It describes the table exactly
//! if its state row ([`Snapshot::state`]) is there.

mod live;
mod restore;

pub use live::LiveSnapshot;
pub use restore::RestoreError;

use core::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::{Planner, Stage};
use crate::kernel::RuleSettings;
use crate::kernel::class::Shape;
use crate::kernel::set::{SetId, SetState};
use crate::model::arena::NONE;
use crate::object::Protocol;
use crate::plan::{EndpointId, Family, Key, Name, Route};
use crate::planning::takeover::Leftovers;
use crate::report::PortName;

/// Changes with what the rules say or what rows mean.
const VERSION: u32 = 5;

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
        self.live_snapshot().map(|live| live.copy())
    }

    /// As [`snapshot`](Self::snapshot), to be written down without making a copy of it first.
    #[must_use]
    pub fn live_snapshot(&self) -> Option<LiveSnapshot<'_>> {
        let copying = self
            .growth
            .as_ref()
            .is_some_and(|growth| growth.cursor != NONE);
        if self.in_flight.is_some() || copying || self.stage != Stage::Serving {
            return None;
        }
        Some(LiveSnapshot::new(self, self.committed?))
    }
}
