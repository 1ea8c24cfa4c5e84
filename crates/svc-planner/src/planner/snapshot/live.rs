//! A planner's state as a snapshot that is written row by row: a copy of it would take as much memory
//! again as the endpoints do.

use core::net::{IpAddr, SocketAddr};

use serde::ser::{Serialize, SerializeStruct as _, Serializer};

use super::{
    SavedClass, SavedGroup, SavedList, SavedPort, SavedSet, SavedSticky, Snapshot, VERSION,
};
use crate::kernel::class::{Shape, State};
use crate::kernel::set::{SetId, SetState};
use crate::kernel::sticky::{Member, Sticky};
use crate::model::address::Target;
use crate::object::Protocol;
use crate::plan::{EndpointId, Family, Key, Route};
use crate::planner::Planner;
use crate::planning::takeover::Leftovers;

/// See the module. Serialises to what a [`Snapshot`] is read from.
#[derive(Debug, Clone, Copy)]
pub struct LiveSnapshot<'p> {
    planner: &'p Planner,
    state: (u32, u32),
}

impl<'p> LiveSnapshot<'p> {
    pub(super) const fn new(planner: &'p Planner, state: (u32, u32)) -> Self {
        Self { planner, state }
    }

    /// The same, apart from the planner.
    pub(super) fn copy(self) -> Snapshot {
        let settings = &self.planner.kernel.settings;
        Snapshot {
            version: VERSION,
            family: self.family(),
            state: self.state,
            sets: self.sets().collect(),
            growth: self.growth(),
            chain_suffix: self.planner.kernel.chain_suffix,
            rules: settings.rules.clone(),
            node_port_ips: self.node_port_ips().collect(),
            service_cidrs: settings.service_cidrs.clone(),
            cluster_ips: self.cluster_ips().collect(),
            classes: self.classes().collect(),
            groups: self.groups().collect(),
            ports: self.ports().collect(),
            frontends: self.frontends().collect(),
            hairpins: self.hairpins(),
            source_lists: self.source_lists().collect(),
            guards: self.guards(),
            leftovers: self.leftovers().cloned().collect(),
            endpoint_ids: self.endpoint_ids(),
            departed: self.departed().collect(),
            left: self.planner.kernel.left.clone(),
        }
    }

    const fn family(self) -> Family {
        self.planner.model.family
    }

    fn socket(self, target: Target) -> SocketAddr {
        SocketAddr::new(target.address.ip(self.family()), target.port)
    }

    fn sets(self) -> impl Iterator<Item = SavedSet> {
        self.planner.kernel.sets.iter().map(saved_set)
    }

    fn growth(self) -> Option<(SetId, SavedSet)> {
        let growth = self.planner.growth.as_ref();
        growth.map(|growth| (growth.set, saved_set(&growth.state)))
    }

    fn node_port_ips(self) -> impl Iterator<Item = IpAddr> {
        let ips = self.planner.kernel.settings.node_port_ips.iter();
        ips.map(move |ip| ip.ip(self.family()))
    }

    fn cluster_ips(self) -> impl Iterator<Item = IpAddr> {
        let ips = self.planner.model.cluster_ips.arena.iter();
        let present = ips.filter(|(_, ip)| ip.present);
        present.map(move |(_, ip)| ip.address.ip(self.family()))
    }

    fn classes(self) -> impl Iterator<Item = (u32, Shape, SavedClass)> {
        let classes = self.planner.kernel.classes.iter();
        classes.filter_map(|(number, class)| {
            let state = match class.state {
                State::Ready(_) => SavedClass::Ready,
                State::Rowless => SavedClass::Rowless,
                State::Creating | State::Deleting => return None,
            };
            Some((number, class.shape, state))
        })
    }

    fn groups(self) -> impl Iterator<Item = SavedGroup> {
        let groups = self.planner.kernel.groups.iter();
        groups.map(move |(number, group)| SavedGroup {
            number,
            count: group.facts.count,
            slots: group.slots.iter().map(|it| self.socket(*it)).collect(),
            shortcuts: group.facts.shortcuts,
            sticky: group.sticky.as_deref().map(|it| self.sticky(it)),
        })
    }

    fn sticky(self, sticky: &Sticky) -> SavedSticky {
        let member = |member: &Member| (self.socket(member.target), member.id);
        let leaving = sticky.leaving().iter();
        SavedSticky {
            local: sticky.is_local(),
            members: sticky.members().iter().map(member).collect(),
            leaving: leaving.map(|leaving| member(&leaving.member)).collect(),
        }
    }

