//! Hand-written transactions: what is refused, what packets do, what the checker finds.

mod evaluating;
mod quiet;
mod refusing;

use core::net::IpAddr;

use super::*;
use crate::object::Protocol;
use crate::plan::{
    BaseChain, Chain, ChainKind, DataType, Datum, Family, Field, Hook, Key, KeyType, Name, Route,
    Row, Rule, Set, SetChange, Statement, Transaction,
};

const ADDRESS: &str = "10.96.0.1";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn new() -> Transaction {
    Transaction::new(Family::Ipv4)
}

fn map(name: &str, key: KeyType, data: DataType) -> Set {
    Set {
        name: Name::from(name),
        key,
        data,
        interval: false,
        dynamic: false,
        size: Some(64),
    }
}

fn chain(name: &str) -> Chain {
    Chain {
        name: Name::from(name),
        base: None,
    }
}

fn base(name: &str, kind: ChainKind, hook: Hook, priority: i32) -> Chain {
    let base = Some(BaseChain {
        kind,
        hook,
        priority,
    });
    Chain {
        base,
        ..chain(name)
    }
}

fn rule(chain: &str, statements: impl IntoIterator<Item = Statement>) -> Rule {
    Rule {
        chain: Name::from(chain),
        statements: statements.into_iter().collect(),
        comment: None,
    }
}

fn jump(to: &str) -> Statement {
    Statement::Jump(Name::from(to))
}

fn frontend(text: &str) -> Key {
    Key::Frontend {
        address: address(text),
        protocol: Protocol::Tcp,
        port: 80,
    }
}

fn service(text: &str, class: u32, group: u32) -> Row {
    let datum = Datum::Route(Route::new(class, group).unwrap());
    Row {
        key: frontend(text),
        datum,
    }
}

const fn slot(group: u32, slot: u32) -> Key {
    Key::Slot { group, slot }
}

fn endpoint(group: u32, number: u32, text: &str) -> Row {
    Row {
        key: slot(group, number),
        datum: Datum::Endpoint {
            address: address(text),
            port: 8080,
        },
    }
}

fn verdict(class: u32, chain: &str) -> Row {
    Row {
        key: Key::Class(class << Route::GROUP_BITS),
        datum: Datum::Goto(Name::from(chain)),
    }
}

fn change(set: &str, delete: Vec<Key>, add: Vec<Row>) -> SetChange {
    let (key, data) = match set {
        "services" => (KeyType::Frontend, DataType::Route),
        "dispatch" => (KeyType::Class, DataType::Verdict),
        "endpoints" => (KeyType::Slot, DataType::Endpoint),
        "hairpin-connections" => (KeyType::Hairpin, DataType::None),
        "service-cidrs" => (KeyType::Address, DataType::None),
        other => panic!("no set {other} in these tests"),
    };
    SetChange {
        set: Name::from(set),
        key,
        data,
        delete,
        add,
    }
}

fn dnat(modulus: u32) -> Statement {
    Statement::Dnat {
        key: vec![
            Field::Scratch { mask: u32::MAX },
            Field::Random { modulus, offset: 0 },
        ],
        map: Name::from("endpoints"),
    }
}

/// Rules of a class chain with `slots` slots.
fn class_rules(chain: &str, slots: u32) -> Vec<Rule> {
    let mask = Route::GROUP_MASK;
    vec![
        rule(chain, [Statement::ScratchMask { mask }]),
        rule(chain, [dnat(slots)]),
        rule(chain, [dnat(1)]),
        rule(chain, [Statement::Drop]),
    ]
}

/// The design's skeleton with classes of one and two slots.
fn skeleton() -> Transaction {
    let daddr = || vec![Field::Daddr];
    let class = vec![Field::Scratch {
        mask: Route::CLASS_MASK,
    }];
    let hairpin = vec![Field::Saddr, Field::Daddr, Field::L4Proto, Field::Dport];
    let mut cidrs = map("service-cidrs", KeyType::Address, DataType::None);
    cidrs.interval = true;
    let mut add_rules = vec![
        rule("nat-prerouting", [jump("services")]),
        rule("nat-output", [jump("services")]),
        rule(
            "services",
            [
                Statement::ScratchFromMap {
                    key: vec![Field::Daddr, Field::L4Proto, Field::Dport],
                    map: Name::from("services"),
                },
                Statement::VerdictMap {
                    key: class,
                    map: Name::from("dispatch"),
                },
            ],
        ),
        rule(
            "nat-postrouting",
            [
                Statement::CtStatusDnat,
                Statement::InSet {
                    key: hairpin,
                    set: Name::from("hairpin-connections"),
                    invert: false,
                },
                Statement::Masquerade,
            ],
        ),
        rule(
            "filter-forward",
            [
                Statement::CtStateNew,
                Statement::InSet {
                    key: daddr(),
                    set: Name::from("service-cidrs"),
                    invert: false,
                },
                Statement::Reject,
            ],
        ),
    ];
    add_rules.extend(class_rules("class-1", 1));
    add_rules.extend(class_rules("class-2", 2));
    Transaction {
        add_table: true,
        add_sets: vec![
            map("services", KeyType::Frontend, DataType::Route),
            map("endpoints", KeyType::Slot, DataType::Endpoint),
            map("dispatch", KeyType::Class, DataType::Verdict),
            map("hairpin-connections", KeyType::Hairpin, DataType::None),
            cidrs,
        ],
        add_chains: vec![
            base("nat-prerouting", ChainKind::Nat, Hook::Prerouting, -100),
            base("nat-output", ChainKind::Nat, Hook::Output, -100),
            base("nat-postrouting", ChainKind::Nat, Hook::Postrouting, 100),
            base("filter-forward", ChainKind::Filter, Hook::Forward, 0),
            chain("services"),
            chain("class-1"),
            chain("class-2"),
        ],
        elements: vec![
            change(
                "dispatch",
                vec![],
                vec![verdict(1, "class-1"), verdict(2, "class-2")],
            ),
            change(
                "service-cidrs",
                vec![],
                vec![Row {
                    key: Key::Prefix("10.96.0.0/16".parse().unwrap()),
                    datum: Datum::None,
                }],
            ),
        ],
        add_rules,
        ..new()
    }
}

fn elements(changes: Vec<SetChange>) -> Transaction {
    Transaction {
        elements: changes,
        ..new()
    }
}

/// The skeleton at time 0, and the Service 10.96.0.1:80 in group 1 with two endpoints.
fn two_endpoints() -> Kernel {
    let mut kernel = Kernel::new();
    kernel.apply(&skeleton(), at(0)).unwrap();
    let service = elements(vec![
        change(
            "endpoints",
            vec![],
            vec![endpoint(1, 0, "10.0.0.1"), endpoint(1, 1, "10.0.0.2")],
        ),
        change("services", vec![], vec![service(ADDRESS, 2, 1)]),
    ]);
    kernel.apply(&service, at(100)).unwrap();
    kernel
}

const fn at(milliseconds: u64) -> core::time::Duration {
    core::time::Duration::from_millis(milliseconds)
}

fn client() -> Packet {
    Packet::arriving(
        "eth0",
        address("192.0.2.7"),
        address(ADDRESS),
        Protocol::Tcp,
        80,
    )
}

fn host() -> Host {
    Host::new([address("192.168.0.2")])
}
