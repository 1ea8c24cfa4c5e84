use core::time::Duration;

use super::quiescence::{OrderViolation, Violation, Windows, check, check_order};
use super::*;

const HOLD: Duration = Duration::from_secs(1);

fn violations(kernel: &Kernel) -> Vec<Violation> {
    settling_for(HOLD, kernel)
}

fn settling_for(settle: Duration, kernel: &Kernel) -> Vec<Violation> {
    check(kernel, Windows { hold: HOLD, settle }, &[client()], &host())
}

fn count(class: u32) -> SetChange {
    change(
        "services",
        vec![frontend(ADDRESS)],
        vec![service(ADDRESS, class, 1)],
    )
}

/// Two endpoints to one, as the design does it: the tail slot points at a live endpoint and goes
/// `pause` later.
fn shrunk(pause: Duration) -> Kernel {
    let mut kernel = two_endpoints();
    let lowered = elements(vec![
        change(
            "endpoints",
            vec![slot(1, 1)],
            vec![endpoint(1, 1, "10.0.0.1")],
        ),
        count(1),
    ]);
    kernel.apply(&lowered, at(2_000)).unwrap();
    let tidied = elements(vec![change("endpoints", vec![slot(1, 1)], vec![])]);
    kernel.apply(&tidied, at(2_000) + pause).unwrap();
    kernel
}

#[test]
fn the_design_shrinks_and_grows_without_loss() {
    let mut kernel = shrunk(HOLD);
    let grown = elements(vec![
        change("endpoints", vec![], vec![endpoint(1, 1, "10.0.0.2")]),
        count(2),
    ]);
    kernel.apply(&grown, at(3_000)).unwrap();
    assert_eq!(violations(&kernel), []);
    assert_eq!(check_order(&kernel, Family::Ipv4, HOLD), []);
}

/// With the second rule on slot 0 the packet still arrives, so only without it this is a loss.
#[test]
fn count_and_slot_in_one_batch_is_found() {
    let mut kernel = two_endpoints();
    let single_rule = Transaction {
        flush_chains: vec![Name::from("class-2")],
        add_rules: vec![
            rule(
                "class-2",
                [Statement::ScratchMask {
                    mask: Route::GROUP_MASK,
                }],
            ),
            rule("class-2", [dnat(2)]),
            rule("class-2", [Statement::Drop]),
        ],
        ..new()
    };
    kernel.apply(&single_rule, at(1_000)).unwrap();
    let shrink = elements(vec![
        change("endpoints", vec![slot(1, 1)], vec![]),
        count(1),
    ]);
    kernel.apply(&shrink, at(3_000)).unwrap();
    let found = violations(&kernel);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].outcome.verdict, Verdict::Dropped);
    assert!(
        found[0]
            .to_string()
            .starts_with("tcp 192.0.2.7:40000 -> 10.96.0.1:80 from eth0, generations 4 to 5"),
        "{}",
        found[0]
    );
}

#[test]
fn a_class_that_comes_with_its_first_user_is_found() {
    let new_class = || Transaction {
        add_chains: vec![chain("class-9")],
        add_rules: class_rules("class-9", 2),
        elements: vec![change("dispatch", vec![], vec![verdict(9, "class-9")])],
        ..new()
    };
    let mut kernel = two_endpoints();
    let mut together = new_class();
    together.elements.push(count(9));
    kernel.apply(&together, at(2_000)).unwrap();
    let found = violations(&kernel);
    // The packet reads the new rows, but the chain has no rules for it: it falls through.
    assert_eq!(found[0].outcome.verdict, Verdict::Rejected);
    let route = Route::new(9, 1).unwrap();
    assert_eq!(
        check_order(&kernel, Family::Ipv4, HOLD),
        [OrderViolation::ClassTooLate {
            route,
            generation: 4
        }]
    );

    let mut kernel = two_endpoints();
    kernel.apply(&new_class(), at(2_000)).unwrap();
    kernel.apply(&elements(vec![count(9)]), at(3_000)).unwrap();
    assert_eq!(violations(&kernel), []);
    assert_eq!(check_order(&kernel, Family::Ipv4, HOLD), []);
}

