//! A transaction in the making.

mod undo;

pub(crate) use undo::Undo;

use super::growth::Growth;
use super::takeover::{Inventory, Leftovers};
use crate::kernel::set::{SETS, SetId, SetState};
use crate::kernel::{Kernel, Settings};
use crate::model::Model;
use crate::model::address::LocalTarget;
use crate::plan::{Datum, Family, Key, Name, Row, SetChange, Transaction};

/// Something that is looked at again some time after it went out of use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Due {
    Frontend(u32),
    Group(u32),
    Class(u32),
    Hairpin(LocalTarget),
    List(u32),
    NodePortIps,
}

/// Rows of one set.
#[derive(Debug, Default)]
struct Rows {
    delete: Vec<Key>,
    add: Vec<Row>,
}

/// Set that is being replaced by a bigger one: rows of items before `cursor` are written to both.
#[derive(Debug, Clone)]
pub(crate) struct Mirror {
    pub(crate) set: SetId,
    pub(crate) name: Name,
    pub(crate) cursor: u32,
}

/// What a transaction does besides changing rows.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing.
    Rows,
    /// Creates sets.
    Create,
    /// Fills a bigger set.
    Grow(Growth),
    /// Switches to a bigger set.
    Switch(Growth),
    /// Switches the chains before translation over.
    Guard,
    /// Adds clients of a table that is taken over.
    Carry,
    /// Switches the base chains over.
    TakeOver,
    /// Puts chains and rules back in place; what is not ours is left.
    Mend(Inventory, Leftovers),
    /// Deletes names found in the table; the rest is left.
    CleanUp(Leftovers),
}

/// Elements a buffer has room for at most when it is kept while there is nothing to do.
const KEPT: usize = 1024;

/// A transaction in the making; kept between transactions for its buffers.
#[derive(Debug)]
pub(crate) struct Draft {
    /// Number of the draft, never 0.
    pub(crate) number: u64,
    pub(crate) transaction: Transaction,
    rows: [Rows; SETS],
    mirror_rows: Rows,
    pub(crate) mirror: Option<Mirror>,
    /// The sets as they are after this transaction.
    pub(crate) sets: [SetState; SETS],
    pub(crate) undo: Vec<Undo>,
    /// Former hairpins of ports.
    pub(crate) hairpins: Vec<LocalTarget>,
    /// The settings before this transaction.
    settings: Settings,
    /// Ports planned.
    pub(crate) ports: Vec<u32>,
    /// What goes out of use.
    pub(crate) released: Vec<Due>,
    /// What was looked at again.
    pub(crate) consumed: Vec<Due>,
    /// Groups whose numbers become free.
    pub(crate) freed_groups: Vec<u32>,
    /// Classes whose row becomes visible.
    pub(crate) created_classes: Vec<u32>,
    /// Classes whose number becomes free.
    pub(crate) deleted_classes: Vec<u32>,
    /// ClusterIPs whose row goes.
    pub(crate) emptied_cluster_ips: Vec<u32>,
    /// Lists of source ranges whose rows become visible.
    pub(crate) created_lists: Vec<u32>,
    /// Lists whose number becomes free.
    pub(crate) freed_lists: Vec<u32>,
    /// Frontends whose guard becomes visible.
    pub(crate) guards: Vec<u32>,
    /// Ports with frontends that wait for their guard, and until when.
    pub(crate) guarded: Vec<(u64, u32)>,
    /// Ports that wait for a class of this transaction.
    pub(crate) parked: Vec<u32>,
    /// Groups whose clients stick and that lose a frontend, or all.
    pub(crate) left: Vec<u32>,
    /// Such groups that are looked after.
    pub(crate) renumbered: Vec<u32>,
    /// What it does besides rows.
    pub(crate) step: Step,
    /// Objects something is done about: ports, and what is looked at again.
    pub(crate) items: usize,
    /// The port, if that is the only one.
    pub(crate) only_port: Option<u32>,
    count: usize,
}

