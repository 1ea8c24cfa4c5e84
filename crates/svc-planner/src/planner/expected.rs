//! What the table holds if nobody but us has changed it: to be compared with what it does hold.
//!
//! Between two transactions the planner's view is that of the last commit, deletions that wait
//! included: a row that lingers is expected, not damage.

use super::{Planner, Stage};
use crate::kernel::class::State;
use crate::kernel::group::shortcut_keys;
use crate::kernel::layout::chains;
use crate::kernel::set::{SETS, SetId, SetState};
use crate::model::address::{Address, LocalTarget, Target};
use crate::model::frontend::{Frontend, FrontendKey};
use crate::plan::{DataType, Datum, Key, KeyType, Name, Route};
use crate::planning::{class_key, row_set};

/// A row that is in the table.
#[derive(Debug, Clone, PartialEq)]
pub struct ExpectedRow {
    /// Set or map.
    pub set: Name,
    /// Its key layout.
    pub layout: KeyType,
    /// What its rows hold.
    pub data: DataType,
    /// Key.
    pub key: Key,
    /// Datum.
    pub datum: Datum,
}

/// A set or map that is in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExpectedSet<'a> {
    /// Name.
    pub name: &'a Name,
    /// Key layout.
    pub layout: KeyType,
    /// What its rows hold.
    pub data: DataType,
    /// Its rows are prefixes, which cannot be read one by one.
    pub interval: bool,
    /// Rules add its rows, and they expire.
    pub dynamic: bool,
    /// Rows; `None` while it is being filled to replace another, or if it is dynamic.
    pub rows: Option<u32>,
}

/// How far a walk over all rows has got. The walk goes from set to set in the order of their
/// creation, and within a set by number; rows that change while it pauses are seen before or after.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RowCursor {
    /// Position in [`SetId::ALL`]; one more for the set that is being filled to replace another.
    set: usize,
    item: u32,
    slot: u32,
}

/// Where rows go.
struct Shown<'a> {
    rows: &'a mut Vec<ExpectedRow>,
    limit: usize,
    id: SetId,
    name: &'a Name,
}

impl Shown<'_> {
    fn push(&mut self, key: Key, datum: Datum) {
        self.rows.push(ExpectedRow {
            set: self.name.clone(),
            layout: self.id.key(),
            data: self.id.data(),
            key,
            datum,
        });
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.limit
    }
}

