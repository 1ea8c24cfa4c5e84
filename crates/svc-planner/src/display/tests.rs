use core::net::IpAddr;

use proptest::prelude::*;

use super::*;
use crate::plan::Name;

fn name(text: &str) -> Name {
    Name::from(text)
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn frontend(text: &str, protocol: Protocol, port: u16) -> Key {
    Key::Frontend {
        address: address(text),
        protocol,
        port,
    }
}

/// One of everything.
fn sample() -> Transaction {
    let set = |text: &str, key, data| Set {
        name: name(text),
        key,
        data,
        interval: false,
        dynamic: false,
        size: Some(1024),
    };
    let frontend_key = vec![Field::Daddr, Field::L4Proto, Field::Dport];
    let mut cidrs = set("service-cidrs", KeyType::Address, DataType::None);
    cidrs.interval = true;
    cidrs.size = None;
    Transaction {
        add_table: true,
        flush_chains: vec![name("nat-output")],
        replace_chains: vec![name("nat-output")],
        add_sets: vec![
            set("services", KeyType::Frontend, DataType::Route),
            set("endpoints", KeyType::Slot, DataType::Endpoint),
            set("dispatch", KeyType::Class, DataType::Verdict),
            set("hairpin-connections", KeyType::Hairpin, DataType::None),
            cidrs,
        ],
        add_chains: vec![
            Chain {
                name: name("nat-prerouting"),
                base: Some(BaseChain {
                    kind: ChainKind::Nat,
                    hook: Hook::Prerouting,
                    priority: -100,
                }),
            },
            Chain {
                name: name("class-3"),
                base: None,
            },
        ],
        elements: vec![
            SetChange {
                set: name("services"),
                key: KeyType::Frontend,
                data: DataType::Route,
                delete: vec![frontend("10.96.0.1", Protocol::Udp, 53)],
                add: vec![Row {
                    key: frontend("10.96.0.1", Protocol::Tcp, 80),
                    datum: Datum::Route(Route::new(3, 17).unwrap()),
                }],
            },
            SetChange {
                set: name("endpoints"),
                key: KeyType::Slot,
                data: DataType::Endpoint,
                delete: vec![],
                add: vec![Row {
                    key: Key::Slot { group: 17, slot: 0 },
                    datum: Datum::Endpoint {
                        address: address("10.0.0.2"),
                        port: 8080,
                    },
                }],
            },
            SetChange {
                set: name("dispatch"),
                key: KeyType::Class,
                data: DataType::Verdict,
                delete: vec![],
                add: vec![Row {
                    key: Key::Class(3 << Route::GROUP_BITS),
                    datum: Datum::Goto(name("class-3")),
                }],
            },
        ],
        add_rules: vec![
            Rule {
                chain: name("services"),
                statements: vec![
                    Statement::ScratchFromMap {
                        key: frontend_key,
                        map: name("services"),
                    },
                    Statement::VerdictMap {
                        key: vec![Field::Scratch {
                            mask: Route::CLASS_MASK,
                        }],
                        map: name("dispatch"),
                    },
                ],
                comment: Some(name("frontends")),
            },
            Rule {
                chain: name("class-3"),
                statements: vec![Statement::Dnat {
                    key: vec![
                        Field::Scratch { mask: u32::MAX },
                        Field::Random {
                            modulus: 3,
                            offset: 0,
                        },
                    ],
                    map: name("endpoints"),
                }],
                comment: None,
            },
            Rule {
                chain: name("cluster-ips-check"),
                statements: vec![
                    Statement::InSet {
                        key: vec![Field::Daddr],
                        set: name("cluster-ips"),
                        invert: true,
                    },
                    Statement::Reject,
                ],
                comment: None,
            },
        ],
        delete_sets: vec![name("old-services")],
        delete_chains: vec![name("class-2")],
        delete_table: true,
        ..Transaction::new(Family::Ipv4)
    }
}

#[test]
fn prints_one_command_a_line_in_execution_order() {
    let expected = "\
add table ip kube-proxy
flush chain ip kube-proxy nat-output
delete chain ip kube-proxy nat-output
add map ip kube-proxy services { type ipv4_addr . inet_proto . inet_service : classid; size 1024; }
add map ip kube-proxy endpoints { type classid . mark : ipv4_addr . inet_service; size 1024; }
add map ip kube-proxy dispatch { type classid : verdict; size 1024; }
add set ip kube-proxy hairpin-connections { type ipv4_addr . ipv4_addr . inet_proto . inet_service; size 1024; }
add set ip kube-proxy service-cidrs { type ipv4_addr; flags interval; }
add chain ip kube-proxy nat-prerouting { type nat hook prerouting priority -100; }
add chain ip kube-proxy class-3
delete element ip kube-proxy services { 10.96.0.1 . udp . 53 }
add element ip kube-proxy services { 10.96.0.1 . tcp . 80 : class 3 group 17 }
add element ip kube-proxy endpoints { group 17 . slot 0 : 10.0.0.2 . 8080 }
add element ip kube-proxy dispatch { class 3 : goto class-3 }
add rule ip kube-proxy services meta priority set ip daddr . meta l4proto . th dport map @services meta priority & 0xfff00000 vmap @dispatch comment \"frontends\"
add rule ip kube-proxy class-3 meta priority set 0 dnat ip to meta priority . numgen random mod 3 map @endpoints
add rule ip kube-proxy cluster-ips-check ip daddr != @cluster-ips reject with icmp port-unreachable
delete set ip kube-proxy old-services
delete chain ip kube-proxy class-2
delete table ip kube-proxy
";
    assert_eq!(sample().to_string(), expected);
}

#[test]
fn spells_every_statement_in_the_familys_words() {
    let net = "fd00::/64".parse().unwrap();
    let spelled = [
        (Statement::CtStateNew, "ct state new"),
        (Statement::CtStatusDnat, "ct status dnat"),
        (
            Statement::Saddr {
                prefix: net,
                invert: true,
            },
            "ip6 saddr != fd00::/64",
        ),
        (
            Statement::Daddr {
                prefix: net,
                invert: false,
            },
            "ip6 daddr fd00::/64",
        ),
        (
            Statement::Iifname {
                name: name("cni"),
                prefix: true,
                invert: true,
            },
            "iifname != \"cni*\"",
        ),
        (Statement::FibSaddrLocal, "fib saddr type local"),
        (Statement::FibDaddrLocal, "fib daddr type local"),
        (
            Statement::MarkSet { mask: 0x4000 },
            "meta mark & 0x00004000 != 0",
        ),
        (
            Statement::MarkOr { bits: 0x4000 },
            "meta mark set meta mark | 0x00004000",
        ),
        (
            Statement::MarkXor { bits: 0x4000 },
            "meta mark set meta mark ^ 0x00004000",
        ),
        (
            Statement::ScratchMask {
                mask: Route::GROUP_MASK,
            },
            "meta priority set meta priority & 0x000fffff",
        ),
        (
            Statement::ScratchOr { bits: 1 << 20 },
            "meta priority set meta priority | 0x00100000",
        ),
        (
            Statement::ScratchSet {
                mask: Route::CLASS_MASK,
            },
            "meta priority & 0xfff00000 != 0",
        ),
        (
            Statement::Stick {
                key: vec![Field::Saddr],
                map: name("m"),
                seconds: 30,
            },
            "update @m { ip6 saddr timeout 30s : meta priority }",
        ),
        (
            Statement::Unstick {
                key: vec![Field::Saddr],
                map: name("m"),
            },
            "delete @m { ip6 saddr : meta priority }",
        ),
        (Statement::Jump(name("a")), "jump a"),
        (Statement::Goto(name("a")), "goto a"),
        (Statement::Drop, "drop"),
        (Statement::Reject, "reject with icmpv6 port-unreachable"),
        (Statement::Masquerade, "masquerade fully-random"),
        (
            Statement::InSet {
                key: vec![Field::Saddr, Field::Daddr, Field::L4Proto, Field::Dport],
                set: name("hairpin-connections"),
                invert: false,
            },
            "ip6 saddr . ip6 daddr . meta l4proto . th dport @hairpin-connections",
        ),
    ];
    for (statement, text) in spelled {
        assert_eq!(Of::new(Family::Ipv6, &statement).to_string(), text);
    }
}

#[test]
fn json_brings_the_same_plan_back() {
    let plan = sample();
    let json = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Transaction>(&json).unwrap(), plan);
}

