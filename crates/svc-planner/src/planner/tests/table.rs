//! Full maps and foreign tables.

use super::*;

#[test]
fn full_maps_are_replaced_while_changes_go_on() {
    let mut bench = Bench::new(Config {
        chunk: 300,
        ..config()
    });
    bench.drain();
    let add = |bench: &mut Bench, from: u32, to: u32| {
        for i in from..to {
            let (a, b) = (i / 250, i % 250 + 1);
            let text = format!("s{i}");
            bench.apply(Change::Service(service(&text, &format!("10.96.{a}.{b}"))));
            let endpoints = [format!("10.1.{a}.{b}"), format!("10.2.{a}.{b}")];
            bench.apply(slice(&text, &text, &[&endpoints[0], &endpoints[1]]));
        }
    };
    add(&mut bench, 0, 700);
    bench.drain();
    let sizes = |bench: &Bench| -> Vec<(Name, Option<u32>)> {
        let sets = bench.kernel.sets(Family::Ipv4).into_iter();
        sets.filter(|set| set.size.is_some())
            .map(|set| (set.name.clone(), set.size))
            .collect()
    };
    assert!(
        sizes(&bench).contains(&("endpoints-1".into(), Some(3072))),
        "{:?}",
        sizes(&bench)
    );
    add(&mut bench, 700, 1700);
    // Changes in the midst of it.
    for round in 0..40 {
        if let Next::Commit(transaction) = bench.planner.next(bench.now) {
            bench.kernel.apply(&transaction, bench.now).unwrap();
            bench.planner.committed(bench.now);
        }
        bench.now += Duration::from_millis(50);
        let text = format!("s{}", round * 17);
        bench.apply(slice(&text, &text, &["10.3.0.1", "10.3.0.2", "10.3.0.3"]));
    }
    bench.drain();
    assert_eq!(sizes(&bench).len(), 11, "{:?}", sizes(&bench));
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    assert_eq!(
        bench.balances("10.96.6.1"),
        ["10.1.6.1:8080", "10.2.6.1:8080"]
    );
    assert_eq!(
        bench.balances("10.96.0.18"),
        ["10.3.0.1:8080", "10.3.0.2:8080", "10.3.0.3:8080"]
    );
    assert_eq!(bench.planner.reports(), []);
}

/// A table like kube-proxy's: names in common, others besides, one base chain at another priority.
fn foreign_table(kernel: &mut Fake) -> Inventory {
    let base = |name: &str, kind, hook, priority| Chain {
        name: name.into(),
        base: Some(BaseChain {
            kind,
            hook,
            priority,
        }),
    };
    let regular = |name: &str| Chain {
        name: name.into(),
        base: None,
    };
    let chains = vec![
        regular("services"),
        regular("service-X/web"),
        regular("internal-2"),
        base("nat-prerouting", ChainKind::Nat, Hook::Prerouting, -90),
        base("filter-input", ChainKind::Filter, Hook::Input, 0),
        base("filter-old", ChainKind::Filter, Hook::Forward, 5),
    ];
    let jump = |chain: &str, to: &str| Rule {
        chain: chain.into(),
        statements: vec![Statement::Jump(to.into())],
        comment: None,
    };
    let set = crate::plan::Set {
        name: "cluster-ips".into(),
        key: KeyType::Address,
        data: crate::plan::DataType::None,
        interval: false,
        dynamic: false,
        size: None,
    };
    let transaction = Transaction {
        add_table: true,
        add_sets: vec![set],
        add_chains: chains.clone(),
        add_rules: vec![
            jump("services", "service-X/web"),
            jump("nat-prerouting", "services"),
        ],
        ..Transaction::new(Family::Ipv4)
    };
    kernel.apply(&transaction, Duration::ZERO).unwrap();
    Inventory {
        chains,
        sets: vec!["cluster-ips".into()],
    }
}

#[test]
fn a_foreign_table_is_taken_over() {
    let mut bench = Bench::new(Config {
        chunk: 4,
        ..config()
    });
    let found = foreign_table(&mut bench.kernel);
    bench.planner.rebuild(found);
    for i in 1..9 {
        bench.apply(Change::Service(service(
            &format!("s{i}"),
            &format!("10.96.0.{i}"),
        )));
        bench.apply(slice(
            &format!("s{i}"),
            &format!("s{i}"),
            &["10.0.0.1", "10.0.0.2"],
        ));
    }
    bench.drain();
    let chains: Vec<_> = bench.kernel.chains(Family::Ipv4);
    let names: Vec<&str> = chains.iter().map(|(name, _)| &**name).collect();
    assert!(
        !names
            .iter()
            .any(|name| name.contains('/') || *name == "filter-old"),
        "{names:?}"
    );
    assert!(
        names.contains(&"internal-2-1") && !names.contains(&"internal-2"),
        "{names:?}"
    );
    let priority = chains
        .iter()
        .find(|(name, _)| &**name == "nat-prerouting")
        .unwrap()
        .1;
    assert_eq!(priority.unwrap().priority, -100);
    assert_eq!(bench.set("cluster-addresses").len(), 8);
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    assert_eq!(bench.balances("10.96.0.8").len(), 2);

    // And once more, beside our own.
    let found = Inventory {
        chains: chains
            .into_iter()
            .map(|(name, base)| Chain { name, base })
            .collect(),
        sets: bench
            .kernel
            .sets(Family::Ipv4)
            .iter()
            .map(|set| set.name.clone())
            .collect(),
    };
    bench.kernel.forget_history();
    bench.planner.rebuild(found);
    bench.drain();
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    assert_eq!(bench.set("cluster-addresses-1").len(), 8);
    assert_eq!(bench.balances("10.96.0.8").len(), 2);
    bench.check();
}

#[test]
fn a_changed_pod_cidr_is_followed() {
    let mut bench = Bench::new(Config {
        local: crate::config::LocalDetector::NodeCidr,
        ..config()
    });
    let node = |pods: &[&str]| {
        Change::Node(Node {
            name: "here".into(),
            addresses: smallvec!["192.168.0.2".parse().unwrap()],
            pod_cidrs: pods.iter().map(|net| net.parse().unwrap()).collect(),
            zone: None,
            eligible: true,
        })
    };
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(slice("web", "web", &["10.1.0.1"]));
    let masquerades = |bench: &Bench| {
        let verdicts = bench.verdicts("10.96.0.1", 80);
        assert_eq!(verdicts.len(), 1);
        verdicts.iter().any(|it| it.ends_with("masqueraded"))
    };
    let steps: [(&[&str], bool, &[Notice]); 4] = [
        (&["10.0.0.0/16"], false, &[]),
        (&["10.2.0.0/16"], true, &[]),
        (&["fd00::/64", "10.0.9.0/24"], false, &[]),
        (
            &["fd00::/64"],
            false,
            &[Notice::NoLocalDetector(crate::report::Missing::PodCidr)],
        ),
    ];
    for (pods, expected, notices) in steps {
        bench.apply(node(pods));
        bench.drain();
        assert_eq!(masquerades(&bench), expected, "{pods:?}");
        assert_eq!(bench.planner.notices().as_slice(), notices);
        assert_eq!(bench.drain(), 0);
    }
    bench.check();
}
