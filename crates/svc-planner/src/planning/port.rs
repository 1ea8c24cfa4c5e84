//! One Service port: from its endpoints and policies to its rows.

use smallvec::SmallVec;

use super::Work;
use super::classes::Availability;
use super::draft::Undo;
use super::rows::Goal;
use crate::kernel::class::Shape;
use crate::kernel::group::NO_GROUP;
use crate::kernel::set::SetId;
use crate::model::arena::NONE;
use crate::model::service::{Port, Role};
use crate::object::Algorithm;
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
    algorithm: Algorithm,
}

/// Numbers of a port's classes.
struct PortClasses {
    internal: Option<u32>,
    external: Option<u32>,
    shortcut: Option<u32>,
    /// A class chooses from fewer endpoints than there are.
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
            self.set_groups(id, 0, 0);
            self.set_hairpins(id, &[]);
            return Planned::Done;
        }
        self.selection.select(self.model, port);
        let Some(fates) = self.fates(port) else {
            return Planned::Done;
        };
        let (service, protocol) = (port.service, port.protocol);
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
            self.set_slots(cluster, &endpoints);
        }
        self.selection.cluster = endpoints;
        let endpoints = core::mem::take(&mut self.selection.local);
        if local != 0 {
            self.set_slots(local, &endpoints);
            self.set_shortcut(
                local,
                classes
                    .shortcut
                    .and_then(|class| Route::new(class, cluster)),
            );
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
        let external = fates.external.map(|fate| goal(fate, classes.external));
        for (frontend, role) in self.owned_frontends(id) {
            let goal = if role.is_external() {
                external
            } else {
                Some(internal)
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
        let is_external =
            port.node_port != 0 || spec.addresses.iter().any(|(_, role)| role.is_external());
        let external = traffic_policy::external(spec.external_policy, self.selection);
        Some(Fates {
            internal: traffic_policy::internal(spec.internal_policy, self.selection),
            external: is_external.then_some(external),
            algorithm: spec.algorithm,
        })
    }

    /// Its classes, unless some are still to come.
    fn classes(&mut self, fates: &Fates) -> Result<PortClasses, Planned> {
        let count = |endpoints: usize| u32::try_from(endpoints).unwrap_or(u32::MAX);
        let cluster = count(self.selection.cluster.len());
        let local = count(self.selection.local.len());
        let shape = |kind, slots| {
            Some(Shape {
                kind,
                slots,
                algorithm: fates.algorithm,
            })
        };
        let shape_of = |fate| match fate {
            Fate::Reject => None,
            Fate::Drop => shape(Kind::Drop, 0),
            Fate::Cluster(kind) => shape(kind, cluster),
            Fate::Local(kind) => shape(kind, local),
        };
        let shortcut = if fates.uses_shortcut() {
            shape(Kind::Shortcut, cluster)
        } else {
            None
        };
        let shapes = [
            shape_of(fates.internal),
            fates.external.and_then(shape_of),
            shortcut,
        ];
        let mut numbers = [None; 3];
        let mut parked = false;
        let mut shortage = None;
        for (number, shape) in numbers.iter_mut().zip(shapes) {
            let Some(shape) = shape else {
                continue;
            };
            *number = match self.class(shape) {
                Availability::Ready(class) => Some(class),
                Availability::Later => {
                    parked = true;
                    None
                }
                Availability::Exhausted => {
                    // Some of the endpoints are better than none.
                    let reason = Reason::NoClass { slots: shape.slots };
                    let Some(class) = self.kernel.classes.next_smaller(shape, self.now) else {
                        return Err(Planned::Refused(reason));
                    };
                    shortage = Some(reason);
                    Some(class)
                }
            };
        }
        if parked {
            return Err(Planned::Parked);
        }
        let [internal, external, shortcut] = numbers;
        Ok(PortClasses {
            internal,
            external,
            shortcut,
            shortage,
        })
    }

    /// Groups of the cluster's and of this node's endpoints, 0 where there is none.
    fn groups(&mut self, id: u32, fates: &Fates) -> Option<(u32, u32)> {
        let port = self.model.ports.at(id)?;
        let (cluster, local) = (port.cluster_group, port.local_group);
        let cluster = self.group(id, cluster, fates.uses_cluster())?;
        let local = self.group(id, local, fates.uses_local())?;
        Some((cluster, local))
    }

    fn group(&mut self, owner: u32, known: u32, used: bool) -> Option<u32> {
        if !used {
            return Some(0);
        }
        if known != 0 {
            return Some(known);
        }
        let number = self.kernel.groups.insert(owner, self.draft.number)?;
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
        let slots = |group: u32| {
            self.kernel
                .groups
                .at(group)
                .map_or(0, |group| group.slots.len())
        };
        let mut endpoints = 0;
        if fates.uses_cluster() {
            let wanted = self.selection.cluster.len();
            endpoints += wanted.saturating_sub(slots(port.cluster_group));
        }
        if fates.uses_local() {
            let wanted = self.selection.local.len();
            endpoints += wanted.saturating_sub(slots(port.local_group));
        }
        let frontends = u32::try_from(port.frontends.len()).unwrap_or(u32::MAX);
        let service = self.model.services.at(port.service);
        let spec = service.and_then(|service| service.spec.as_ref());
        let restricted = spec.is_some_and(|spec| spec.is_restricted());
        let needs = [
            (
                SetId::Endpoints,
                u32::try_from(endpoints).unwrap_or(u32::MAX),
            ),
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