fn any_address() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        any::<[u8; 4]>().prop_map(IpAddr::from),
        any::<[u8; 16]>().prop_map(IpAddr::from),
    ]
}

fn any_protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![
        Just(Protocol::Tcp),
        Just(Protocol::Udp),
        Just(Protocol::Sctp)
    ]
}

fn any_key() -> impl Strategy<Value = Key> {
    prop_oneof![
        any_address().prop_map(Key::Address),
        (any_address(), any::<u8>()).prop_map(|(address, length)| {
            let longest = if address.is_ipv4() { 32 } else { 128 };
            Key::Prefix(
                ipnet::IpNet::new(address, length % (longest + 1))
                    .unwrap()
                    .trunc(),
            )
        }),
        (any_address(), any_protocol(), any::<u16>()).prop_map(|(address, protocol, port)| {
            Key::Frontend {
                address,
                protocol,
                port,
            }
        }),
        (any_protocol(), any::<u16>())
            .prop_map(|(protocol, port)| Key::NodePort { protocol, port }),
        any::<u32>().prop_map(Key::Class),
        any::<u32>().prop_map(Key::Group),
        (any::<u32>(), any::<u32>()).prop_map(|(group, slot)| Key::Slot { group, slot }),
        (any::<u32>(), any::<u32>())
            .prop_map(|(instance, sequence)| Key::State { instance, sequence }),
        (any_address(), any_protocol(), any::<u16>()).prop_map(|(address, protocol, port)| {
            Key::Hairpin {
                address,
                protocol,
                port,
            }
        }),
        (any_address(), any_address(), any_protocol(), any::<u16>()).prop_map(
            |(client, address, protocol, port)| Key::Client {
                client,
                address,
                protocol,
                port,
            }
        ),
        any::<u32>().prop_map(|id| Key::EndpointId(EndpointId(id))),
    ]
}

