//! A table that is there already: another process's, or kube-proxy's.

use core::time::Duration;

use svc_planner::config::Config;
use svc_planner::fake::{Host, Packet};
use svc_planner::object::{Change, Protocol};
use svc_planner::plan::{
    BaseChain, Chain, ChainKind, DataType, Datum, Family, Field, Hook, Key, KeyType, Name, Row,
    Rule, Set, SetChange, Statement, Transaction,
};

use crate::driver::Driver;
use crate::objects::{endpoint, ip, name, service, slice};

const HTTP: &str = "http";

fn added(number: u8) -> [Change; 2] {
    let of = format!("svc{number}");
    let cluster_ip = ip(&format!("10.96.0.{number}"));
    let pods = (1..=number).map(|pod| endpoint(ip(&format!("10.0.{number}.{pod}")), None));
    let slice = slice(&of, &of, &[(HTTP, Protocol::Tcp, 80)], pods);
    [
        Change::Service(service(&of, cluster_ip, &[(HTTP, Protocol::Tcp, 80, 0)])),
        Change::EndpointSlice(slice),
    ]
}

fn packets() -> Vec<Packet> {
    (1..=5)
        .map(|number| {
            let to = ip(&format!("10.96.0.{number}"));
            Packet::arriving("eth0", ip("203.0.113.1"), to, Protocol::Tcp, 80)
        })
        .collect()
}

fn host() -> Host {
    Host::new([ip("192.168.0.1")])
}

fn driver(config: Config) -> Driver {
    let mut driver = Driver::new(Family::Ipv4, config);
    for change in (1..=4).flat_map(added) {
        driver.change(change);
    }
    driver
}

/// No packet is lost when a process follows another, and nothing of the first is left.
#[test]
fn a_restart_is_not_seen() {
    let mut driver = driver(Config::default());
    driver.drain();
    let before = driver.inventory();
    for _ in 0..3 {
        driver.now += Duration::from_secs(5);
        driver.restart();
        driver.drain();
        assert_eq!(driver.inventory(), before);
    }
    driver.compare(&packets(), &host());
    driver.check_quiescence(&packets(), &host());
}

/// With a snapshot a restart costs nothing.
#[test]
fn a_resumed_process_has_nothing_to_do() {
    let mut driver = driver(Config::default());
    driver.drain();
    driver.now += Duration::from_secs(5);
    let generation = driver.kernel.generation();
    driver.resume();
    assert_eq!(driver.drain(), 0);
    assert_eq!(driver.kernel.generation(), generation);
    driver.compare(&packets(), &host());
}

/// What changed while nobody looked is put right.
#[test]
fn a_restart_finds_another_cluster() {
    let mut driver = driver(Config::default());
    driver.drain();
    driver.oracle.apply(Change::ServiceGone(name("svc2")));
    for change in added(5) {
        driver.oracle.apply(change);
    }
    driver.restart();
    driver.drain();
    driver.compare(&packets(), &host());
    driver.check_quiescence(&packets(), &host());
}

/// Restarts that are interrupted at any point, by another restart.
#[test]
fn half_a_restart_is_taken_over_as_well() {
    for steps in 0..12 {
        let mut driver = driver(Config {
            chunk: 4,
            ..Config::default()
        });
        driver.drain();
        let before = driver.inventory();
        driver.now += Duration::from_secs(5);
        driver.restart();
        for _ in 0..steps {
            driver.commit();
            driver.now += Duration::from_millis(300);
        }
        driver.restart();
        driver.drain();
        assert_eq!(driver.inventory(), before, "after {steps} steps");
        driver.compare(&packets(), &host());
        driver.check_quiescence(&packets(), &host());
    }
}

