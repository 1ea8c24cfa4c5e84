//! How to take back what planning changed.

use std::sync::Arc;

use ipnet::IpNet;

use crate::kernel::Kernel;
use crate::kernel::class::Class;
use crate::kernel::group::{Facts, Group};
use crate::kernel::guard::Guard;
use crate::kernel::hairpin::Hairpin;
use crate::kernel::source_list::List;
use crate::kernel::sticky::{Event, Member};
use crate::model::Model;
use crate::model::address::{LocalTarget, Target};
use crate::plan::Route;

/// A former value.
#[derive(Debug)]
pub(crate) enum Undo {
    Frontend {
        id: u32,
        route: Option<Route>,
        rejects: bool,
        since: u64,
    },
    ClusterIp {
        id: u32,
        present: bool,
    },
    Port {
        id: u32,
        cluster_group: u32,
        local_group: u32,
    },
    PortHairpins {
        id: u32,
        /// Where they begin in [`Draft::hairpins`].
        start: usize,
    },
    Hairpin {
        key: LocalTarget,
        value: Option<Hairpin>,
    },
    Slot {
        group: u32,
        slot: usize,
        target: Target,
    },
    SlotAdded {
        group: u32,
    },
    SlotRemoved {
        group: u32,
        target: Target,
    },
    Group {
        number: u32,
        facts: Facts,
    },
    GroupAdded(u32),
    GroupRemoved(u32, Box<Group>),
    Member {
        group: u32,
        member: Member,
        event: Event,
    },
    Class {
        number: u32,
        class: Class,
    },
    ClassAdded(u32),
    Guard {
        id: u32,
        guard: Option<Guard>,
    },
    List {
        number: u32,
        users: u32,
        since: u64,
    },
    ListAdded(u32),
    ListShortened(u32, Arc<[IpNet]>),
    ListRemoved(u32, Box<List>),
}

impl Undo {
    pub(super) fn apply(
        self,
        model: &mut Model,
        kernel: &mut Kernel,
        hairpins: &mut Vec<LocalTarget>,
    ) {
        match self {
            Self::Frontend {
                id,
                route,
                rejects,
                since,
            } => {
                if let Some(frontend) = model.frontends.arena.at_mut(id) {
                    (frontend.route, frontend.rejects, frontend.since) = (route, rejects, since);
                }
            }
            Self::ClusterIp { id, present } => {
                if let Some(ip) = model.cluster_ips.arena.at_mut(id) {
                    (ip.present, ip.leaves) = (present, false);
                }
            }
            Self::Port {
                id,
                cluster_group,
                local_group,
            } => {
                if let Some(port) = model.ports.at_mut(id) {
                    (port.cluster_group, port.local_group) = (cluster_group, local_group);
                }
            }
            Self::PortHairpins { id, start } => {
                let former = hairpins.split_off(start);
                if let Some(port) = model.ports.at_mut(id) {
                    port.hairpins = former;
                }
            }
            Self::Hairpin { key, value } => match value {
                Some(value) => {
                    kernel.hairpins.insert(key, value);
                }
                None => {
                    kernel.hairpins.remove(&key);
                }
            },
            Self::Slot {
                group,
                slot,
                target,
            } => {
                if let Some(place) = kernel
                    .groups
                    .at_mut(group)
                    .and_then(|group| group.slots.get_mut(slot))
                {
                    *place = target;
                }
            }
            Self::SlotAdded { group } => {
                if let Some(group) = kernel.groups.at_mut(group) {
                    group.slots.pop();
                }
            }
            Self::SlotRemoved { group, target } => {
                if let Some(group) = kernel.groups.at_mut(group) {
                    group.slots.push(target);
                }
            }
            Self::Group { number, facts } => {
                if let Some(group) = kernel.groups.at_mut(number) {
                    group.facts = facts;
                }
            }
            Self::GroupAdded(number) => kernel.groups.remove(number),
            Self::GroupRemoved(number, group) => kernel.groups.put_back(number, *group),
            Self::Member {
                group,
                member,
                event,
            } => {
                let group = kernel.groups.at_mut(group);
                if let Some(sticky) = group.and_then(|group| group.sticky.as_mut()) {
                    sticky.undo(member, event);
                }
            }
            Self::Class { number, class } => {
                if let Some(place) = kernel.classes.at_mut(number) {
                    *place = class;
                }
            }
            Self::ClassAdded(number) => kernel.classes.remove(number),
            Self::Guard { id, guard } => {
                match guard {
                    Some(guard) => kernel.guards.insert(id, guard),
                    None => kernel.guards.remove(&id),
                };
            }
            Self::List {
                number,
                users,
                since,
            } => {
                if let Some(list) = kernel.lists.at_mut(number) {
                    (list.users, list.since) = (users, since);
                }
            }
            Self::ListAdded(number) => kernel.lists.remove(number),
            Self::ListShortened(number, ranges) => {
                kernel.lists.change(number, ranges);
            }
            Self::ListRemoved(number, list) => kernel.lists.put_back(number, *list),
        }
    }
}
