use std::collections::BTreeSet;

use super::*;

fn verdicts(kernel: &Kernel, packet: &Packet) -> BTreeSet<Verdict> {
    let outcomes = kernel.outcomes(packet, &host());
    outcomes
        .into_iter()
        .map(|(outcome, _)| outcome.verdict)
        .collect()
}

fn to(text: &str, masqueraded: bool) -> Verdict {
    Verdict::Delivered {
        endpoint: Endpoint {
            address: address(text),
            port: 8080,
        },
        masqueraded,
    }
}

#[test]
fn every_endpoint_gets_its_share() {
    let outcomes = two_endpoints().outcomes(&client(), &host());
    let shares: Vec<_> = outcomes
        .iter()
        .map(|(outcome, share)| (outcome.verdict, *share))
        .collect();
    assert_eq!(
        shares,
        [(to("10.0.0.1", false), 0.5), (to("10.0.0.2", false), 0.5)]
    );
    assert!(outcomes.iter().all(|(outcome, _)| outcome.scratch == 0));
}

#[test]
fn numbers_come_from_the_caller() {
    let kernel = two_endpoints();
    let outcome = kernel.evaluate(&client(), &host(), &mut [1].into_iter());
    assert_eq!(outcome.verdict, to("10.0.0.2", false));
    let trace: Vec<String> = outcome.trace.iter().map(ToString::to_string).collect();
    assert_eq!(
        trace,
        [
            "prerouting: nat-prerouting",
            "rule 0 of nat-prerouting",
            "chain services",
            "@services { 10.96.0.1 . tcp . 80 } : class 2 group 1 (generation 3)",
            "@dispatch { class 2 } : goto class-2 (generation 3)",
            "rule 0 of services",
            "chain class-2",
            "rule 0 of class-2",
            "random 1 of 2",
            "@endpoints { group 1 . slot 1 } : 10.0.0.2 . 8080 (generation 3)",
            "rule 1 of class-2",
            "forward: filter-forward",
            "@service-cidrs { 10.0.0.2 } missing (generation 3)",
            "postrouting: nat-postrouting",
        ]
    );
}

#[test]
fn hairpin_is_masqueraded() {
    let mut kernel = two_endpoints();
    let key = Key::Hairpin {
        address: address("10.0.0.1"),
        protocol: Protocol::Tcp,
        port: 8080,
    };
    let row = Row {
        key,
        datum: Datum::None,
    };
    kernel
        .apply(
            &elements(vec![change("hairpin-connections", vec![], vec![row])]),
            at(200),
        )
        .unwrap();
    let packet = Packet {
        saddr: address("10.0.0.1"),
        ..client()
    };
    let expected = BTreeSet::from([to("10.0.0.1", true), to("10.0.0.2", false)]);
    assert_eq!(verdicts(&kernel, &packet), expected);
    assert_eq!(
        verdicts(&kernel, &client()),
        BTreeSet::from([to("10.0.0.1", false), to("10.0.0.2", false)])
    );
}

#[test]
fn what_no_row_knows_goes_on() {
    let kernel = two_endpoints();
    let other_port = Packet {
        transport: Transport::Ports {
            protocol: Protocol::Tcp,
            source: 1,
            destination: 81,
        },
        ..client()
    };
    assert_eq!(
        verdicts(&kernel, &other_port),
        BTreeSet::from([Verdict::Rejected])
    );
    let ping = Packet {
        transport: Transport::Other(1),
        ..client()
    };
    assert_eq!(
        verdicts(&kernel, &ping),
        BTreeSet::from([Verdict::Rejected])
    );
    let elsewhere = Packet {
        daddr: address("198.51.100.1"),
        ..client()
    };
    let untouched = BTreeSet::from([Verdict::Untouched { masqueraded: false }]);
    assert_eq!(verdicts(&kernel, &elsewhere), untouched);
    // Nothing rejects on the output hook here.
    let local = Packet {
        origin: Origin::Local,
        ..other_port
    };
    assert_eq!(verdicts(&kernel, &local), untouched);
}