impl Draft {
    pub(crate) fn new(family: Family, kernel: &Kernel) -> Self {
        Self {
            number: 0,
            transaction: Transaction::new(family),
            sets: kernel.sets.clone(),
            settings: Settings::default(),
            rows: Default::default(),
            mirror_rows: Rows::default(),
            mirror: None,
            undo: Vec::new(),
            hairpins: Vec::new(),
            ports: Vec::new(),
            released: Vec::new(),
            consumed: Vec::new(),
            freed_groups: Vec::new(),
            created_classes: Vec::new(),
            deleted_classes: Vec::new(),
            emptied_cluster_ips: Vec::new(),
            created_lists: Vec::new(),
            freed_lists: Vec::new(),
            guards: Vec::new(),
            guarded: Vec::new(),
            parked: Vec::new(),
            left: Vec::new(),
            renumbered: Vec::new(),
            step: Step::Rows,
            items: 0,
            only_port: None,
            count: 0,
        }
    }

    /// Starts a transaction with what the kernel holds; it was cleared before.
    pub(crate) fn start(&mut self, number: u64, kernel: &Kernel, mirror: Option<Mirror>) {
        self.number = number;
        self.sets.clone_from(&kernel.sets);
        self.settings.copy_from(&kernel.settings);
        self.mirror = mirror;
    }

    /// Empties it.
    pub(crate) fn clear(&mut self) {
        self.transaction.clear();
        self.rows.iter_mut().for_each(Rows::clear);
        self.mirror_rows.clear();
        self.mirror = None;
        self.undo.clear();
        self.hairpins.clear();
        self.released.clear();
        self.consumed.clear();
        self.guarded.clear();
        self.numbers().into_iter().for_each(Vec::clear);
        self.step = Step::Rows;
        self.items = 0;
        self.only_port = None;
        self.count = 0;
    }

    /// Gives large buffers back; for when there is nothing more to do. While a cold load goes on they
    /// are kept from chunk to chunk.
    pub(crate) fn trim(&mut self) {
        self.rows.iter_mut().for_each(Rows::trim);
        self.mirror_rows.trim();
        self.undo.shrink_to(KEPT);
        self.hairpins.shrink_to(KEPT);
        self.released.shrink_to(KEPT);
        self.consumed.shrink_to(KEPT);
        self.guarded.shrink_to(KEPT);
        for numbers in self.numbers() {
            numbers.shrink_to(KEPT);
        }
    }

    fn numbers(&mut self) -> [&mut Vec<u32>; 11] {
        [
            &mut self.ports,
            &mut self.freed_groups,
            &mut self.created_classes,
            &mut self.deleted_classes,
            &mut self.emptied_cluster_ips,
            &mut self.created_lists,
            &mut self.freed_lists,
            &mut self.guards,
            &mut self.parked,
            &mut self.left,
            &mut self.renumbered,
        ]
    }

    /// Takes the buffers of a finished transaction's rows over and empties it.
    pub(crate) fn reclaim(&mut self, transaction: &mut Transaction) {
        for change in transaction.elements.drain(..) {
            let mut sets = self.rows.iter_mut().zip(&self.sets);
            if let Some((rows, _)) = sets.find(|(_, state)| state.name == change.set) {
                (rows.delete, rows.add) = (change.delete, change.add);
                rows.clear();
            }
        }
        transaction.clear();
    }

    pub(crate) fn set(&self, id: SetId) -> &SetState {
        &self.sets[id as usize]
    }

    /// Deletes a row; `item` is the number of what it stands for, see [`Mirror`].
    pub(crate) fn delete(&mut self, set: SetId, item: u32, key: Key) {
        if self.is_mirrored(set, item) {
            self.mirror_rows.delete.push(key);
            self.count += 1;
        }
        self.rows[set as usize].delete.push(key);
        let rows = &mut self.sets[set as usize].rows;
        *rows = rows.saturating_sub(1);
        self.count += 1;
    }

    /// Adds a row; `item` as for [`delete`](Self::delete).
    pub(crate) fn add(&mut self, set: SetId, item: u32, key: Key, datum: Datum) {
        if self.is_mirrored(set, item) {
            self.mirror_rows.add.push(Row {
                key,
                datum: datum.clone(),
            });
            self.count += 1;
        }
        self.rows[set as usize].add.push(Row { key, datum });
        self.sets[set as usize].rows += 1;
        self.count += 1;
    }

