//! Classes: the shapes frontends have in common. Each has a chain, reached by its row in a verdict
//! map, which exists before the first frontend leads there and long after the last one did.

use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use super::arena_number;
use super::timeouts::{DEFAULT, LONGEST, Timeouts};
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
    /// Clients stick to endpoints.
    pub(crate) sticky: Option<Stickiness>,
}

/// How clients stick to endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Stickiness {
    /// For so long after their last connection.
    pub(crate) seconds: u32,
    /// The frontends are node ports; otherwise they have addresses.
    pub(crate) node_ports: bool,
    /// They lead to groups of this node's endpoints.
    pub(crate) local: bool,
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
        let (kind, slots) = (self.kind.name(), self.slots);
        let Some(Stickiness {
            seconds,
            node_ports,
            local,
        }) = self.sticky
        else {
            return numbered(format!("{kind}-{slots}"), suffix);
        };
        let kind = match self.kind {
            Kind::Internal if local => INTERNAL_LOCAL,
            _ => kind,
        };
        let stem = STICKY_STEMS[usize::from(node_ports)];
        numbered(format!("{stem}{kind}-{slots}-{seconds}"), suffix)
    }

    /// The time in the name of the chain in which its clients are remembered.
    pub(crate) fn stick(self) -> Option<u32> {
        let sticky = self.sticky.filter(|_| self.slots > 0)?;
        Some(sticky.seconds)
    }

    /// Do its frontends need an endpoint on this node, and have none?
    pub(crate) const fn is_unserved(self) -> bool {
        match self.kind {
            Kind::Drop => true,
            Kind::ExternalLocal => self.slots == 0,
            Kind::Internal | Kind::External | Kind::Shortcut => false,
        }
    }

    /// One of few that are much like it.
    pub(crate) fn coarse(self) -> Self {
        let slots = self.slots.min(SMALL);
        let sticky = self.sticky.map(|sticky| Stickiness {
            seconds: if sticky.seconds <= DEFAULT {
                DEFAULT
            } else {
                LONGEST
            },
            ..sticky
        });
        Self {
            slots: slots.checked_ilog2().map_or(0, |bits| 1 << bits),
            sticky,
            ..self
        }
    }
}

/// Name of the chain in which clients are remembered for so long.
pub(crate) fn stick_chain(seconds: u32, suffix: u32) -> Name {
    numbered(format!("{STICK}-{seconds}"), suffix)
}

/// The suffix that a name of a class's chain ends in; `None` if it is no such name.
pub(crate) fn suffix_of(name: &str) -> Option<u32> {
    let after = |stem: &str, count: usize| {
        let numbers = name.strip_prefix(stem)?.strip_prefix('-')?;
        let mut numbers = numbers.split('-').map(str::parse::<u32>);
        for _ in 0..count {
            numbers.next()?.ok()?;
        }
        numbers.next().map_or(Some(0), Result::ok)
    };
    let of_kind = |kind: &str| {
        let sticky = STICKY_STEMS.map(|stem| after(&format!("{stem}{kind}"), 2));
        after(kind, 1).or_else(|| sticky.into_iter().flatten().next())
    };
    let kinds = Kind::ALL.into_iter().map(Kind::name);
    let class = kinds.chain([INTERNAL_LOCAL]).find_map(of_kind);
    class.or_else(|| after(STICK, 1))
}

/// Beginnings of the names of classes whose clients stick: of addresses, and of node ports.
const STICKY_STEMS: [&str; 2] = ["sticky-", "sticky-nodeport-"];
const STICK: &str = "stick";
/// [`Kind::Internal`] in names of classes whose clients stick, if the group is one of this node's
/// endpoints.
const INTERNAL_LOCAL: &str = "internal-local";

