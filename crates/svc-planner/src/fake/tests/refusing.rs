use super::*;

fn prefix(text: &str) -> Row {
    Row {
        key: Key::Prefix(text.parse().unwrap()),
        datum: Datum::None,
    }
}

/// Applies to a kernel with two endpoints, expects a refusal and that nothing changed.
#[track_caller]
fn refused(transaction: &Transaction) -> (Op, Errno) {
    let mut kernel = two_endpoints();
    let before = state(&kernel);
    let generation = kernel.generation();
    let Err(ApplyError::Rejected(rejection)) = kernel.apply(transaction, at(200)) else {
        panic!("accepted:\n{transaction}");
    };
    assert_eq!(kernel.generation(), generation);
    assert_eq!(state(&kernel), before, "a trace of {rejection}");
    assert!(!rejection.reason.is_empty());
    (rejection.op, rejection.errno)
}

/// Everything in the table, as text.
fn state(kernel: &Kernel) -> String {
    let mut text = format!("{}\n", kernel.has_table(Family::Ipv4));
    for set in kernel.sets(Family::Ipv4) {
        let rows = kernel.rows(Family::Ipv4, &set.name);
        assert_eq!(rows.len(), kernel.row_count(Family::Ipv4, &set.name));
        text.push_str(&format!("{set:?} {rows:?}\n"));
    }
    for (name, base) in kernel.chains(Family::Ipv4) {
        let rules = kernel.rules(Family::Ipv4, &name);
        text.push_str(&format!("{name} {base:?} {rules:?}\n"));
    }
    text
}

#[test]
fn unknown_objects() {
    let name = || vec![Name::from("nowhere")];
    let cases = [
        (
            Transaction {
                flush_chains: name(),
                ..new()
            },
            Op::FlushChain(0),
        ),
        (
            Transaction {
                replace_chains: name(),
                ..new()
            },
            Op::ReplaceChain(0),
        ),
        (
            Transaction {
                delete_chains: name(),
                ..new()
            },
            Op::DeleteChain(0),
        ),
        (
            Transaction {
                delete_sets: name(),
                ..new()
            },
            Op::DeleteSet(0),
        ),
        (
            Transaction {
                add_rules: vec![rule("nowhere", [])],
                ..new()
            },
            Op::AddRule(0),
        ),
        (
            Transaction {
                add_rules: vec![rule("services", [jump("nowhere")])],
                ..new()
            },
            Op::AddRule(0),
        ),
        (
            elements(vec![SetChange {
                set: Name::from("nowhere"),
                ..change("services", vec![frontend(ADDRESS)], vec![])
            }]),
            Op::Elements(0),
        ),
        (
            elements(vec![change(
                "dispatch",
                vec![],
                vec![verdict(9, "nowhere")],
            )]),
            Op::AddElement {
                change: 0,
                index: 0,
            },
        ),
        (
            elements(vec![change(
                "services",
                vec![frontend("10.96.0.9")],
                vec![],
            )]),
            Op::DeleteElement {
                change: 0,
                index: 0,
            },
        ),
    ];
    for (transaction, op) in cases {
        assert_eq!(refused(&transaction), (op, Errno::Enoent), "{transaction}");
    }
}