impl Planner {
    /// Packets go through our rules, as far as the planner knows.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        self.stage == Stage::Serving
    }

    /// Something of ours is in the table.
    #[must_use]
    pub fn is_present(&self) -> bool {
        matches!(
            self.stage,
            Stage::Serving | Stage::Filling(_) | Stage::Guarded(..)
        )
    }

    /// Sets and maps of ours.
    pub fn expected_sets(&self) -> impl Iterator<Item = ExpectedSet<'_>> {
        let sets = self.set_states().enumerate();
        sets.map(|(position, (id, state))| ExpectedSet {
            name: &state.name,
            layout: id.key(),
            data: id.data(),
            interval: id.is_interval(),
            dynamic: id.is_dynamic(),
            rows: (position < SETS && !id.is_dynamic()).then_some(state.rows),
        })
    }

    /// Names of all chains of ours, once we are [serving](Self::is_serving).
    pub fn expected_chains(&self) -> impl Iterator<Item = Name> {
        let suffix = self.kernel.chain_suffix;
        let fixed = chains().into_iter().map(|chain| chain.name);
        fixed.chain(self.kernel.classes.chains(suffix))
    }

    /// Puts rows into `rows` until there are `limit`, or a few more, from `cursor` on, which it moves
    /// on; true once all were shown. Rows of interval sets are left out. Nothing is shown while a
    /// transaction is in flight.
    pub fn expected_rows(
        &self,
        cursor: &mut RowCursor,
        limit: usize,
        rows: &mut Vec<ExpectedRow>,
    ) -> bool {
        if self.in_flight.is_some() || !self.is_present() {
            return false;
        }
        while let Some((id, state)) = self.set_states().nth(cursor.set) {
            if !self.show_set((id, state), cursor, limit, rows) {
                return false;
            }
            *cursor = RowCursor {
                set: cursor.set + 1,
                ..RowCursor::default()
            };
        }
        true
    }

    /// The same for one set alone, whose walk begins with a default cursor. A set that is no longer
    /// one of ours has nothing to show.
    pub fn expected_rows_of(
        &self,
        set: &str,
        cursor: &mut RowCursor,
        limit: usize,
        rows: &mut Vec<ExpectedRow>,
    ) -> bool {
        if self.in_flight.is_some() || !self.is_present() {
            return false;
        }
        let mut sets = self.set_states().enumerate();
        let Some((position, found)) = sets.find(|(_, (_, state))| *state.name == *set) else {
            return true;
        };
        cursor.set = position;
        self.show_set(found, cursor, limit, rows)
    }

    /// Shows a set's rows from the cursor on; false if there was no room for all of them.
    fn show_set(
        &self,
        (id, state): (SetId, &SetState),
        cursor: &mut RowCursor,
        limit: usize,
        rows: &mut Vec<ExpectedRow>,
    ) -> bool {
        let mut shown = Shown {
            rows,
            limit,
            id,
            name: &state.name,
        };
        let end = self.items(cursor.set, id);
        while cursor.item < end {
            if shown.is_full() || !self.show_item(id, cursor, &mut shown) {
                return false;
            }
            (cursor.item, cursor.slot) = (cursor.item + 1, 0);
        }
        true
    }

    /// Number of steps of a walk over all rows: somewhat more than there are items with rows.
    #[must_use]
    pub fn walk_length(&self) -> u64 {
        let sets = self.set_states().enumerate();
        sets.map(|(set, (id, _))| u64::from(self.items(set, id)))
            .sum()
    }

    /// A walk that begins with this step, to look at rows here and there.
    #[must_use]
    pub fn walk_from(&self, mut step: u64) -> RowCursor {
        for (set, (id, _)) in self.set_states().enumerate() {
            let items = self.items(set, id);
            match u32::try_from(step) {
                Ok(item) if item < items => return RowCursor { set, item, slot: 0 },
                _ => step -= u64::from(items),
            }
        }
        RowCursor::default()
    }

    /// What a set of ours holds for a key, `Some(None)` if it has no such row; `None` if it is no set
    /// of ours, or one whose rows cannot be told one by one.
    #[must_use]
    pub fn expected_row(&self, set: &str, key: &Key) -> Option<Option<Datum>> {
        let (position, (id, _)) = self
            .set_states()
            .enumerate()
            .find(|(_, (_, state))| *state.name == *set)?;
        if id.is_interval() || id.is_dynamic() || self.in_flight.is_some() {
            return None;
        }
        let Some((item, datum)) = self.find_row(id, key) else {
            return Some(None);
        };
        // A set that is being filled has the rows of the items before the cursor.
        Some(datum.filter(|_| item < self.items(position, id)))
    }

    pub(super) fn set_states(&self) -> impl Iterator<Item = (SetId, &SetState)> {
        let sets = SetId::ALL.into_iter().zip(&self.kernel.sets);
        let growing = self.growth.as_ref();
        sets.chain(growing.map(|growth| (growth.set, &growth.state)))
    }

    /// One above the greatest number of an item with rows in a set.
    fn items(&self, position: usize, id: SetId) -> u32 {
        let items = match id {
            SetId::Services
            | SetId::NodePorts
            | SetId::RejectServices
            | SetId::RejectNodePorts
            | SetId::Firewall => self.model.frontends.arena.end(),
            SetId::Endpoints
            | SetId::Shortcuts
            | SetId::StickySlots
            | SetId::StickyEndpoints
            | SetId::ChosenEndpoints => self.kernel.groups.end(),
            SetId::ClusterIps => self.model.cluster_ips.arena.end(),
            SetId::Dispatch
            | SetId::ShortcutDispatch
            | SetId::DropClasses
            | SetId::NodePortIps
            | SetId::Hairpins
            | SetId::State => 1,
            SetId::ServiceCidrs | SetId::SourceRanges | SetId::ClientAffinity => 0,
        };
        match &self.growth {
            Some(growth) if position == SETS => items.min(growth.cursor),
            _ => items,
        }
    }

    /// Shows an item's rows; false if there was no room for all of them.
    fn show_item(&self, id: SetId, cursor: &mut RowCursor, shown: &mut Shown<'_>) -> bool {
        let (family, item) = (self.model.family, cursor.item);
        match id {
            SetId::Services | SetId::NodePorts | SetId::RejectServices | SetId::RejectNodePorts => {
                if let Some(frontend) = self.model.frontends.arena.at(item)
                    && let Some(datum) = frontend_row(id, frontend)
                {
                    shown.push(frontend.key.lower(family), datum);
                }
            }
            SetId::Firewall => {
                if let Some(frontend) = self.model.frontends.arena.at(item)
                    && let Some(datum) = self.guard_row(item)
                {
                    shown.push(frontend.key.lower(family), datum);
                }
            }
            SetId::Endpoints
            | SetId::StickySlots
            | SetId::StickyEndpoints
            | SetId::ChosenEndpoints => {
                let Some(group) = self.kernel.groups.at(item) else {
                    return true;
                };
                let first = usize::try_from(cursor.slot).unwrap_or(usize::MAX);
                for (key, datum) in group.rows(id, item, family).skip(first) {
                    if shown.is_full() {
                        return false;
                    }
                    shown.push(key, datum);
                    cursor.slot += 1;
                }
            }
            SetId::Shortcuts => {
                let Some(group) = self.kernel.groups.at(item) else {
                    return true;
                };
                for (key, route) in shortcut_keys(item).into_iter().zip(group.facts.shortcuts) {
                    if let Some(route) = route {
                        shown.push(key, Datum::Route(route));
                    }
                }
            }
            SetId::ClusterIps => {
                let ip = self.model.cluster_ips.arena.at(item);
                if let Some(ip) = ip.filter(|ip| ip.present) {
                    shown.push(Key::Address(ip.address.ip(family)), Datum::None);
                }
            }
            SetId::Dispatch | SetId::ShortcutDispatch | SetId::DropClasses => {
                for (number, _) in self.kernel.classes.iter() {
                    if let Some(datum) = self.class_row(id, number) {
                        shown.push(class_key(number), datum);
                    }
                }
            }
            SetId::NodePortIps => {
                for ip in &self.kernel.settings.node_port_ips {
                    shown.push(Key::Address(ip.ip(family)), Datum::None);
                }
            }
            SetId::Hairpins => {
                for key in self.kernel.hairpins.keys() {
                    shown.push(self.model.hairpin_key(*key), Datum::None);
                }
            }
            SetId::State => {
                if let Some(key) = self.state() {
                    shown.push(key, Datum::None);
                }
            }
            SetId::ServiceCidrs | SetId::SourceRanges | SetId::ClientAffinity => {}
        }
        true
    }

    /// The item that has a key in a set, and its datum.
    fn find_row(&self, id: SetId, key: &Key) -> Option<(u32, Option<Datum>)> {
        let family = self.model.family;
        let frontend = |key| {
            let item = self.model.frontends.find(&key)?;
            let frontend = self.model.frontends.arena.at(item)?;
            let datum = match id {
                SetId::Firewall => self.guard_row(item),
                _ => frontend_row(id, frontend),
            };
            Some((item, datum))
        };
        let present = |is_there: bool| Some((0, is_there.then_some(Datum::None)));
        match (id, *key) {
            (
                SetId::Services | SetId::RejectServices | SetId::Firewall,
                Key::Frontend {
                    address,
                    protocol,
                    port,
                },
            ) => frontend(FrontendKey {
                address: Some(Address::new(family, address)?),
                protocol,
                port,
            }),
            (SetId::NodePorts | SetId::RejectNodePorts, Key::NodePort { protocol, port }) => {
                frontend(FrontendKey {
                    address: None,
                    protocol,
                    port,
                })
            }
            (SetId::Dispatch | SetId::ShortcutDispatch | SetId::DropClasses, Key::Class(class)) => {
                let exact = class & Route::GROUP_MASK == 0;
                let number = class >> Route::GROUP_BITS;
                let row = exact.then(|| self.class_row(id, number)).flatten();
                Some((0, row))
            }
            (SetId::Endpoints | SetId::StickySlots, Key::Slot { group, slot }) => {
                let held = self.kernel.groups.at(group)?;
                let slot = usize::try_from(slot).ok()?;
                let (_, datum) = held.rows(id, group, family).nth(slot)?;
                Some((group, Some(datum)))
            }
            (SetId::StickyEndpoints | SetId::ChosenEndpoints, Key::EndpointId(_)) => {
                self.kernel.groups.iter().find_map(|(number, group)| {
                    let mut rows = group.rows(id, number, family);
                    let (_, datum) = rows.find(|(other, _)| other == key)?;
                    Some((number, Some(datum)))
                })
            }
            (SetId::Shortcuts, Key::Group(key)) => {
                let (group, node_port) = (key & Route::GROUP_MASK, key > Route::GROUP_MASK);
                let shortcuts = self.kernel.groups.at(group)?.facts.shortcuts;
                let exact = shortcut_keys(group)[usize::from(node_port)] == Key::Group(key);
                let shortcut = shortcuts[usize::from(node_port)].filter(|_| exact);
                Some((group, shortcut.map(Datum::Route)))
            }
            (SetId::ClusterIps, Key::Address(address)) => {
                let item = self
                    .model
                    .cluster_ips
                    .find(Address::new(family, address)?)?;
                let ip = self.model.cluster_ips.arena.at(item)?;
                Some((item, ip.present.then_some(Datum::None)))
            }
            (SetId::NodePortIps, Key::Address(address)) => {
                let address = Address::new(family, address)?;
                present(self.kernel.settings.node_port_ips.contains(&address))
            }
            (
                SetId::Hairpins,
                Key::Hairpin {
                    address,
                    protocol,
                    port,
                },
            ) => {
                let address = Address::new(family, address)?;
                let target = Target { address, port };
                let key = LocalTarget { target, protocol };
                present(self.kernel.hairpins.contains_key(&key))
            }
            (SetId::State, key @ Key::State { .. }) => present(self.state() == Some(key)),
            _ => None,
        }
    }

    fn guard_row(&self, frontend: u32) -> Option<Datum> {
        let guard = self.kernel.guards.get(&frontend)?;
        Some(Datum::List(guard.list))
    }

    fn class_row(&self, id: SetId, number: u32) -> Option<Datum> {
        let class = self.kernel.classes.at(number)?;
        let shape = class.shape;
        if !matches!(class.state, State::Ready(_)) {
            return None;
        }
        match id {
            SetId::DropClasses => shape.is_unserved().then_some(Datum::None),
            id if id == row_set(shape) => Some(Datum::Goto(shape.chain(self.kernel.chain_suffix))),
            _ => None,
        }
    }
}

/// What a set holds for a frontend.
fn frontend_row(id: SetId, frontend: &Frontend) -> Option<Datum> {
    match (id, frontend.key.address.is_some()) {
        (SetId::Services, true) | (SetId::NodePorts, false) => frontend.route.map(Datum::Route),
        (SetId::RejectServices, true) | (SetId::RejectNodePorts, false) => {
            frontend.rejects.then_some(Datum::None)
        }
        _ => None,
    }
}
