//! How not to do it: the number of endpoints and the slot changed in one batch, nothing behind the
//! first lookup. Each lookup of a packet may see a newer generation than the one before, so some
//! flows pick a slot that is already gone.

use anyhow::Result;
use nft_batch::SealedBatch;
use svc_planner::{
    object::Protocol,
    plan::{
        BaseChain, Chain, ChainKind, DataType, Datum, Field, Hook, Key, KeyType, Name, Route, Row,
        Rule, Set, SetChange, Statement, Transaction,
    },
};

use super::{Arena, PORT};
use crate::committer::{Committer, encode};

const GROUP: u32 = 1;

/// The control: see the module.
#[derive(Debug)]
pub struct Control {
    committer: Committer,
    grow: SealedBatch,
    shrink: SealedBatch,
}

impl Control {
    /// Loads one Service with two endpoints.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn new(arena: &Arena) -> Result<Self> {
        let mut committer = Committer::open(arena.topology.node())?;
        committer.commit(&table(arena)?)?;
        let grow = encode(&change(arena, 1, 2)?)?;
        let shrink = encode(&change(arena, 2, 1)?)?;
        Ok(Self {
            committer,
            grow,
            shrink,
        })
    }

    /// Two endpoints to one, and back.
    ///
    /// # Errors
    /// When a batch is not committed.
    pub fn cycle(&mut self) -> Result<()> {
        self.committer.commit_encoded(&mut self.shrink)?;
        self.committer.commit_encoded(&mut self.grow)
    }
}

fn route(class: u32) -> Result<Route> {
    Route::new(class, GROUP).ok_or_else(|| anyhow::anyhow!("class {class} is out of range"))
}

fn service(arena: &Arena) -> Key {
    Key::Frontend {
        address: arena.service(),
        protocol: Protocol::Udp,
        port: PORT,
    }
}

fn slot(arena: &Arena, slot: u8) -> Row {
    Row {
        key: Key::Slot {
            group: GROUP,
            slot: u32::from(slot),
        },
        datum: Datum::Endpoint {
            address: arena.pod(slot + 1),
            port: PORT,
        },
    }
}

/// From a number of endpoints to another, all at once.
fn change(arena: &Arena, from: u32, to: u32) -> Result<Transaction> {
    let second = slot(arena, 1);
    let (delete, add) = if to < from {
        (vec![second.key], vec![])
    } else {
        (vec![], vec![second])
    };
    let mut transaction = Transaction::new(arena.family());
    transaction.elements = vec![
        SetChange {
            set: "services".into(),
            key: KeyType::Frontend,
            data: DataType::Route,
            delete: vec![service(arena)],
            add: vec![Row {
                key: service(arena),
                datum: Datum::Route(route(to)?),
            }],
        },
        SetChange {
            set: "endpoints".into(),
            key: KeyType::Slot,
            data: DataType::Endpoint,
            delete,
            add,
        },
    ];
    Ok(transaction)
}

fn table(arena: &Arena) -> Result<Transaction> {
    let set = |name: &str, key, data| Set {
        name: name.into(),
        key,
        data,
        interval: false,
        dynamic: false,
        size: Some(64),
    };
    let chain = |name: &str, base| Chain {
        name: name.into(),
        base,
    };
    let rule = |chain: &str, statements| Rule {
        chain: chain.into(),
        statements,
        comment: None,
    };
    let class_chain = |class: u32| -> Name { format!("class-{class}").into() };
    let base = |hook| {
        Some(BaseChain {
            kind: ChainKind::Nat,
            hook,
            priority: -100,
        })
    };

    let mut transaction = Transaction::new(arena.family());
    transaction.add_table = true;
    transaction.add_sets = vec![
        set("services", KeyType::Frontend, DataType::Route),
        set("dispatch", KeyType::Class, DataType::Verdict),
        set("endpoints", KeyType::Slot, DataType::Endpoint),
    ];
    transaction.add_chains = vec![
        chain("nat-prerouting", base(Hook::Prerouting)),
        chain("nat-output", base(Hook::Output)),
        chain("class-1", None),
        chain("class-2", None),
    ];
    for hooked in ["nat-prerouting", "nat-output"] {
        transaction.add_rules.push(rule(
            hooked,
            vec![
                Statement::ScratchFromMap {
                    key: vec![Field::Daddr, Field::L4Proto, Field::Dport],
                    map: "services".into(),
                },
                Statement::VerdictMap {
                    key: vec![Field::Scratch {
                        mask: Route::CLASS_MASK,
                    }],
                    map: "dispatch".into(),
                },
            ],
        ));
    }
    let mut classes = Vec::new();
    for slots in [1, 2] {
        let name = class_chain(slots);
        classes.push(Row {
            key: Key::Class(slots << Route::GROUP_BITS),
            datum: Datum::Goto(name.clone()),
        });
        transaction.add_rules.push(Rule {
            chain: name.clone(),
            statements: vec![Statement::ScratchMask {
                mask: Route::GROUP_MASK,
            }],
            comment: None,
        });
        transaction.add_rules.push(Rule {
            chain: name,
            statements: vec![Statement::Dnat {
                key: vec![
                    Field::Scratch { mask: u32::MAX },
                    Field::Random {
                        modulus: slots,
                        offset: 0,
                    },
                ],
                map: "endpoints".into(),
            }],
            comment: None,
        });
    }
    let rows = |set: &str, key, data, add| SetChange {
        set: set.into(),
        key,
        data,
        delete: Vec::new(),
        add,
    };
    transaction.elements = vec![
        rows("dispatch", KeyType::Class, DataType::Verdict, classes),
        rows(
            "endpoints",
            KeyType::Slot,
            DataType::Endpoint,
            vec![slot(arena, 0), slot(arena, 1)],
        ),
        rows(
            "services",
            KeyType::Frontend,
            DataType::Route,
            vec![Row {
                key: service(arena),
                datum: Datum::Route(route(2)?),
            }],
        ),
    ];
    Ok(transaction)
}