fn numbered(name: String, suffix: u32) -> Name {
    match suffix {
        0 => name.into(),
        suffix => format!("{name}-{suffix}").into(),
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

/// Shapes with up to so many slots can have any number, others leave some to them: there is always a
/// class for a Service whose own shape is refused.
const SMALL: u32 = 16;
/// One number in so many is left to them, and to coarse ones whose clients stick.
const KEPT_FOR_SMALL: u32 = 16;
/// Of these, one number in so many of all is left to those whose clients do not stick.
const KEPT_FOR_PLAIN: u32 = 32;

/// All classes, by number.
#[derive(Debug, Default)]
pub(crate) struct Classes {
    arena: Arena<Class>,
    index: HashMap<Shape, u32>,
    pub(crate) timeouts: Timeouts,
    /// Classes that went out of use, oldest first; some are in use again.
    pub(crate) idle: VecDeque<u32>,
}

impl Classes {
    /// Classes with given numbers; `None` if they contradict each other.
    pub(crate) fn numbered(classes: Vec<(u32, Class)>) -> Option<Self> {
        let mut index = HashMap::new();
        let mut timeouts = Timeouts::default();
        for (number, class) in &classes {
            if *number == 0 || index.insert(class.shape, *number).is_some() {
                return None;
            }
            if let Some(sticky) = class.shape.sticky {
                timeouts.add(sticky.seconds);
            }
        }
        let classes = classes
            .into_iter()
            .map(|(number, class)| (number - 1, class));
        let arena = Arena::numbered(classes, Route::MAX_CLASS - 1)?;
        Some(Self {
            arena,
            index,
            timeouts,
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
        let kept = match shape.sticky {
            Some(_) if shape == shape.coarse() => max / KEPT_FOR_PLAIN,
            None if shape.slots <= SMALL => 0,
            _ => max / KEPT_FOR_SMALL,
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
        if let Some(sticky) = shape.sticky {
            self.timeouts.add(sticky.seconds);
        }
        Some(number)
    }

    /// The class most like a shape that cannot be had, usable now or soon: with fewer slots, but no
    /// fewer than `least`; clients stick at least as long, or else as long as can be.
    pub(crate) fn most_like(&self, shape: Shape, least: u32) -> Option<u32> {
        let is_usable = |class: &Class| {
            let other = class.shape;
            let way = |shape: Shape| shape.sticky.map(|sticky| (sticky.node_ports, sticky.local));
            matches!(class.state, State::Ready(_) | State::Creating)
                && (other.kind, other.algorithm) == (shape.kind, shape.algorithm)
                && way(other) == way(shape)
                && (least.max(1)..=shape.slots).contains(&other.slots)
        };
        let seconds = |shape: Shape| shape.sticky.map_or(0, |sticky| sticky.seconds);
        let shortfall = |class: &Class| seconds(shape).saturating_sub(seconds(class.shape));
        let excess = |class: &Class| seconds(class.shape).saturating_sub(seconds(shape));
        let usable = self.iter().filter(|(_, class)| is_usable(class));
        usable
            .min_by_key(|(_, class)| {
                let slots = core::cmp::Reverse(class.shape.slots);
                (shortfall(class), excess(class), slots)
            })
            .map(|(number, _)| number)
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(class) = number.checked_sub(1).and_then(|id| self.arena.remove(id)) {
            self.index.remove(&class.shape);
            if let Some(sticky) = class.shape.sticky {
                self.timeouts.remove(sticky.seconds);
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Class)> {
        self.arena
            .iter()
            .map(|(id, class)| (arena_number(id), class))
    }

    /// Names of all chains: those of classes, and those in which clients are remembered.
    pub(crate) fn chains(&self, suffix: u32) -> impl Iterator<Item = Name> {
        let classes = self.iter().map(move |(_, class)| class.shape.chain(suffix));
        let sticks = self.sticks().into_iter();
        classes.chain(sticks.map(move |seconds| stick_chain(seconds, suffix)))
    }

    /// For how long clients are remembered, in different chains.
    pub(crate) fn sticks(&self) -> BTreeSet<u32> {
        let sticks = self.iter().map(|(_, class)| class.shape.stick());
        sticks.flatten().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.arena.len()
    }
}