#[test]
fn nothing_works_without_a_table() {
    let mut kernel = Kernel::new();
    let transaction = Transaction {
        add_chains: vec![chain("services")],
        ..new()
    };
    let error = kernel.apply(&transaction, at(0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ip: add_chains[0]: ENOENT: no table kube-proxy"
    );
    let delete = Transaction {
        delete_table: true,
        ..new()
    };
    kernel.apply(&delete, at(0)).unwrap_err();
    assert_eq!(kernel.generation(), 1);
}

#[test]
fn rows_that_exist() {
    // A row with the same data is no error.
    let same = elements(vec![change(
        "services",
        vec![],
        vec![service(ADDRESS, 2, 1)],
    )]);
    two_endpoints().apply(&same, at(200)).unwrap();
    let other = elements(vec![change(
        "services",
        vec![],
        vec![service("10.96.0.2", 2, 1), service(ADDRESS, 1, 1)],
    )]);
    let op = Op::AddElement {
        change: 0,
        index: 1,
    };
    assert_eq!(refused(&other), (op, Errno::Eexist));
    let replaced = elements(vec![change(
        "services",
        vec![frontend(ADDRESS)],
        vec![service(ADDRESS, 1, 1)],
    )]);
    two_endpoints().apply(&replaced, at(200)).unwrap();
}

#[test]
fn full_sets() {
    let rows = |range: core::ops::Range<u32>| {
        range
            .map(|n| endpoint(7, n, "10.0.0.9"))
            .collect::<Vec<_>>()
    };
    let fits = elements(vec![change("endpoints", vec![], rows(0..62))]);
    let mut kernel = two_endpoints();
    kernel.apply(&fits, at(200)).unwrap();
    assert_eq!(kernel.row_count(Family::Ipv4, "endpoints"), 64);
    // A deletion makes room in the same batch.
    let swap = elements(vec![change("endpoints", vec![slot(7, 0)], rows(62..63))]);
    kernel.apply(&swap, at(300)).unwrap();
    let (op, errno) = refused(&elements(vec![change("endpoints", vec![], rows(0..63))]));
    assert_eq!(errno, Errno::Enfile);
    assert_eq!(
        op,
        Op::AddElement {
            change: 0,
            index: 62
        }
    );
}

#[test]
fn overlapping_intervals() {
    let cidrs = |rows| elements(vec![change("service-cidrs", vec![], rows)]);
    for inside_or_around in ["10.96.4.0/24", "10.0.0.0/8", "10.96.0.1/32"] {
        let (_, errno) = refused(&cidrs(vec![prefix(inside_or_around)]));
        assert_eq!(errno, Errno::Eexist, "{inside_or_around}");
    }
    let mut kernel = two_endpoints();
    kernel
        .apply(
            &cidrs(vec![prefix("10.97.0.0/16"), prefix("10.96.0.0/16")]),
            at(200),
        )
        .unwrap();
    let (_, errno) = refused(&cidrs(vec![prefix("10.97.0.1/16")]));
    assert_eq!(errno, Errno::Einval);
}

#[test]
fn chains_in_use() {
    let delete = |name: &str| Transaction {
        delete_chains: vec![Name::from(name)],
        ..new()
    };
    // By a verdict row, by a rule.
    assert_eq!(
        refused(&delete("class-1")),
        (Op::DeleteChain(0), Errno::Ebusy)
    );
    assert_eq!(
        refused(&delete("services")),
        (Op::DeleteChain(0), Errno::Ebusy)
    );
    let with_its_row = Transaction {
        elements: vec![change(
            "dispatch",
            vec![Key::Class(1 << Route::GROUP_BITS)],
            vec![],
        )],
        ..delete("class-1")
    };
    let mut kernel = two_endpoints();
    kernel.apply(&with_its_row, at(200)).unwrap();
    assert!(kernel.rules(Family::Ipv4, "class-1").is_none());
    assert!(kernel.rules(Family::Ipv4, "class-2").is_some());
}

#[test]
fn sets_in_use() {
    let delete = Transaction {
        delete_sets: vec![Name::from("dispatch")],
        ..new()
    };
    assert_eq!(refused(&delete), (Op::DeleteSet(0), Errno::Ebusy));
    // Without its reader the map goes, and then the chains that its rows held.
    let all = Transaction {
        flush_chains: vec![Name::from("services")],
        delete_chains: vec![Name::from("class-1"), Name::from("class-2")],
        ..delete
    };
    let mut kernel = two_endpoints();
    kernel.apply(&all, at(200)).unwrap();
    assert!(kernel.rows(Family::Ipv4, "dispatch").is_empty());
}

#[test]
fn base_chains_changed_in_place() {
    let add = |chain| Transaction {
        add_chains: vec![chain],
        ..new()
    };
    let other_priority = base("nat-output", ChainKind::Nat, Hook::Output, -99);
    assert_eq!(
        refused(&add(other_priority.clone())),
        (Op::AddChain(0), Errno::Eopnotsupp)
    );
    let no_base = base("services", ChainKind::Nat, Hook::Output, -99);
    assert_eq!(refused(&add(no_base)), (Op::AddChain(0), Errno::Eopnotsupp));
    let replaced = Transaction {
        flush_chains: vec![Name::from("nat-output")],
        replace_chains: vec![Name::from("nat-output")],
        ..add(other_priority)
    };
    let mut kernel = two_endpoints();
    kernel.apply(&replaced, at(200)).unwrap();
    assert!(kernel.rules(Family::Ipv4, "nat-output").unwrap().is_empty());
    // The same again is no change.
    let same = add(base(
        "nat-prerouting",
        ChainKind::Nat,
        Hook::Prerouting,
        -100,
    ));
    kernel.apply(&same, at(300)).unwrap();
    assert_eq!(
        kernel.rules(Family::Ipv4, "nat-prerouting").unwrap().len(),
        1
    );
}

#[test]
fn sets_with_other_properties() {
    let mut other = map("services", KeyType::Frontend, DataType::Route);
    let add = |set| Transaction {
        add_sets: vec![set],
        ..new()
    };
    two_endpoints().apply(&add(other.clone()), at(200)).unwrap();
    other.size = Some(128);
    assert_eq!(refused(&add(other)), (Op::AddSet(0), Errno::Eexist));
}

#[test]
fn layouts_that_do_not_fit() {
    let lookup = |key: Vec<Field>, set: &str| {
        let statement = Statement::InSet {
            key,
            set: Name::from(set),
            invert: false,
        };
        Transaction {
            add_rules: vec![rule("services", [statement])],
            ..new()
        }
    };
    let cases = [
        lookup(vec![Field::Daddr], "hairpin-connections"),
        // As long as the key, but exchanged.
        lookup(
            vec![Field::Saddr, Field::L4Proto, Field::Daddr, Field::Dport],
            "hairpin-connections",
        ),
        lookup(vec![Field::Daddr, Field::L4Proto, Field::Dport], "services"),
        elements(vec![change("endpoints", vec![frontend(ADDRESS)], vec![])]),
        elements(vec![change(
            "services",
            vec![],
            vec![Row {
                key: frontend("10.96.0.2"),
                datum: Datum::Drop,
            }],
        )]),
        elements(vec![change(
            "services",
            vec![],
            vec![service("fd00::1", 1, 1)],
        )]),
        elements(vec![SetChange {
            data: DataType::Verdict,
            ..change("services", vec![frontend(ADDRESS)], vec![])
        }]),
    ];
    for transaction in cases {
        assert_eq!(refused(&transaction).1, Errno::Einval, "{transaction}");
    }
    let numgen = |modulus, offset| Transaction {
        add_rules: vec![rule(
            "class-1",
            [Statement::Dnat {
                key: vec![
                    Field::Scratch { mask: u32::MAX },
                    Field::Random { modulus, offset },
                ],
                map: Name::from("endpoints"),
            }],
        )],
        ..new()
    };
    assert_eq!(refused(&numgen(0, 0)).1, Errno::Erange);
    assert_eq!(refused(&numgen(2, u32::MAX)).1, Errno::Eoverflow);
}

#[test]
fn names_and_comments_that_are_too_long() {
    let named = |length| Transaction {
        add_chains: vec![chain(&"x".repeat(length))],
        ..new()
    };
    two_endpoints().apply(&named(255), at(200)).unwrap();
    assert_eq!(refused(&named(256)), (Op::AddChain(0), Errno::Erange));
    let commented = |length| Transaction {
        add_rules: vec![Rule {
            comment: Some(Name::from("x".repeat(length))),
            ..rule("services", [])
        }],
        ..new()
    };
    two_endpoints().apply(&commented(128), at(200)).unwrap();
    assert_eq!(refused(&commented(129)), (Op::AddRule(0), Errno::Erange));
}

#[test]
fn statements_on_the_wrong_hook() {
    let add = |chain: &str, statement| Transaction {
        add_rules: vec![rule(chain, [statement])],
        ..new()
    };
    let cases = [
        add("filter-forward", dnat(1)),
        add("filter-forward", jump("class-1")),
        add("nat-postrouting", dnat(1)),
        add("nat-prerouting", Statement::Masquerade),
        add("nat-postrouting", Statement::Reject),
        // Reached through a verdict row.
        add("class-2", Statement::Masquerade),
    ];
    for transaction in cases {
        assert_eq!(
            refused(&transaction),
            (Op::Validate, Errno::Eopnotsupp),
            "{transaction}"
        );
    }
    let to_base = add("services", jump("nat-output"));
    assert_eq!(refused(&to_base), (Op::AddRule(0), Errno::Eopnotsupp));
}

#[test]
fn jumps_nest_fifteen_deep() {
    let nested = |depth: u32| {
        let name = |level| format!("level-{level}");
        Transaction {
            add_chains: (1..=depth).map(|level| chain(&name(level))).collect(),
            add_rules: (1..depth)
                .map(|level| rule(&name(level), [jump(&name(level + 1))]))
                .chain([rule("nat-output", [jump("level-1")])])
                .collect(),
            ..new()
        }
    };
    two_endpoints().apply(&nested(15), at(200)).unwrap();
    assert_eq!(refused(&nested(16)), (Op::Validate, Errno::Emlink));
    let looped = Transaction {
        add_rules: vec![rule("class-1", [jump("services")])],
        ..new()
    };
    assert_eq!(refused(&looped), (Op::Validate, Errno::Emlink));
}

#[test]
fn a_late_error_takes_everything_back() {
    let mut transaction = skeleton();
    transaction.flush_chains = vec![Name::from("class-1"), Name::from("services")];
    transaction.add_chains.push(chain("another"));
    transaction
        .add_sets
        .push(map("node-ports", KeyType::NodePort, DataType::Route));
    transaction.elements.push(change(
        "endpoints",
        vec![slot(1, 0)],
        vec![endpoint(1, 0, "10.0.0.3"), endpoint(1, 5, "10.0.0.5")],
    ));
    transaction.delete_chains = vec![Name::from("nowhere")];
    assert_eq!(refused(&transaction), (Op::DeleteChain(0), Errno::Enoent));
}

#[test]
fn a_deleted_table_is_gone_and_can_come_back() {
    let mut kernel = two_endpoints();
    let delete = Transaction {
        delete_table: true,
        ..new()
    };
    kernel.apply(&delete, at(200)).unwrap();
    assert!(kernel.sets(Family::Ipv4).is_empty());
    assert!(kernel.chains(Family::Ipv4).is_empty());
    kernel.apply(&skeleton(), at(300)).unwrap();
    assert!(kernel.rows(Family::Ipv4, "services").is_empty());
    assert_eq!(kernel.rows(Family::Ipv4, "dispatch").len(), 2);
}

#[test]
fn faults_are_injected() {
    let mut kernel = two_endpoints();
    let update = elements(vec![change("services", vec![frontend(ADDRESS)], vec![])]);
    kernel.set_faults(|_| Some(Fault::Reject(Errno::Enomem)));
    let refused = kernel.apply(&update, at(200)).unwrap_err();
    assert_eq!(refused.to_string(), "ip: begin: ENOMEM: injected");
    kernel.set_faults(|_| Some(Fault::LoseRequest));
    assert_eq!(kernel.apply(&update, at(200)), Err(ApplyError::Unknown));
    assert_eq!(kernel.row_count(Family::Ipv4, "services"), 1);
    kernel.set_faults(|_| Some(Fault::LoseReply));
    assert_eq!(kernel.apply(&update, at(200)), Err(ApplyError::Unknown));
    assert_eq!(kernel.row_count(Family::Ipv4, "services"), 0);
    kernel.clear_faults();
    let empty = kernel.apply(&new(), at(300)).unwrap();
    assert_eq!(empty, 4, "an empty batch makes no generation");
}
