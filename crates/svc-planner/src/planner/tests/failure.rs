//! Rejections and limits.

use super::*;

#[test]
fn a_rejected_transaction_leaves_no_trace() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(slice("web-a", "web", &["10.0.0.1@", "10.0.0.2"]));
    bench.drain();
    bench.apply(slice(
        "web-a",
        "web",
        &["10.0.0.4@", "10.0.0.2", "10.0.0.3"],
    ));
    bench.apply(Change::Service(service("api", "10.96.0.2")));
    let mut previous = None;
    for _ in 0..3 {
        let Next::Commit(transaction) = bench.planner.next(bench.now) else {
            panic!("nothing to commit");
        };
        bench.planner.rejected(bench.now, &[]);
        let rows = transaction.rows();
        assert!(
            previous.is_none_or(|previous| previous == rows),
            "{transaction:#?}"
        );
        previous = Some(rows);
    }
    bench.drain();
    assert_eq!(
        bench.balances("10.96.0.1"),
        ["10.0.0.2:8080", "10.0.0.3:8080", "10.0.0.4:8080"]
    );
    assert_eq!(bench.set("hairpin-connections").len(), 1);
}

#[test]
fn an_offender_is_set_aside_until_it_changes() {
    let mut bench = Bench::new(config());
    bench.drain();
    for (text, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2")] {
        bench.apply(Change::Service(service(text, ip)));
        bench.apply(slice(text, text, &["10.0.0.1"]));
    }
    bench.settle();
    bench.apply(slice("a", "a", &["10.0.0.3"]));
    bench.apply(slice("b", "b", &["10.0.0.3"]));
    let Next::Commit(transaction) = bench.planner.next(bench.now) else {
        panic!("nothing to commit");
    };
    let change = &transaction.elements[0];
    assert_eq!(&*change.set, "endpoints");
    let offender = bench.planner.owner(&change.delete[0]).unwrap();
    bench
        .planner
        .rejected(bench.now, core::slice::from_ref(&offender));
    bench.settle();
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(
        (&report.port, &report.reason),
        (&offender, &Reason::SetAside)
    );
    let moved = ["10.96.0.1", "10.96.0.2"].map(|ip| bench.balances(ip) == ["10.0.0.3:8080"]);
    assert_eq!(moved.iter().filter(|moved| **moved).count(), 1);
    let text = offender.service.name;
    bench.apply(slice(&text, &text, &["10.0.0.4"]));
    bench.settle();
    assert_eq!(bench.planner.reports(), []);
}

#[test]
fn what_is_set_aside_is_tried_again_after_ever_longer_pauses() {
    let mut bench = Bench::new(config());
    for (text, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2")] {
        bench.apply(Change::Service(service(text, ip)));
        bench.apply(slice(text, text, &["10.0.0.1"]));
    }
    bench.drain();
    let both = ["a", "b"].map(|service| PortName {
        service: name(service),
        port: "http".into(),
        protocol: Protocol::Tcp,
    });
    for text in ["a", "b"] {
        bench.apply(slice(text, text, &["10.0.0.3"]));
    }
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let start = bench.now;
        loop {
            match bench.planner.next(bench.now) {
                Next::Commit(_) => break,
                Next::WaitUntil(time) => bench.now = time,
                next => panic!("{next:?}, but both are tried again, together"),
            }
        }
        pauses.push((bench.now - start).as_secs().div_ceil(60));
        bench.planner.rejected(bench.now, &both);
        assert_eq!(bench.planner.reports().len(), 2);
    }
    // Minutes, up to a full one.
    assert_eq!(pauses, [0, 2, 2, 4, 8, 16, 32, 64]);
    // In the end it works.
    bench.drain();
    assert_eq!(bench.planner.reports(), []);
    assert_eq!(bench.balances("10.96.0.2"), ["10.0.0.3:8080"]);
    assert_eq!(bench.planner.next(bench.now), Next::Idle);
}

/// The kernel may have been short of memory for a moment.
#[test]
fn what_was_refused_alone_is_tried_again_soon() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("a", "10.96.0.1")));
    bench.apply(slice("a", "a", &["10.0.0.1"]));
    bench.drain();
    bench.apply(slice("a", "a", &["10.0.0.3"]));
    let mut pauses = Vec::new();
    for _ in 0..5 {
        let start = bench.now;
        loop {
            match bench.planner.next(bench.now) {
                Next::Commit(_) => break,
                Next::WaitUntil(time) => bench.now = time,
                next => panic!("{next:?}, but it is tried again"),
            }
        }
        let pause = (bench.now - start).as_secs();
        pauses.push(pause);
        let Narrowed::Alone(name) = bench.planner.narrow(bench.now) else {
            panic!("it is about one port");
        };
        let is_first = bench.planner.suspect(bench.now, &name);
        assert_eq!(is_first, pauses.len() == 1);
        assert_eq!(bench.planner.reports().len(), 1);
    }
    let mut bounds = pauses.iter().zip([0..=0, 1..=2, 2..=3, 4..=5, 8..=9]);
    assert!(bounds.all(|(it, bound)| bound.contains(it)), "{pauses:?}");
    bench.drain();
    assert_eq!(bench.planner.reports(), []);
    assert_eq!(bench.balances("10.96.0.1"), ["10.0.0.3:8080"]);
}