/// kube-proxy's way to serve the first Service: its chain names, a verdict map of its own, and a
/// base chain with another priority.
fn foreign() -> Transaction {
    let name = |text: &str| Name::from(text);
    let chain = |text: &str, base| Chain {
        name: name(text),
        base,
    };
    let base = |kind, hook, priority| {
        Some(BaseChain {
            kind,
            hook,
            priority,
        })
    };
    let set = |text: &str, key, data| Set {
        name: name(text),
        key,
        data,
        interval: false,
        dynamic: false,
        size: None,
    };
    let rule = |chain: &str, statements| Rule {
        chain: name(chain),
        statements,
        comment: None,
    };
    let frontend = Key::Frontend {
        address: ip("10.96.0.1"),
        protocol: Protocol::Tcp,
        port: 80,
    };
    let endpoint = Datum::Endpoint {
        address: ip("10.0.1.1"),
        port: 80,
    };
    Transaction {
        add_table: true,
        add_sets: vec![
            set("service-ips", KeyType::Frontend, DataType::Verdict),
            set("cluster-ips", KeyType::Address, DataType::None),
            set("endpoints", KeyType::Slot, DataType::Endpoint),
        ],
        add_chains: vec![
            chain(
                "nat-prerouting",
                base(ChainKind::Nat, Hook::Prerouting, -100),
            ),
            chain("nat-output", base(ChainKind::Nat, Hook::Output, -101)),
            chain("filter-forward", base(ChainKind::Filter, Hook::Forward, 0)),
            chain("services", None),
            chain("cluster-ips-check", None),
            chain("service-2QRHZV4L-ns/svc1/tcp/http", None),
        ],
        elements: vec![
            SetChange {
                set: name("service-ips"),
                key: KeyType::Frontend,
                data: DataType::Verdict,
                delete: vec![],
                add: vec![Row {
                    key: frontend,
                    datum: Datum::Goto(name("service-2QRHZV4L-ns/svc1/tcp/http")),
                }],
            },
            SetChange {
                set: name("cluster-ips"),
                key: KeyType::Address,
                data: DataType::None,
                delete: vec![],
                add: vec![Row {
                    key: Key::Address(ip("10.96.0.1")),
                    datum: Datum::None,
                }],
            },
            SetChange {
                set: name("endpoints"),
                key: KeyType::Slot,
                data: DataType::Endpoint,
                delete: vec![],
                add: vec![Row {
                    key: Key::Slot { group: 0, slot: 0 },
                    datum: endpoint,
                }],
            },
        ],
        add_rules: vec![
            rule("nat-prerouting", vec![Statement::Jump(name("services"))]),
            rule("nat-output", vec![Statement::Jump(name("services"))]),
            rule(
                "filter-forward",
                vec![
                    Statement::CtStateNew,
                    Statement::Jump(name("cluster-ips-check")),
                ],
            ),
            rule(
                "services",
                vec![Statement::VerdictMap {
                    key: vec![Field::Daddr, Field::L4Proto, Field::Dport],
                    map: name("service-ips"),
                }],
            ),
            rule(
                "cluster-ips-check",
                vec![
                    Statement::InSet {
                        key: vec![Field::Daddr],
                        set: name("cluster-ips"),
                        invert: false,
                    },
                    Statement::Reject,
                ],
            ),
            rule(
                "service-2QRHZV4L-ns/svc1/tcp/http",
                vec![Statement::Dnat {
                    key: vec![
                        Field::Scratch { mask: u32::MAX },
                        Field::Random {
                            modulus: 1,
                            offset: 0,
                        },
                    ],
                    map: name("endpoints"),
                }],
            ),
        ],
        ..Transaction::new(Family::Ipv4)
    }
}

/// The first Service, which was served, is served all the time.
#[test]
fn kube_proxys_table_is_taken_over() {
    let mut fresh = driver(Config::default());
    fresh.drain();

    let mut driver = driver(Config::default());
    driver.kernel.apply(&foreign(), driver.now).unwrap();
    driver.now += Duration::from_secs(5);
    driver.restart();
    driver.drain();
    driver.compare(&packets(), &host());
    driver.check_quiescence(&packets(), &host());
    assert_eq!(driver.inventory(), fresh.inventory());
}

/// Somebody deletes and adds rules and chains; rows stay, and so do the connections they lead to.
#[test]
fn damaged_rules_are_mended_in_one_transaction() {
    let name = |text: &str| -> Name { text.into() };
    let mut driver = driver(Config::default());
    driver.drain();
    let before = driver.inventory();
    let rows = |driver: &Driver| {
        let sets = driver.kernel.sets(Family::Ipv4).into_iter();
        let sets = sets.filter(|set| set.key != KeyType::State);
        let rows = sets.map(|set| {
            (
                set.name.clone(),
                driver.kernel.rows(Family::Ipv4, &set.name),
            )
        });
        rows.collect::<Vec<_>>()
    };
    let kept = rows(&driver);
    let base = |name: &str| Chain {
        name: name.into(),
        base: Some(BaseChain {
            kind: ChainKind::Filter,
            hook: Hook::Forward,
            priority: -5,
        }),
    };
    let damages: [fn(&mut Transaction); 5] = [
        |it| it.flush_chains.push("services".into()),
        |it| {
            it.flush_chains.push("nat-prerouting".into());
            it.delete_chains.push("nat-prerouting".into());
        },
        |it| it.flush_chains.push("internal-3".into()),
        |it| {
            it.add_rules.push(Rule {
                chain: "internal-2".into(),
                statements: vec![Statement::Drop],
                comment: None,
            });
        },
        |_| {},
    ];
    for (round, damage) in damages.into_iter().enumerate() {
        driver.now += Duration::from_secs(5);
        let mut transaction = Transaction::new(Family::Ipv4);
        // A chain that drops, and one it jumps to.
        transaction.add_chains = vec![
            base(&format!("theirs-{round}")),
            Chain {
                name: name("their-checks"),
                base: None,
            },
        ];
        for (chain, statement) in [
            (
                format!("theirs-{round}"),
                Statement::Jump(name("their-checks")),
            ),
            ("their-checks".to_owned(), Statement::Drop),
        ] {
            transaction.add_rules.push(Rule {
                chain: chain.into(),
                statements: vec![statement],
                comment: None,
            });
        }
        damage(&mut transaction);
        driver.kernel.apply(&transaction, driver.now).unwrap();
        driver.kernel.forget_history();
        driver.mend();
        assert!(driver.commit().is_some());
        driver.compare(&packets(), &host());
        assert_eq!(rows(&driver), kept, "no row moves");
        driver.drain();
        assert_eq!(driver.inventory(), before, "nothing of theirs is left");
        driver.check_quiescence(&packets(), &host());
    }
}