fn any_datum() -> impl Strategy<Value = Datum> {
    prop_oneof![
        Just(Datum::None),
        Just(Datum::Drop),
        "[a-z/-]{1,20}".prop_map(|chain| Datum::Goto(Name::from(chain))),
        any::<u32>().prop_map(|route| Datum::Route(Route(route))),
        (any_address(), any::<u16>()).prop_map(|(address, port)| Datum::Endpoint { address, port }),
        any::<u32>().prop_map(|id| Datum::EndpointId(EndpointId(id))),
        (any::<u32>(), 1..u32::MAX).prop_map(|(id, milliseconds)| Datum::Stuck {
            endpoint: EndpointId(id),
            milliseconds,
        }),
    ]
}

proptest! {
    #[test]
    fn rows_come_back_from_json_and_print_apart(
        (key, other) in (any_key(), any_key()),
        datum in any_datum(),
    ) {
        let row = Row { key, datum };
        let json = serde_json::to_string(&row).unwrap();
        prop_assert_eq!(&serde_json::from_str::<Row>(&json).unwrap(), &row);
        let same_kind = core::mem::discriminant(&key) == core::mem::discriminant(&other);
        // A class key is printed as its number alone.
        let comparable = same_kind && !matches!(key, Key::Class(_));
        if comparable {
            prop_assert_eq!(key == other, key.to_string() == other.to_string());
        }
        prop_assert!(!row.to_string().contains('\n'));
    }
}
