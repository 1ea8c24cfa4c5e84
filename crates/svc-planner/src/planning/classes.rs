//! Getting classes ready before rows lead to them.

use super::Work;
use super::draft::{Due, Undo};
use crate::clock::{IN_USE, PENDING};
use crate::kernel::class::{Class, Shape, State, stick_chain};
use crate::kernel::set::SetId;
use crate::plan::{Chain, Datum, Key, Name, Route};
use crate::policy::traffic_policy::Kind;
use crate::report::Reason;

/// Can rows lead to a class?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Availability {
    /// Yes, to this number.
    Ready(u32),
    /// Later.
    Later,
    /// All numbers are taken.
    Exhausted,
}

impl Work<'_> {
    /// Asks for a class; one that is missing is created with this transaction.
    pub(super) fn class(&mut self, shape: Shape) -> Availability {
        let Some(number) = self.kernel.classes.find(shape) else {
            let Some(number) =
                self.kernel
                    .classes
                    .insert(shape, self.config.max_classes, self.draft.number)
            else {
                return Availability::Exhausted;
            };
            self.draft.undo.push(Undo::ClassAdded(number));
            self.create_chain(shape);
            self.add_class_row(number, shape);
            return Availability::Later;
        };
        match self.kernel.classes.at(number).map(|class| class.state) {
            Some(State::Ready(from)) if from <= self.now => Availability::Ready(number),
            Some(State::Rowless) => {
                self.edit_class(number, |class| class.state = State::Creating);
                self.add_class_row(number, shape);
                Availability::Later
            }
            _ => Availability::Later,
        }
    }

    /// As [`class`](Self::class), or a class much like it if it cannot be had: some of the endpoints
    /// are better than none, and clients may stick longer. Says what is lacking then.
    pub(super) fn class_or_like(&mut self, shape: Shape) -> (Availability, Option<Reason>) {
        let own = self.class(shape);
        if own != Availability::Exhausted {
            return (own, None);
        }
        let like = |work: &Self, least| {
            let classes = &work.kernel.classes;
            let Some(number) = classes.most_like(shape, least) else {
                return Availability::Exhausted;
            };
            match classes.at(number).map(|class| class.state) {
                Some(State::Ready(from)) if from <= work.now => Availability::Ready(number),
                _ => Availability::Later,
            }
        };
        let mut found = Availability::Exhausted;
        if shape.sticky.is_some() {
            found = like(self, shape.slots.div_ceil(2));
            if found == Availability::Exhausted {
                found = self.class(shape.coarse());
            }
        }
        if found == Availability::Exhausted {
            found = like(self, 1);
        }
        let Availability::Ready(number) = found else {
            return (found, None);
        };
        let other = self.kernel.classes.at(number).map(|class| class.shape);
        let reason = match (other, shape.sticky) {
            (
                Some(Shape {
                    slots,
                    sticky: Some(used),
                    ..
                }),
                Some(asked),
            ) if slots == shape.slots => Reason::AffinityTimeout {
                asked: asked.seconds,
                used: used.seconds,
            },
            _ => Reason::NoClass { slots: shape.slots },
        };
        (found, Some(reason))
    }

    /// Changes a class, so that it can be taken back, and notes when it goes out of use.
    pub(super) fn edit_class(&mut self, number: u32, edit: impl FnOnce(&mut Class)) {
        let Some(class) = self.kernel.classes.at_mut(number) else {
            return;
        };
        if class.noted != self.draft.number {
            self.draft.undo.push(Undo::Class {
                number,
                class: *class,
            });
            class.noted = self.draft.number;
        }
        edit(class);
        if class.rows > 0 {
            class.since = IN_USE;
        } else if class.since == IN_USE {
            class.since = PENDING;
            self.draft.released.push(Due::Class(number));
        }
    }

    /// Deletes the row of a class that has been out of use for long.
    pub(super) fn delete_class_row(&mut self, number: u32, shape: Shape) {
        self.draft.delete(row_set(shape), 0, class_key(number));
        if shape.is_unserved() {
            self.draft.delete(SetId::DropClasses, 0, class_key(number));
        }
        self.edit_class(number, |class| {
            class.state = State::Rowless;
            class.since = PENDING;
        });
        self.draft.released.push(Due::Class(number));
    }

    /// Deletes the chain of a class whose row is gone.
    pub(super) fn delete_class_chain(&mut self, number: u32, shape: Shape) {
        self.delete_chain(shape.chain(self.kernel.chain_suffix));
        self.edit_class(number, |class| class.state = State::Deleting);
        self.draft.deleted_classes.push(number);
        if let Some(seconds) = shape.stick() {
            let mut others = self.sticking(seconds);
            if others.all(|class| class.state == State::Deleting) {
                drop(others);
                self.delete_chain(stick_chain(seconds, self.kernel.chain_suffix));
            }
        }
    }

    fn delete_chain(&mut self, chain: Name) {
        self.draft.transaction.flush_chains.push(chain.clone());
        self.draft.transaction.delete_chains.push(chain);
    }

    /// Makes sure that clients can be remembered for so long, now that a class asks for it.
    fn create_stick_chain(&mut self, seconds: u32) {
        let name = stick_chain(seconds, self.kernel.chain_suffix);
        let is_first = self.sticking(seconds).nth(1).is_none();
        let transaction = &mut self.draft.transaction;
        if !is_first {
            // It may be about to go.
            transaction.flush_chains.retain(|other| *other != name);
            transaction.delete_chains.retain(|other| *other != name);
            return;
        }
        let rules = self.layout().stick_rules(seconds, &name);
        let transaction = &mut self.draft.transaction;
        transaction.add_chains.push(Chain { name, base: None });
        transaction.add_rules.extend(rules);
    }

    /// Classes whose clients are remembered for so long.
    fn sticking(&self, seconds: u32) -> impl Iterator<Item = &Class> {
        let classes = self.kernel.classes.iter().map(|(_, class)| class);
        classes.filter(move |class| class.shape.stick() == Some(seconds))
    }

    fn create_chain(&mut self, shape: Shape) {
        if let Some(seconds) = shape.stick() {
            self.create_stick_chain(seconds);
        }
        let name = shape.chain(self.kernel.chain_suffix);
        let rules = self.class_rules(shape, &name);
        self.draft
            .transaction
            .add_chains
            .push(Chain { name, base: None });
        self.draft.transaction.add_rules.extend(rules);
    }

    fn add_class_row(&mut self, number: u32, shape: Shape) {
        let chain = shape.chain(self.kernel.chain_suffix);
        self.draft
            .add(row_set(shape), 0, class_key(number), Datum::Goto(chain));
        if shape.is_unserved() {
            self.draft
                .add(SetId::DropClasses, 0, class_key(number), Datum::None);
        }
        self.draft.created_classes.push(number);
    }
}

/// The verdict map a class has its row in.
pub(crate) const fn row_set(shape: Shape) -> SetId {
    match shape.kind {
        Kind::Shortcut => SetId::ShortcutDispatch,
        _ => SetId::Dispatch,
    }
}

/// The key of a class's row: the class as it sits in a [`Route`].
pub(crate) const fn class_key(number: u32) -> Key {
    Key::Class(number << Route::GROUP_BITS)
}