/// A packet may enter before the class exists and reach its first user a moment later.
#[test]
fn a_class_used_at_once_is_found() {
    let mut kernel = two_endpoints();
    let class = Transaction {
        add_chains: vec![chain("class-9")],
        add_rules: class_rules("class-9", 2),
        elements: vec![change("dispatch", vec![], vec![verdict(9, "class-9")])],
        ..new()
    };
    kernel.apply(&class, at(2_000)).unwrap();
    kernel.apply(&elements(vec![count(9)]), at(2_001)).unwrap();
    assert_eq!(settling_for(HOLD, &kernel).len(), 1);
    assert_eq!(settling_for(at(2), &kernel).len(), 1);
    assert_eq!(settling_for(at(1), &kernel), []);
}

#[test]
fn a_class_that_goes_too_early_is_found() {
    let unused_after = |pause: Duration| {
        let mut kernel = two_endpoints();
        kernel.apply(&elements(vec![count(1)]), at(2_000)).unwrap();
        let removed = Transaction {
            elements: vec![change(
                "dispatch",
                vec![Key::Class(2 << Route::GROUP_BITS)],
                vec![],
            )],
            delete_chains: vec![Name::from("class-2")],
            ..new()
        };
        kernel.apply(&removed, at(2_000) + pause).unwrap();
        kernel
    };
    let early = unused_after(HOLD / 2);
    assert_eq!(violations(&early)[0].outcome.verdict, Verdict::Rejected);
    assert_eq!(
        check_order(&early, Family::Ipv4, HOLD),
        [OrderViolation::ClassTooEarly {
            class: 2,
            generation: 5
        }]
    );
    let late = unused_after(HOLD);
    assert_eq!(violations(&late), []);
    assert_eq!(check_order(&late, Family::Ipv4, HOLD), []);
}

#[test]
fn a_group_that_is_reused_too_early_is_found() {
    let reused_after = |pause: Duration| {
        let mut kernel = two_endpoints();
        let gone = elements(vec![change("services", vec![frontend(ADDRESS)], vec![])]);
        kernel.apply(&gone, at(2_000)).unwrap();
        let reused = elements(vec![
            change(
                "endpoints",
                vec![slot(1, 0), slot(1, 1)],
                vec![endpoint(1, 0, "10.0.0.7")],
            ),
            change("services", vec![], vec![service("10.96.0.7", 1, 1)]),
        ]);
        kernel.apply(&reused, at(2_000) + pause).unwrap();
        kernel
    };
    let found = violations(&reused_after(HOLD / 2));
    let Verdict::Delivered { endpoint, .. } = found[0].outcome.verdict else {
        panic!("not delivered: {}", found[0]);
    };
    assert_eq!(endpoint.address, address("10.0.0.7"));
    assert_eq!(violations(&reused_after(HOLD)), []);
}

#[test]
fn a_table_replaced_in_one_batch_is_found() {
    let mut kernel = two_endpoints();
    let swapped = Transaction {
        flush_chains: vec![Name::from("services")],
        add_sets: vec![map("services-2", KeyType::Frontend, DataType::Route)],
        elements: vec![SetChange {
            set: Name::from("services-2"),
            ..change("services", vec![], vec![service(ADDRESS, 2, 1)])
        }],
        add_rules: vec![rule(
            "services",
            [
                Statement::ScratchFromMap {
                    key: vec![Field::Daddr, Field::L4Proto, Field::Dport],
                    map: Name::from("services-2"),
                },
                Statement::VerdictMap {
                    key: vec![Field::Scratch {
                        mask: Route::CLASS_MASK,
                    }],
                    map: Name::from("dispatch"),
                },
            ],
        )],
        ..new()
    };
    let mut at_once = swapped.clone();
    at_once.delete_sets = vec![Name::from("services")];
    kernel.apply(&at_once, at(2_000)).unwrap();
    assert_eq!(violations(&kernel).len(), 1);

    let mut kernel = two_endpoints();
    kernel.apply(&swapped, at(2_000)).unwrap();
    let old = Transaction {
        delete_sets: vec![Name::from("services")],
        ..new()
    };
    kernel.apply(&old, at(3_000)).unwrap();
    assert_eq!(violations(&kernel), []);
}

#[test]
fn history_can_be_forgotten() {
    let mut kernel = shrunk(HOLD);
    kernel.forget_history();
    assert_eq!(kernel.known_since(), kernel.generation());
    assert!(kernel.commits().is_empty());
    assert_eq!(violations(&kernel), []);
    assert_eq!(kernel.row_count(Family::Ipv4, "endpoints"), 1);
    kernel.apply(&elements(vec![count(2)]), at(9_000)).unwrap();
    assert_eq!(kernel.commits().len(), 1);
    assert_eq!(violations(&kernel), []);
}
