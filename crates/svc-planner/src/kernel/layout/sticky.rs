//! Chains of classes whose clients stick to endpoints.
//!
//! ```text
//! 1  scratch = client . frontend → map client-affinity     the endpoint's number
//!    that row's lifetime starts anew
//!    the number in this kind of group: a bit is set or cleared
//!    scratch → map sticky-endpoints, scratch = 0, dnat
//! 2  a number of an endpoint that is gone: scratch = group, read again
//! 3  scratch . random 0…n-1 → map sticky-slots             a new endpoint's number
//!    goto stick-T
//! 4  the same with slot 0                                  (only if the slot is gone)
//! 5  scratch . slot 0 → map endpoints, dnat                (only if affinity was turned off meanwhile)
//! 6  drop
//! ```
//! A rule ends where a lookup misses. No number of a group is one of an endpoint, so that what a miss
//! leaves in the scratch leads nowhere. In `stick-T` the client is remembered, then translated through
//! `chosen-endpoints`, where an endpoint stays a while after its end for whoever has chosen it.
//! `sticky-endpoints` loses it at once: its clients choose anew with their next connection.

use super::Layout;
use crate::kernel::class::{Shape, Stickiness, stick_chain};
use crate::kernel::set::SetId;
use crate::plan::{EndpointId, Field, Name, Route, Rule, Statement};
use crate::policy::traffic_policy::Kind;

/// Set in keys of `shortcuts` for node ports of groups whose clients stick.
pub(crate) const NODE_PORT_SHORTCUT: u32 = EndpointId::FIRST.0;

/// What clients are remembered by.
fn client() -> Vec<Field> {
    vec![Field::Saddr, Field::Daddr, Field::L4Proto, Field::Dport]
}

fn scratch() -> Field {
    Field::Scratch { mask: u32::MAX }
}

impl Layout<'_> {
    /// Rules behind those that mark and those of shortcuts.
    pub(super) fn sticky_rules(
        &self,
        shape: Shape,
        sticky: Stickiness,
        push: &mut impl FnMut(Vec<Statement>),
    ) {
        push(vec![
            Statement::ScratchFromMap {
                key: client(),
                map: self.name(SetId::ClientAffinity),
            },
            self.stick(sticky.seconds),
            if sticky.local {
                let bits = EndpointId::LOCAL;
                Statement::ScratchOr { bits }
            } else {
                let mask = !EndpointId::LOCAL;
                Statement::ScratchMask { mask }
            },
            Statement::Dnat {
                key: vec![scratch()],
                map: self.name(SetId::StickyEndpoints),
            },
        ]);
        push(self.reload(shape, sticky));
        for slots in [shape.slots, 1] {
            push(vec![
                Statement::ScratchFromMap {
                    key: vec![
                        scratch(),
                        Field::Random {
                            modulus: slots,
                            offset: 0,
                        },
                    ],
                    map: self.name(SetId::StickySlots),
                },
                Statement::Goto(stick_chain(sticky.seconds, self.suffix)),
            ]);
        }
        push(vec![self.dnat(1)]);
    }

    /// Rules of the chain that remembers what was chosen. Each statement that changes the map is in
    /// a rule of its own: one that fails costs the client's affinity, not its connection.
    pub(crate) fn stick_rules(&self, seconds: u32, chain: &Name) -> Vec<Rule> {
        let rules = [
            // A row that is there keeps its data when it is updated.
            Statement::Unstick {
                key: client(),
                map: self.name(SetId::ClientAffinity),
            },
            self.stick(seconds),
            Statement::Dnat {
                key: vec![scratch()],
                map: self.name(SetId::ChosenEndpoints),
            },
            Statement::Drop,
        ];
        let rule = |statement| Rule {
            chain: chain.clone(),
            statements: vec![statement],
            comment: None,
        };
        rules.map(rule).into()
    }

    fn stick(&self, seconds: u32) -> Statement {
        Statement::Stick {
            key: client(),
            map: self.name(SetId::ClientAffinity),
            seconds,
        }
    }

    /// Reads the group again if the scratch holds an endpoint.
    fn reload(&self, shape: Shape, sticky: Stickiness) -> Vec<Statement> {
        let (key, map) = if sticky.node_ports {
            (vec![Field::L4Proto, Field::Dport], SetId::NodePorts)
        } else {
            let key = vec![Field::Daddr, Field::L4Proto, Field::Dport];
            (key, SetId::Services)
        };
        let mask = || Statement::ScratchMask {
            mask: Route::GROUP_MASK,
        };
        let mut statements = vec![
            Statement::ScratchSet {
                mask: Route::CLASS_MASK,
            },
            Statement::ScratchFromMap {
                key,
                map: self.name(map),
            },
            mask(),
        ];
        if shape.kind == Kind::Shortcut {
            statements.push(Statement::ScratchFromMap {
                key: vec![scratch()],
                map: self.name(SetId::Shortcuts),
            });
            statements.push(mask());
        }
        statements
    }
}
