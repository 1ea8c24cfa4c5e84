//! One Service port: from its endpoints and policies to its rows.

use smallvec::SmallVec;

use super::Work;
use super::classes::Availability;
use super::draft::Undo;
use super::rows::Goal;
use crate::kernel::class::{Shape, Stickiness};
use crate::kernel::group::NO_GROUP;
use crate::kernel::set::SetId;
use crate::kernel::sticky::Sticky;
use crate::model::arena::NONE;
use crate::model::service::{Port, Role};
use crate::object::{Algorithm, TrafficPolicy};
use crate::plan::Route;
use crate::policy::hairpin;
use crate::policy::traffic_policy::{self, Fate, Kind};
use crate::report::Reason;

/// What came of planning a port.
#[derive(Debug)]
pub(crate) enum Planned {
    /// Its rows are in the transaction.
    Done,
    /// Its classes come with this transaction, its rows with a later one.
    Parked,
    /// It waits until this set is replaced by one with room for so many more rows.
    NoRoom(SetId, u32),
    /// Its rows are in the transaction, but not all it asks for can be served.
    Partly(Reason),
    /// It cannot be served; its rows stay as they were.
    Refused(Reason),
}

/// What a port's frontends do.
struct Fates {
    internal: Fate,
    /// If it has frontends that are reached from outside.
    external: Option<Fate>,
    /// How it is reached from outside: by addresses, by a node port.
    reach: [bool; 2],
    algorithm: Algorithm,
    /// Clients stick to endpoints for so many seconds.
    affinity: Option<u32>,
    /// Internal and external policy, Local, leave no endpoint of those there are.
    no_local: [bool; 2],
}

/// Numbers of a port's classes; of two the second is for node ports.
struct PortClasses {
    internal: Option<u32>,
    external: [Option<u32>; 2],
    shortcuts: [Option<u32>; 2],
    /// A class is not quite what is asked for.
    shortage: Option<Reason>,
}

impl Fates {
    fn uses_cluster(&self) -> bool {
        matches!(self.internal, Fate::Cluster(_))
            || matches!(self.external, Some(Fate::Cluster(_) | Fate::Local(_)))
    }

    fn uses_local(&self) -> bool {
        matches!(self.internal, Fate::Local(_)) || matches!(self.external, Some(Fate::Local(_)))
    }

    fn uses_shortcut(&self) -> bool {
        matches!(self.external, Some(Fate::Local(_)))
    }
}