    /// Takes back a row that this transaction was to add; `item` as for [`delete`](Self::delete).
    pub(crate) fn take_back_row(&mut self, set: SetId, item: u32, key: &Key) {
        let remove = |rows: &mut Vec<Row>| {
            let found = rows.iter().rposition(|row| row.key == *key);
            found.map(|at| rows.remove(at)).is_some()
        };
        if self.is_mirrored(set, item) && remove(&mut self.mirror_rows.add) {
            self.count = self.count.saturating_sub(1);
        }
        if remove(&mut self.rows[set as usize].add) {
            let rows = &mut self.sets[set as usize].rows;
            *rows = rows.saturating_sub(1);
            self.count = self.count.saturating_sub(1);
        }
    }

    /// Adds a row to the bigger set alone.
    pub(crate) fn copy(&mut self, key: Key, datum: Datum) {
        self.mirror_rows.add.push(Row { key, datum });
        self.count += 1;
    }

    fn is_mirrored(&self, set: SetId, item: u32) -> bool {
        self.mirror
            .as_ref()
            .is_some_and(|mirror| mirror.set == set && item < mirror.cursor)
    }

    /// Rows deleted and added so far.
    pub(crate) const fn rows(&self) -> usize {
        self.count
    }

    /// How much it does: grows with each change but those of rules.
    pub(crate) const fn size(&self) -> usize {
        let tx = &self.transaction;
        self.count + tx.add_chains.len() + tx.flush_chains.len() + tx.delete_chains.len()
    }

    /// Counts an object if something is done about it, given the [size](Self::size) before.
    pub(crate) const fn count_item(&mut self, before: usize, port: Option<u32>) {
        if self.size() != before {
            self.items += 1;
            self.only_port = if self.items == 1 { port } else { None };
        }
    }

    /// Is there room for another object, given the greatest numbers of rows and of objects?
    pub(crate) const fn has_room(&self, rows: usize, items: usize) -> bool {
        self.count < rows && self.items < items
    }

    /// Does it change anything in the kernel?
    pub(crate) fn is_empty(&self) -> bool {
        let tx = &self.transaction;
        self.count == 0
            && !tx.add_table
            && [
                &tx.flush_chains,
                &tx.replace_chains,
                &tx.delete_chains,
                &tx.delete_sets,
            ]
            .iter()
            .all(|names| names.is_empty())
            && tx.add_sets.is_empty()
            && tx.add_chains.is_empty()
            && tx.add_rules.is_empty()
    }

    /// Moves the finished transaction into an empty one.
    pub(crate) fn finish(&mut self, transaction: &mut Transaction) {
        core::mem::swap(transaction, &mut self.transaction);
        let sets = SetId::ALL.into_iter().zip(&self.sets).zip(&mut self.rows);
        for ((id, state), rows) in sets {
            transaction.elements.extend(change(id, &state.name, rows));
        }
        if let Some(mirror) = &self.mirror {
            let change = change(mirror.set, &mirror.name, &mut self.mirror_rows);
            transaction.elements.extend(change);
        }
    }

    /// Restores what planning changed.
    pub(crate) fn take_back(&mut self, model: &mut Model, kernel: &mut Kernel) {
        while let Some(undo) = self.undo.pop() {
            undo.apply(model, kernel, &mut self.hairpins);
        }
        core::mem::swap(&mut kernel.settings, &mut self.settings);
    }
}

/// Takes rows out as a change of a set.
fn change(id: SetId, set: &Name, rows: &mut Rows) -> Option<SetChange> {
    (!rows.delete.is_empty() || !rows.add.is_empty()).then(|| SetChange {
        set: set.clone(),
        key: id.key(),
        data: id.data(),
        delete: core::mem::take(&mut rows.delete),
        add: core::mem::take(&mut rows.add),
    })
}

impl Rows {
    fn clear(&mut self) {
        self.delete.clear();
        self.add.clear();
    }

    fn trim(&mut self) {
        self.delete.shrink_to(KEPT);
        self.add.shrink_to(KEPT);
    }
}