    fn ports(self) -> impl Iterator<Item = SavedPort> {
        let model = &self.planner.model;
        model.ports.iter().filter_map(move |(id, port)| {
            let hairpins = port.hairpins.iter();
            Some(SavedPort {
                name: model.port_name(id)?,
                cluster_group: port.cluster_group,
                local_group: port.local_group,
                hairpins: hairpins.map(|local| self.socket(local.target)).collect(),
            })
        })
    }

    fn frontends(self) -> impl Iterator<Item = (Key, Option<Route>, bool)> {
        let frontends = self.planner.model.frontends.arena.iter();
        frontends.filter_map(move |(_, frontend)| {
            let known = frontend.route.is_some() || frontend.rejects;
            let key = frontend.key;
            known.then(|| (key.lower(self.family()), frontend.route, frontend.rejects))
        })
    }

    fn hairpins(self) -> Vec<(SocketAddr, Protocol)> {
        let mut hairpins: Vec<_> = self.planner.kernel.hairpins.keys().collect();
        hairpins.sort_unstable_by_key(|local| (local.target, local.protocol));
        let hairpins = hairpins.into_iter();
        hairpins
            .map(|local| (self.socket(local.target), local.protocol))
            .collect()
    }

    fn source_lists(self) -> impl Iterator<Item = SavedList> {
        let lists = self.planner.kernel.lists.iter();
        lists.map(|(number, list)| SavedList {
            number,
            namespace: (&*list.namespace).into(),
            ranges: list.ranges.to_vec(),
        })
    }

    fn guards(self) -> Vec<(Key, u32)> {
        let guards = self.planner.kernel.guards.iter().filter_map(|(id, guard)| {
            let frontend = self.planner.model.frontends.arena.at(*id)?;
            Some((frontend.key.lower(self.family()), guard.list))
        });
        let mut guards: Vec<_> = guards.collect();
        guards.sort_unstable();
        guards
    }

    fn leftovers(self) -> impl Iterator<Item = &'p Leftovers> {
        self.planner.leftovers.iter().map(|(_, names)| names)
    }

    fn endpoint_ids(self) -> (EndpointId, Vec<EndpointId>) {
        let ids = &self.planner.kernel.endpoint_ids;
        (ids.next, ids.taken.clone())
    }

    fn departed(self) -> impl Iterator<Item = (Key, u32)> {
        let departed = self.planner.kernel.departed.iter();
        departed.map(move |(key, group)| (key.lower(self.family()), *group))
    }
}

const fn saved_set(state: &SetState) -> SavedSet {
    SavedSet {
        generation: state.generation,
        size: state.size,
        rows: state.rows,
    }
}

impl Serialize for LiveSnapshot<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = &self.planner.kernel.settings;
        let mut out = serializer.serialize_struct("Snapshot", 21)?;
        out.serialize_field("version", &VERSION)?;
        out.serialize_field("family", &self.family())?;
        out.serialize_field("state", &self.state)?;
        out.serialize_field("sets", &Each(|| self.sets()))?;
        out.serialize_field("growth", &self.growth())?;
        out.serialize_field("chain_suffix", &self.planner.kernel.chain_suffix)?;
        out.serialize_field("rules", &settings.rules)?;
        out.serialize_field("node_port_ips", &Each(|| self.node_port_ips()))?;
        out.serialize_field("service_cidrs", &settings.service_cidrs)?;
        out.serialize_field("cluster_ips", &Each(|| self.cluster_ips()))?;
        out.serialize_field("classes", &Each(|| self.classes()))?;
        out.serialize_field("groups", &Each(|| self.groups()))?;
        out.serialize_field("ports", &Each(|| self.ports()))?;
        out.serialize_field("frontends", &Each(|| self.frontends()))?;
        out.serialize_field("hairpins", &self.hairpins())?;
        out.serialize_field("source_lists", &Each(|| self.source_lists()))?;
        out.serialize_field("guards", &self.guards())?;
        out.serialize_field("leftovers", &Each(|| self.leftovers()))?;
        out.serialize_field("endpoint_ids", &self.endpoint_ids())?;
        out.serialize_field("departed", &Each(|| self.departed()))?;
        out.serialize_field("left", &self.planner.kernel.left)?;
        out.end()
    }
}

/// A sequence whose items are made one at a time.
struct Each<F>(F);

impl<F, I> Serialize for Each<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}