#[test]
fn what_was_set_aside_and_is_gone_leaves_nothing() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("a", "10.96.0.1")));
    bench.apply(slice("a", "a", &["10.0.0.1@"]));
    bench.drain();
    bench.apply(slice("a", "a", &["10.0.0.2@"]));
    assert!(matches!(bench.planner.next(bench.now), Next::Commit(_)));
    let key = Key::Hairpin {
        address: "10.0.0.2".parse().unwrap(),
        protocol: Protocol::Tcp,
        port: 8080,
    };
    let owners = bench.planner.owners(&key);
    let address = Key::Address("10.96.0.1".parse().unwrap());
    assert_eq!(owners, bench.planner.owners(&address));
    assert_eq!(owners.len(), 1);
    bench.planner.rejected(bench.now, &owners);
    bench.settle();
    bench.apply(Change::ServiceGone(name("a")));
    bench.apply(Change::EndpointSliceGone(name("a")));
    bench.drain();
    for set in [
        "services",
        "endpoints",
        "cluster-addresses",
        "hairpin-connections",
    ] {
        assert_eq!(bench.set(set), BTreeMap::new(), "{set}");
    }
    assert_eq!(bench.planner.reports(), []);
    assert_eq!(bench.planner.next(bench.now), Next::Idle);
}

#[test]
fn a_map_at_its_limit_refuses_by_name_and_serves_the_rest() {
    let mut bench = Bench::new(Config {
        max_rows: 3,
        ..config()
    });
    for (text, ip) in [("a", "10.96.0.1"), ("b", "10.96.0.2")] {
        bench.apply(Change::Service(service(text, ip)));
        bench.apply(slice(text, text, &["10.0.0.1", "10.0.0.2"]));
    }
    bench.drain();
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(
        (&*report.port.service.name, &report.reason),
        ("b", &Reason::MapFull { map: "endpoints" })
    );
    assert_eq!(bench.balances("10.96.0.1").len(), 2);
    bench.apply(Change::ServiceGone(name("a")));
    bench.drain();
    assert_eq!(bench.planner.reports(), []);
    assert_eq!(bench.balances("10.96.0.2").len(), 2);
    bench.check();
}

#[test]
fn without_classes_left_a_service_is_balanced_over_some_of_its_endpoints() {
    let mut bench = Bench::new(Config {
        max_classes: 34,
        ..config()
    });
    bench.drain();
    let addresses: Vec<String> = (1..=40).map(|i| format!("10.0.0.{i}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(|address| &**address).collect();
    for count in 1..=40 {
        let text = format!("s{count}");
        bench.apply(Change::Service(service(&text, &format!("10.96.0.{count}"))));
        bench.apply(slice(&text, &text, &addresses[..count]));
        bench.drain();
    }
    assert_eq!(bench.planner.classes(), 32);
    let reports = bench.planner.reports();
    assert_eq!(reports.len(), 8);
    for report in reports {
        let count: u32 = report.port.service.name[1..].parse().unwrap();
        assert_eq!(report.reason, Reason::NoClass { slots: count });
        assert_eq!(bench.balances(&format!("10.96.0.{count}")).len(), 32);
    }
    // Small shapes still have numbers; and what becomes free is used.
    bench.apply(slice("s40", "s40", &[]));
    let mut web = service("web", "10.96.1.1");
    web.external_ips.push("192.0.2.1".parse().unwrap());
    bench.apply(Change::Service(web));
    bench.apply(slice("web", "web", &["10.0.0.1"]));
    bench.drain();
    assert_eq!(bench.balances("192.0.2.1").len(), 1);
    assert_eq!(bench.planner.classes(), 33);
}

#[test]
fn a_shape_that_cannot_be_had_waits_for_one_that_comes_with_the_same_transaction() {
    let mut bench = Bench::new(Config {
        max_classes: 34,
        ..config()
    });
    let addresses: Vec<String> = (1..=40).map(|i| format!("10.0.0.{i}")).collect();
    let addresses: Vec<&str> = addresses.iter().map(|address| &**address).collect();
    for count in 1..=40 {
        let text = format!("s{count}");
        bench.apply(Change::Service(service(&text, &format!("10.96.0.{count}"))));
        bench.apply(slice(&text, &text, &addresses[..count]));
    }
    bench.drain();
    for count in 1..=40 {
        let served = bench.balances(&format!("10.96.0.{count}")).len();
        assert_eq!(served, count.min(32));
    }
    assert_eq!(bench.planner.reports().len(), 8);
    bench.check();
}
