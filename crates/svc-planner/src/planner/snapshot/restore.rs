//! From a snapshot back to a planner.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use thiserror::Error;

use super::super::{Planner, Stage};
use super::{
    SavedClass, SavedGroup, SavedList, SavedPort, SavedSet, SavedSticky, Snapshot, VERSION,
};
use crate::clock::{IN_USE, PENDING, ticks};
use crate::config::Config;
use crate::kernel::class::{Class, Classes, Shape, State};
use crate::kernel::group::{Facts, Group, Groups, NO_GROUP};
use crate::kernel::guard::Guard;
use crate::kernel::hairpin::Hairpin;
use crate::kernel::set::{SETS, SetId, SetState};
use crate::kernel::source_list::{self, List, Lists, NOBODY};
use crate::kernel::sticky::{EndpointIds, Leaving, Member, Sticky};
use crate::model::Model;
use crate::model::address::{Address, LocalTarget, Target, is_of};
use crate::model::arena::NONE;
use crate::model::frontend::FrontendKey;
use crate::object::Protocol;
use crate::plan::{EndpointId, Family, Key, Route};
use crate::planning::draft::Due;
use crate::planning::growth::Growth;

/// Why a snapshot cannot be used; the table is to be [rebuilt](Planner::rebuild).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// It was made by another version of the planner.
    #[error("snapshot of version {0}, not {VERSION}")]
    Version(u32),
    /// It contradicts itself.
    #[error("inconsistent snapshot: {0}")]
    Inconsistent(&'static str),
}

impl Planner {
    /// A planner for the table a snapshot describes. All objects are to be
    /// [applied](Planner::apply) before the first [`next`](Planner::next); what is unchanged then
    /// costs no operation, what is gone is deleted, and deletions that were due wait anew.
    ///
    /// # Errors
    /// A snapshot of another version, or one that contradicts itself.
    pub fn restore(config: Config, saved: Snapshot, now: Duration) -> Result<Self, RestoreError> {
        if saved.version != VERSION {
            return Err(RestoreError::Version(saved.version));
        }
        let mut planner = Self::new(saved.family, config);
        let restore = Restore {
            planner: &mut planner,
            family: saved.family,
            now: ticks(now),
        };
        restore.run(saved)?;
        Ok(planner)
    }
}

/// A planner on its way out of a snapshot.
struct Restore<'a> {
    planner: &'a mut Planner,
    family: Family,
    now: u64,
}

type Restored<T = ()> = Result<T, RestoreError>;

