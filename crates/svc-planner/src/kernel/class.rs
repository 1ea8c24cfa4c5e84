//! Classes: the shapes frontends have in common. Each has a chain, reached by its row in a verdict
//! map, which exists before the first frontend leads there and long after the last one did.

use std::collections::VecDeque;

use hashbrown::HashMap;

use super::arena_number;
use crate::clock::IN_USE;
use crate::model::arena::Arena;
use crate::object::Algorithm;
use crate::plan::{Name, Route};
use crate::policy::traffic_policy::Kind;

/// Frontends of one shape share a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Shape {
    pub(crate) kind: Kind,
    /// Number of slots to choose from.
    pub(crate) slots: u32,
    pub(crate) algorithm: Algorithm,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [
        Self::Internal,
        Self::External,
        Self::ExternalLocal,
        Self::Shortcut,
        Self::Drop,
    ];

    /// Beginning of its chains' names.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::External => "external",
            Self::ExternalLocal => "external-local",
            Self::Shortcut => "shortcut",
            Self::Drop => "no-local-endpoint",
        }
    }
}

impl Shape {
    /// Name of its chain; `suffix` tells chains of a rebuilt table from those found in it.
    pub(crate) fn chain(self, suffix: u32) -> Name {
        let kind = self.kind.name();
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
    /// The last draft that noted what this was before.
    pub(crate) noted: u64,
}

/// Shapes with up to so many slots can have any number, bigger ones leave some to them: there is
/// always a small class for a Service whose own shape is refused.
const SMALL: u32 = 16;
/// One number in so many is left to them.
const KEPT_FOR_SMALL: u32 = 16;

/// All classes, by number.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    arena: Arena<Class>,
    index: HashMap<Shape, u32>,
    /// Classes that went out of use, oldest first; some are in use again.
    pub(crate) idle: VecDeque<u32>,
}

impl Classes {
    /// Classes with given numbers; `None` if they contradict each other.
    pub(crate) fn numbered(classes: Vec<(u32, Class)>) -> Option<Self> {
        let mut index = HashMap::new();
        for (number, class) in &classes {
            if *number == 0 || index.insert(class.shape, *number).is_some() {
                return None;
            }
        }
        let classes = classes
            .into_iter()
            .map(|(number, class)| (number - 1, class));
        let arena = Arena::numbered(classes, Route::MAX_CLASS - 1)?;
        Some(Self {
            arena,
            index,
            idle: VecDeque::new(),
        })
    }

    pub(crate) fn find(&self, shape: Shape) -> Option<u32> {
        self.index.get(&shape).copied()
    }

    pub(crate) fn at(&self, number: u32) -> Option<&Class> {
        self.arena.at(number.checked_sub(1)?)
    }

    pub(crate) fn at_mut(&mut self, number: u32) -> Option<&mut Class> {
        self.arena.at_mut(number.checked_sub(1)?)
    }

    /// A new class; `None` if all numbers are in use, or the last ones are kept for small shapes.
    pub(crate) fn insert(&mut self, shape: Shape, max: u32, draft: u64) -> Option<u32> {
        let max = max.min(Route::MAX_CLASS);
        let kept = if shape.slots > SMALL {
            max / KEPT_FOR_SMALL
        } else {
            0
        };
        if self.arena.len() >= (max - kept) as usize {
            return None;
        }
        let id = self.arena.insert(Class {
            shape,
            rows: 0,
            state: State::Creating,
            since: IN_USE,
            noted: draft,
        });
        let number = arena_number(id);
        self.index.insert(shape, number);
        Some(number)
    }

    /// The usable class most like a shape that cannot be had: with fewer slots.
    pub(crate) fn next_smaller(&self, shape: Shape, now: u64) -> Option<u32> {
        let is_usable = |class: &Class| {
            let other = class.shape;
            matches!(class.state, State::Ready(from) if from <= now)
                && (other.kind, other.algorithm) == (shape.kind, shape.algorithm)
                && (1..shape.slots).contains(&other.slots)
        };
        let usable = self.iter().filter(|(_, class)| is_usable(class));
        usable
            .max_by_key(|(_, class)| class.shape.slots)
            .map(|(number, _)| number)
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