impl Work<'_> {
    /// Plans a port.
    pub(crate) fn plan_port(&mut self, id: u32) -> Planned {
        let Some(port) = self.model.ports.at(id).filter(|port| !port.set_aside) else {
            return Planned::Done;
        };
        if port.is_gone() {
            self.model.note_no_local(id, [false; 2]);
            self.set_groups(id, 0, 0);
            self.set_hairpins(id, &[]);
            return Planned::Done;
        }
        self.selection.select(self.model, port);
        let Some(fates) = self.fates(port) else {
            return Planned::Done;
        };
        let (service, protocol) = (port.service, port.protocol);
        self.model.note_no_local(id, fates.no_local);
        if let Err(obstacle) = self.check_room(id, &fates) {
            return obstacle;
        }
        // Both ask for what is missing before the port is parked.
        let (restriction, classes) = (self.restrict(id), self.classes(&fates));
        let (restriction, classes) = match (restriction, classes) {
            (Ok(restriction), Ok(classes)) => (restriction, classes),
            (_, Err(obstacle)) | (Err(obstacle), _) => return obstacle,
        };
        let Some((cluster, local)) = self.groups(id, &fates) else {
            return Planned::Refused(Reason::NoGroup);
        };
        let endpoints = core::mem::take(&mut self.selection.cluster);
        if cluster != 0 {
            let twin = self.model.ports.at(id).map_or(0, |port| port.local_group);
            self.set_slots(cluster, &endpoints, twin);
        }
        self.selection.cluster = endpoints;
        let endpoints = core::mem::take(&mut self.selection.local);
        if local != 0 {
            let former = self.model.ports.at(id).map_or(0, |port| port.cluster_group);
            let twin = if cluster != 0 { cluster } else { former };
            self.set_slots(local, &endpoints, twin);
            let shortcut = |class: Option<u32>| class.and_then(|class| Route::new(class, cluster));
            self.set_shortcuts(local, classes.shortcuts.map(shortcut));
        }
        self.selection.local = endpoints;

        let goal = |fate: Fate, class: Option<u32>| {
            let group = match fate {
                Fate::Reject => return Goal::Reject,
                Fate::Drop => NO_GROUP,
                Fate::Cluster(_) => cluster,
                Fate::Local(_) => local,
            };
            class
                .and_then(|class| Route::new(class, group))
                .map_or(Goal::Reject, Goal::Route)
        };
        let internal = goal(fates.internal, classes.internal);
        let external = fates
            .external
            .map(|fate| classes.external.map(|class| goal(fate, class)));
        for (frontend, role) in self.owned_frontends(id) {
            let goal = match role {
                Role::ClusterIp => Some(internal),
                Role::ExternalIp | Role::LoadBalancer => external.map(|[goal, _]| goal),
                Role::NodePort => external.map(|[_, goal]| goal),
            };
            let Some(goal) = goal else {
                continue;
            };
            let list = restriction.of(role);
            if matches!(goal, Goal::Route(_)) && !self.may_lead(frontend, id, list) {
                continue;
            }
            self.set_guard(frontend, list);
            self.set_frontend(frontend, goal);
        }
        self.set_groups(id, cluster, local);
        self.add_cluster_ips(service);
        self.selection
            .note_local(fates.uses_cluster(), fates.uses_local());
        let mut hairpins = core::mem::take(&mut self.selection.hairpins);
        hairpin::list(self.selection, protocol, &mut hairpins);
        self.set_hairpins(id, &hairpins);
        self.selection.hairpins = hairpins;
        match classes.shortage.or(restriction.reason) {
            Some(reason) => Planned::Partly(reason),
            None => Planned::Done,
        }
    }

    fn fates(&self, port: &Port) -> Option<Fates> {
        let spec = self.model.services.at(port.service)?.spec.as_ref()?;
        let addresses = &spec.addresses;
        let reach = [
            addresses.iter().any(|(_, role)| role.is_external()),
            port.node_port != 0,
        ];
        let is_external = reach.contains(&true);
        let external = traffic_policy::external(spec.external_policy, self.selection);
        let none_here = self.config.no_local_endpoint;
        let elsewhere = !self.selection.cluster.is_empty() && self.selection.local.is_empty();
        let no_local = |policy| elsewhere && policy == TrafficPolicy::Local;
        Some(Fates {
            internal: traffic_policy::internal(spec.internal_policy, self.selection, none_here),
            external: is_external.then_some(external),
            reach,
            algorithm: spec.algorithm,
            affinity: spec.affinity,
            no_local: [
                no_local(spec.internal_policy),
                is_external && no_local(spec.external_policy),
            ],
        })
    }

    /// Its classes, unless some are still to come.
    fn classes(&mut self, fates: &Fates) -> Result<PortClasses, Planned> {
        let count = |endpoints: usize| u32::try_from(endpoints).unwrap_or(u32::MAX);
        let cluster = count(self.selection.cluster.len());
        let local = count(self.selection.local.len());
        let timeouts = &self.kernel.classes.timeouts;
        let seconds = fates.affinity.map(|asked| timeouts.fit(asked));
        let shape = |kind, slots, node_ports, local| {
            let sticky = seconds.map(|seconds| Stickiness {
                seconds,
                node_ports,
                local,
            });
            Shape {
                kind,
                slots,
                algorithm: fates.algorithm,
                sticky: sticky.filter(|_| kind != Kind::Drop),
            }
        };
        let shape_of = |fate, node_ports| match fate {
            Fate::Reject => None,
            Fate::Drop => Some(shape(Kind::Drop, 0, false, false)),
            Fate::Cluster(kind) => Some(shape(kind, cluster, node_ports, false)),
            Fate::Local(kind) => Some(shape(kind, local, node_ports, true)),
        };
        let [addresses, node_ports] = fates.reach;
        let external = |reached: bool, node_ports| {
            let fate = fates.external.filter(|_| reached)?;
            shape_of(fate, node_ports)
        };
        let takes_shortcut = fates.uses_shortcut();
        // Without affinity one does for both.
        let two = seconds.is_some();
        let shortcut = |reached: bool, node_ports| {
            (takes_shortcut && reached).then(|| shape(Kind::Shortcut, cluster, node_ports, false))
        };
        let shapes = [
            shape_of(fates.internal, false),
            external(addresses, false),
            external(node_ports, two),
            shortcut(addresses || !two, false),
            shortcut(node_ports && two, true),
        ];
        let mut numbers = [None; 5];
        let mut parked = false;
        let mut shortage = None;
        if let (Some(asked), Some(used)) = (fates.affinity, seconds)
            && asked < used
        {
            shortage = Some(Reason::AffinityTimeout { asked, used });
        }
        for (number, shape) in numbers.iter_mut().zip(shapes) {
            let Some(shape) = shape else {
                continue;
            };
            let (availability, reason) = self.class_or_like(shape);
            *number = match availability {
                Availability::Ready(class) => Some(class),
                Availability::Later => {
                    parked = true;
                    None
                }
                Availability::Exhausted => {
                    let reason = Reason::NoClass { slots: shape.slots };
                    return Err(Planned::Refused(reason));
                }
            };
            shortage = reason.or(shortage);
        }
        if parked {
            return Err(Planned::Parked);
        }
        let [internal, address, node_port, shortcut, node_port_shortcut] = numbers;
        Ok(PortClasses {
            internal,
            external: [address, node_port],
            // Who comes by a node port reads the first to find the group again.
            shortcuts: [shortcut.or(node_port_shortcut), node_port_shortcut],
            shortage,
        })
    }

    /// Groups of the cluster's and of this node's endpoints, 0 where there is none.
    fn groups(&mut self, id: u32, fates: &Fates) -> Option<(u32, u32)> {
        let port = self.model.ports.at(id)?;
        let (cluster, local) = (port.cluster_group, port.local_group);
        let sticky = fates.affinity.is_some();
        let sticky = |local| sticky.then(|| Sticky::new(local, Vec::new(), Vec::new()));
        let cluster = self.group(id, cluster, fates.uses_cluster(), sticky(false))?;
        let local = self.group(id, local, fates.uses_local(), sticky(true))?;
        Some((cluster, local))
    }

    fn group(&mut self, owner: u32, known: u32, used: bool, sticky: Option<Sticky>) -> Option<u32> {
        if !used {
            return Some(0);
        }
        if known != 0 && self.is_sticky(known) == sticky.is_some() {
            return Some(known);
        }
        if let Some(sticky) = &sticky
            && let Some(orphan) = self.orphan(owner, sticky.is_local())
        {
            self.edit_group(orphan, |facts| facts.owner = owner);
            return Some(orphan);
        }
        let draft = self.draft.number;
        let number = self.kernel.groups.insert(owner, sticky, draft)?;
        self.draft.undo.push(Undo::GroupAdded(number));
        Some(number)
    }

    /// Notes a port's groups; those it had before and has no use for any more are nobody's.
    fn set_groups(&mut self, id: u32, cluster: u32, local: u32) {
        let Some(port) = self.model.ports.at_mut(id) else {
            return;
        };
        let before = (port.cluster_group, port.local_group);
        if before == (cluster, local) {
            return;
        }
        let is_gone = port.is_gone();
        (port.cluster_group, port.local_group) = (cluster, local);
        let (cluster_group, local_group) = before;
        self.draft.undo.push(Undo::Port {
            id,
            cluster_group,
            local_group,
        });
        for (old, new) in [(cluster_group, cluster), (local_group, local)] {
            if old != 0 && old != new {
                self.edit_group(old, |facts| facts.owner = NONE);
                if self.is_sticky(old) && !is_gone {
                    self.kernel.orphans.push((old, id));
                }
            }
        }
    }

    pub(super) fn owned_frontends(&self, id: u32) -> SmallVec<[(u32, Role); 4]> {
        let Some(port) = self.model.ports.at(id) else {
            return SmallVec::new();
        };
        let owned = |&frontend: &u32| {
            let owner = self.model.frontends.arena.at(frontend)?.owner;
            (owner.port == id).then_some((frontend, owner.role))
        };
        port.frontends.iter().filter_map(owned).collect()
    }

    /// Do the rows a port may add fit?
    fn check_room(&self, id: u32, fates: &Fates) -> Result<(), Planned> {
        let Some(port) = self.model.ports.at(id) else {
            return Ok(());
        };
        let sticky = fates.affinity.is_some();
        let slots = |group: u32| {
            let group = self.kernel.groups.at(group);
            let group = group.filter(|group| group.sticky.is_some() == sticky);
            group.map_or(0, |group| group.slots.len())
        };
        let cluster = &self.selection.cluster[..];
        let local = &self.selection.local[..];
        let (mut slot_rows, mut numbers) = (0, 0);
        for (used, group, wanted) in [
            (fates.uses_cluster(), port.cluster_group, cluster),
            (fates.uses_local(), port.local_group, local),
        ] {
            if used {
                slot_rows += wanted.len().saturating_sub(slots(group));
                if sticky {
                    numbers += self.strangers(group, wanted);
                }
            }
        }
        let rows = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
        let (slot_rows, numbers) = (rows(slot_rows), rows(numbers));
        let frontends = u32::try_from(port.frontends.len()).unwrap_or(u32::MAX);
        let service = self.model.services.at(port.service);
        let spec = service.and_then(|service| service.spec.as_ref());
        let restricted = spec.is_some_and(|spec| spec.is_restricted());
        let needs = [
            (SetId::Endpoints, if sticky { 0 } else { slot_rows }),
            (SetId::StickySlots, if sticky { slot_rows } else { 0 }),
            (SetId::StickyEndpoints, numbers),
            (SetId::ChosenEndpoints, numbers),
            (SetId::Services, frontends),
            (SetId::NodePorts, u32::from(port.node_port != 0)),
            (SetId::RejectServices, frontends),
            (SetId::RejectNodePorts, u32::from(port.node_port != 0)),
            (SetId::ClusterIps, frontends),
            (SetId::Firewall, if restricted { frontends } else { 0 }),
        ];
        for (set, rows) in needs {
            let state = self.draft.set(set);
            if rows > state.room() {
                return Err(
                    if state.size.is_some_and(|size| size < self.config.max_rows) {
                        Planned::NoRoom(set, rows)
                    } else {
                        Planned::Refused(Reason::MapFull { map: set.name() })
                    },
                );
            }
        }
        Ok(())
    }
}