impl Restore<'_> {
    fn run(mut self, saved: Snapshot) -> Restored {
        self.sets(&saved)?;
        let kernel = &mut self.planner.kernel;
        kernel.chain_suffix = saved.chain_suffix;
        kernel.settings.rules = saved.rules;
        kernel.settings.service_cidrs = saved.service_cidrs;
        let addresses = saved.node_port_ips.iter().map(|ip| self.address(*ip));
        self.planner.kernel.settings.node_port_ips = addresses.collect::<Restored<_>>()?;
        for ip in &saved.cluster_ips {
            let address = self.address(*ip)?;
            self.planner.model.cluster_ips.expect(address);
        }
        let (next, taken) = saved.endpoint_ids;
        self.planner.kernel.endpoint_ids = EndpointIds { next, taken };
        self.planner.kernel.left = saved.left;
        for (key, group) in saved.departed {
            let key = self.frontend(key)?;
            self.planner.kernel.departed.push((key, group));
        }
        self.classes(saved.classes)?;
        self.groups(saved.groups)?;
        self.hairpins(saved.hairpins)?;
        self.ports(saved.ports)?;
        self.frontends(saved.frontends)?;
        self.orphans();
        self.lists(saved.source_lists)?;
        self.guards(saved.guards)?;
        self.schedule();
        let due = self.due_time();
        let leftovers = saved.leftovers.into_iter().map(|names| (due, names));
        self.planner.leftovers = leftovers.collect();
        self.planner.committed = Some(saved.state);
        self.planner.stage = Stage::Serving;
        self.planner.expects = true;
        Ok(())
    }

    fn sets(&mut self, saved: &Snapshot) -> Restored {
        let restored = |id, set: &SavedSet| SetState {
            rows: set.rows,
            ..SetState::new(id, set.generation, set.size)
        };
        let sets: Vec<_> = SetId::ALL
            .into_iter()
            .zip(&saved.sets)
            .map(|(id, set)| restored(id, set))
            .collect();
        let sets: [SetState; SETS] = sets
            .try_into()
            .map_err(|_| RestoreError::Inconsistent("sets are missing"))?;
        self.planner.growth = saved.growth.as_ref().map(|(id, set)| Growth {
            set: *id,
            state: restored(*id, set),
            replaced: sets[*id as usize].name.clone(),
            cursor: NONE,
        });
        self.planner.kernel.sets = sets;
        Ok(())
    }

    fn classes(&mut self, saved: Vec<(u32, Shape, SavedClass)>) -> Restored {
        let classes = saved.into_iter().map(|(number, shape, state)| {
            let (state, since) = match state {
                SavedClass::Ready => (State::Ready(0), PENDING),
                SavedClass::Rowless => (State::Rowless, PENDING),
            };
            (
                number,
                Class {
                    shape,
                    rows: 0,
                    state,
                    since,
                    noted: 0,
                },
            )
        });
        self.planner.kernel.classes = Classes::numbered(classes.collect())
            .ok_or(RestoreError::Inconsistent("two classes are one"))?;
        Ok(())
    }

    fn groups(&mut self, saved: Vec<SavedGroup>) -> Restored {
        let mut groups = Vec::with_capacity(saved.len());
        for group in &saved {
            let slots = group.slots.iter().map(|socket| self.target(*socket));
            let facts = Facts {
                owner: NONE,
                rows: 0,
                count: group.count,
                tail_since: PENDING,
                unused_since: PENDING,
                shortcuts: group.shortcuts,
            };
            let slots = slots.collect::<Restored<_>>()?;
            let sticky = group.sticky.as_ref();
            let sticky = sticky.map(|sticky| self.sticky(sticky)).transpose()?;
            groups.push((
                group.number,
                Group {
                    facts,
                    slots,
                    sticky,
                    noted: 0,
                },
            ));
        }
        self.planner.kernel.groups =
            Groups::numbered(groups).ok_or(RestoreError::Inconsistent("two groups are one"))?;
        let shortcuts = saved.iter().flat_map(|group| group.shortcuts);
        for route in shortcuts.flatten() {
            self.count(route)?;
        }
        Ok(())
    }

    fn sticky(&self, saved: &SavedSticky) -> Restored<Box<Sticky>> {
        let member = |(socket, id): &(SocketAddr, EndpointId)| {
            Ok(Member {
                target: self.target(*socket)?,
                id: *id,
            })
        };
        let leaving = saved.leaving.iter().map(member).map(|member| {
            Ok(Leaving {
                member: member?,
                since: PENDING,
            })
        });
        let members = saved.members.iter().map(member).collect::<Restored<_>>()?;
        Ok(Box::new(Sticky::new(
            saved.local,
            members,
            leaving.collect::<Restored<_>>()?,
        )))
    }

    fn orphans(&mut self) {
        let kernel = &mut self.planner.kernel;
        let groups = kernel.groups.iter();
        let orphans =
            groups.filter(|(_, group)| group.sticky.is_some() && group.facts.owner == NONE);
        kernel.orphans = orphans.map(|(number, _)| (number, NONE)).collect();
    }

    fn hairpins(&mut self, saved: Vec<(SocketAddr, Protocol)>) -> Restored {
        for (socket, protocol) in saved {
            let key = LocalTarget {
                target: self.target(socket)?,
                protocol,
            };
            let hairpin = Hairpin {
                uses: 0,
                since: PENDING,
            };
            self.planner.kernel.hairpins.insert(key, hairpin);
        }
        Ok(())
    }

    fn ports(&mut self, saved: Vec<SavedPort>) -> Restored {
        for port in saved {
            let (cluster, local) = (port.cluster_group, port.local_group);
            let id = self.planner.model.expect_port(&port.name, (cluster, local));
            for number in [cluster, local].into_iter().filter(|number| *number != 0) {
                let group = self.planner.kernel.groups.at_mut(number);
                let group = group.ok_or(RestoreError::Inconsistent("a group is missing"))?;
                (group.facts.owner, group.facts.unused_since) = (id, IN_USE);
            }
            let mut hairpins = Vec::with_capacity(port.hairpins.len());
            for socket in port.hairpins {
                let key = LocalTarget {
                    target: self.target(socket)?,
                    protocol: port.name.protocol,
                };
                let hairpin = self.planner.kernel.hairpins.get_mut(&key);
                let hairpin = hairpin.ok_or(RestoreError::Inconsistent("a hairpin is missing"))?;
                (hairpin.uses, hairpin.since) = (hairpin.uses.saturating_add(1), IN_USE);
                hairpins.push(key);
            }
            if let Some(port) = self.planner.model.ports.at_mut(id) {
                port.hairpins = hairpins;
            }
        }
        Ok(())
    }

    fn frontends(&mut self, saved: Vec<(Key, Option<Route>, bool)>) -> Restored {
        for (key, route, rejects) in saved {
            let key = self.frontend(key)?;
            let frontends = &mut self.planner.model.frontends;
            let id = frontends.find_or_insert(key);
            if let Some(frontend) = frontends.arena.at_mut(id) {
                (frontend.route, frontend.rejects) = (route, rejects);
                if route.is_some() && rejects {
                    frontend.since = PENDING;
                }
            }
            if let Some(route) = route {
                self.count(route)?;
            }
        }
        Ok(())
    }

    fn lists(&mut self, saved: Vec<SavedList>) -> Restored {
        let mut lists = Vec::with_capacity(saved.len());
        for list in saved {
            if list.ranges.iter().any(|range| !is_of(self.family, range)) {
                return Err(RestoreError::Inconsistent("a range of the other family"));
            }
            let restored = List {
                ranges: list.ranges.into(),
                namespace: list.namespace.into(),
                state: source_list::State::Ready(0),
                users: 0,
                since: PENDING,
                noted: 0,
            };
            lists.push((list.number, restored));
        }
        self.planner.kernel.lists = Lists::numbered(lists).ok_or(RestoreError::Inconsistent(
            "a list of ranges has a number of another's",
        ))?;
        Ok(())
    }

    fn guards(&mut self, saved: Vec<(Key, u32)>) -> Restored {
        // It may have been written just before.
        let ripe = self.due_time();
        for (key, number) in saved {
            let key = self.frontend(key)?;
            let id = self.planner.model.frontends.find_or_insert(key);
            let kernel = &mut self.planner.kernel;
            if let Some(list) = kernel.lists.at_mut(number) {
                (list.users, list.since) = (list.users.saturating_add(1), IN_USE);
            } else if number != NOBODY {
                return Err(RestoreError::Inconsistent("a list of ranges is missing"));
            }
            let guard = Guard { list: number, ripe };
            kernel.guards.insert(id, guard);
        }
        Ok(())
    }

    fn frontend(&self, key: Key) -> Restored<FrontendKey> {
        Ok(match key {
            Key::Frontend {
                address,
                protocol,
                port,
            } => FrontendKey {
                address: Some(self.address(address)?),
                protocol,
                port,
            },
            Key::NodePort { protocol, port } => FrontendKey {
                address: None,
                protocol,
                port,
            },
            _ => return Err(RestoreError::Inconsistent("not a frontend")),
        })
    }

    /// A row leads to a class and a group.
    fn count(&mut self, route: Route) -> Restored {
        let kernel = &mut self.planner.kernel;
        let class = kernel.classes.at_mut(route.class());
        let class = class.ok_or(RestoreError::Inconsistent("a class is missing"))?;
        (class.rows, class.since) = (class.rows.saturating_add(1), IN_USE);
        if let Some(group) = kernel.groups.at_mut(route.group()) {
            group.facts.rows = group.facts.rows.saturating_add(1);
            group.facts.unused_since = IN_USE;
        } else if route.group() != NO_GROUP {
            return Err(RestoreError::Inconsistent("a group is missing"));
        }
        Ok(())
    }

    /// Whatever is out of use is looked at again once it has been so for long enough.
    fn schedule(&mut self) {
        let planner = &mut *self.planner;
        let (kernel, model): (_, &Model) = (&planner.kernel, &planner.model);
        let mut due: Vec<Due> = Vec::new();
        due.extend(kernel.classes.iter().map(|(number, _)| Due::Class(number)));
        due.extend(kernel.lists.iter().map(|(number, _)| Due::List(number)));
        due.extend(kernel.groups.iter().map(|(number, _)| Due::Group(number)));
        due.extend(
            model
                .frontends
                .arena
                .iter()
                .map(|(id, _)| Due::Frontend(id)),
        );
        let mut hairpins: Vec<_> = kernel.hairpins.keys().copied().collect();
        hairpins.sort_unstable_by_key(|local| (local.target, local.protocol));
        due.extend(hairpins.into_iter().map(Due::Hairpin));
        for due in due {
            if self.planner.stamp(due, self.now) {
                let time = self.due_time();
                self.planner.due.push_back((time, due));
            }
        }
    }

    fn due_time(&self) -> u64 {
        self.now.saturating_add(ticks(self.planner.config.hold))
    }

    fn address(&self, ip: IpAddr) -> Restored<Address> {
        let other = RestoreError::Inconsistent("an address of the other family");
        Address::new(self.family, ip).ok_or(other)
    }

    fn target(&self, socket: SocketAddr) -> Restored<Target> {
        Ok(Target {
            address: self.address(socket.ip())?,
            port: socket.port(),
        })
    }
}