#[test]
fn local_processes_are_served() {
    let packet = Packet::local(address("192.168.0.2"), address(ADDRESS), Protocol::Tcp, 80);
    let expected = BTreeSet::from([to("10.0.0.1", false), to("10.0.0.2", false)]);
    assert_eq!(verdicts(&two_endpoints(), &packet), expected);
}

#[test]
fn a_hole_falls_back_to_slot_0() {
    let mut kernel = two_endpoints();
    kernel
        .apply(
            &elements(vec![change("endpoints", vec![slot(1, 1)], vec![])]),
            at(200),
        )
        .unwrap();
    let expected = BTreeSet::from([to("10.0.0.1", false)]);
    assert_eq!(verdicts(&kernel, &client()), expected);
    kernel
        .apply(
            &elements(vec![change("endpoints", vec![slot(1, 0)], vec![])]),
            at(300),
        )
        .unwrap();
    assert_eq!(
        verdicts(&kernel, &client()),
        BTreeSet::from([Verdict::Dropped])
    );
}

#[test]
fn input_instead_of_forward_for_local_endpoints() {
    let mut kernel = two_endpoints();
    let rows = vec![endpoint(3, 0, "192.168.0.2")];
    let transaction = Transaction {
        add_chains: vec![base("filter-input", ChainKind::Filter, Hook::Input, 0)],
        elements: vec![
            change("endpoints", vec![], rows),
            change("services", vec![], vec![service("10.96.0.3", 1, 3)]),
        ],
        add_rules: vec![
            rule("filter-input", [Statement::FibDaddrLocal, Statement::Drop]),
            rule("filter-forward", [Statement::Drop]),
        ],
        ..new()
    };
    kernel.apply(&transaction, at(200)).unwrap();
    let packet = Packet {
        daddr: address("10.96.0.3"),
        ..client()
    };
    let outcomes = kernel.outcomes(&packet, &host());
    let hooks: Vec<_> = outcomes[0]
        .0
        .trace
        .iter()
        .filter_map(|step| match step {
            Step::Hook { hook, .. } => Some(*hook),
            _ => None,
        })
        .collect();
    assert_eq!(hooks, [Hook::Prerouting, Hook::Input]);
    assert_eq!(outcomes[0].0.verdict, Verdict::Dropped);
    // A local process's packet comes back in through loopback.
    let local = Packet {
        origin: Origin::Local,
        ..packet
    };
    assert_eq!(
        verdicts(&kernel, &local),
        BTreeSet::from([Verdict::Dropped])
    );
}

#[test]
fn marks_and_interfaces() {
    let mark = 0x4000;
    let interface = |name: &str, prefix, invert| Statement::Iifname {
        name: Name::from(name),
        prefix,
        invert,
    };
    let mut kernel = Kernel::new();
    let transaction = Transaction {
        add_table: true,
        add_chains: vec![
            base("early", ChainKind::Filter, Hook::Prerouting, -110),
            base("nat-postrouting", ChainKind::Nat, Hook::Postrouting, 100),
        ],
        add_rules: vec![
            rule(
                "early",
                [
                    interface("cni", true, false),
                    Statement::MarkOr { bits: mark },
                ],
            ),
            rule("early", [interface("eth1", false, false), Statement::Drop]),
            rule(
                "nat-postrouting",
                [
                    Statement::MarkSet { mask: mark },
                    Statement::MarkXor { bits: mark },
                    Statement::Masquerade,
                ],
            ),
        ],
        ..new()
    };
    kernel.apply(&transaction, at(0)).unwrap();
    let by = |name: &str| {
        let mut packet = client();
        packet.origin = Origin::Interface(Name::from(name));
        packet.mark = 1;
        kernel.outcomes(&packet, &host()).remove(0).0
    };
    let masqueraded = by("cni0");
    assert_eq!(
        masqueraded.verdict,
        Verdict::Untouched { masqueraded: true }
    );
    assert_eq!(masqueraded.mark, 1);
    assert_eq!(by("eth1").verdict, Verdict::Dropped);
    assert_eq!(
        by("eth10").verdict,
        Verdict::Untouched { masqueraded: false }
    );
}
