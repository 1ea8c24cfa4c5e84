//! Classes: the shapes frontends have in common. Each has a chain, reached by its row in a verdict
//! map, which exists before the first frontend leads there and long after the last one did.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::arena_number;
use super::clock::IN_USE;
use crate::model::arena::Arena;
use crate::object::Algorithm;
use crate::plan::{Name, Route};

/// What a class does besides balancing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// ClusterIPs: foreign sources are masqueraded, if so configured.
    Internal,
    /// Reached from outside, policy Cluster: masqueraded.
    External,
    /// Reached from outside, policy Local: not masqueraded; pods and the node itself take the
    /// shortcut to the cluster's endpoints.
    ExternalLocal,
    /// End of the shortcut: balancing alone.
    Shortcut,
    /// Dropped.
    Drop,
}

/// Frontends of one shape share a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// Number of slots to choose from.
    pub(crate) slots: u32,
    pub(crate) algorithm: Algorithm,
}

impl Shape {
    /// Name of its chain; `suffix` tells chains of a rebuilt table from those found in it.
    pub(crate) fn chain(self, suffix: u32) -> Name {
        let kind = match self.kind {
            Kind::Internal => "internal",
            Kind::External => "external",
            Kind::ExternalLocal => "external-local",
            Kind::Shortcut => "shortcut",
            Kind::Drop => "no-local-endpoint",
        };
        match suffix {
            0 => format!("{kind}-{}", self.slots).into(),
            suffix => format!("{kind}-{}-{suffix}", self.slots).into(),
        }
    }
}

/// How much of a class the kernel holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Chain and row come with the transaction in flight.
    Creating,
    /// Chain and row are there and may be used from this time on.
    Ready(u64),
    /// The row is gone.
    Rowless,
    /// The chain goes with the transaction in flight.
    Deleting,
}

/// One class.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Class {
    pub(crate) shape: Shape,
    /// Rows that lead to it.
    pub(crate) rows: u32,
    pub(crate) state: State,
    /// Since when no row leads to it, or its own row is gone.
    pub(crate) since: u64,
}

/// All classes, by number.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    arena: Arena<Class>,
    index: HashMap<Shape, u32>,
    /// Classes that went out of use, oldest first; some are in use again.
    pub(crate) idle: VecDeque<u32>,
}

impl Classes {
    pub(crate) fn find(&self, shape: Shape) -> Option<u32> {
        self.index.get(&shape).copied()
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Class> {
        self.arena.at(number.checked_sub(1)?)
    }

    pub(crate) fn at_mut(&mut self, number: u32) -> Option<&mut Class> {
        self.arena.at_mut(number.checked_sub(1)?)
    }

    /// A new class; `None` if all numbers are in use.
    pub(crate) fn insert(&mut self, shape: Shape) -> Option<u32> {
        if self.arena.len() >= Route::MAX_CLASS as usize {
            return None;
        }
        let id = self.arena.insert(Class {
            shape,
            rows: 0,
            state: State::Creating,
            since: IN_USE,
        });
        let number = arena_number(id);
        self.index.insert(shape, number);
        Some(number)
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(class) = number.checked_sub(1).and_then(|id| self.arena.remove(id)) {
            self.index.remove(&class.shape);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        self.arena
            .iter()
            .map(|(id, class)| (arena_number(id), class))
    }

    pub(crate) fn len(&self) -> usize {
        self.arena.len()
    }
}
