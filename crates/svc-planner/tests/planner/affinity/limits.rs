//! What affinity has no room for.

use super::*;

/// A full map costs new clients their affinity, and nobody anything else.
#[test]
fn a_full_map_loses_no_connection() {
    let mut driver = driver(Config {
        max_affinity_clients: 5,
        ..Config::default()
    });
    let mut traffic = Traffic { state: 5 };
    driver.change(Change::Service(sticky(1, Some(100))));
    driver.change(pods(1, 1..=9));
    driver.drain();
    let first: Vec<_> = (0..5)
        .map(|number| traffic.send(&mut driver, client(number), To::ClusterIp(1)))
        .collect();
    let mut others = BTreeSet::new();
    for round in 0..30 {
        driver.now += SECOND * 50;
        for (number, before) in (0..5).zip(&first) {
            let reached = traffic.send(&mut driver, client(number), To::ClusterIp(1));
            assert_eq!(reached, *before, "round {round}");
        }
        others.insert(traffic.send(&mut driver, client(99), To::ClusterIp(1)));
    }
    assert!(others.len() > 3, "{others:?}");
}

/// One tenant with a thousand times and counts of endpoints leaves affinity to everybody else.
#[test]
fn distinct_timeouts_and_counts_exhaust_nothing() {
    let mut driver = driver(Config::default());
    for number in 1..=5_000_u16 {
        let [high, low] = number.to_be_bytes();
        let of = format!("svc{number}");
        let address = IpAddr::from([10, 97, high, low]);
        let mut greedy = service(&of, address, &[("http", Protocol::Tcp, 80, 0)]);
        greedy.affinity = Some(17 * u32::from(number));
        driver.planner.apply(Change::Service(greedy));
        let endpoints = (1..=number % 30 + 1).map(|pod| {
            let [_, low_pod] = pod.to_be_bytes();
            endpoint(IpAddr::from([10, high + 100, low, low_pod]), None)
        });
        let slice = slice(&of, &of, &[PORT], endpoints);
        driver.planner.apply(Change::EndpointSlice(slice));
    }
    driver.drain();
    let mut traffic = Traffic { state: 7 };
    for (number, seconds) in [(1, Some(10_800)), (2, Some(60)), (3, None)] {
        let mut service = sticky(number, seconds);
        service.name = name(&format!("own{number}"));
        service.external_policy = TrafficPolicy::Local;
        driver.planner.apply(Change::Service(service));
        let of = format!("own{number}");
        let endpoints = (1..=3).map(|pod| endpoint(IpAddr::from([10, 1, number, pod]), Some(HERE)));
        let slice = slice(&of, &of, &[PORT], endpoints);
        driver.planner.apply(Change::EndpointSlice(slice));
    }
    driver.drain();
    for report in driver.planner.reports() {
        match report.reason {
            Reason::AffinityTimeout { asked, used } => assert!(asked < used, "{report:?}"),
            Reason::NoClass { .. } => {}
            other => panic!("{}: {other}", report.port),
        }
    }
    for to in [To::ClusterIp, To::External, To::NodePort] {
        for number in 0..20 {
            for service in 1..=2 {
                let reached = traffic.send(&mut driver, client(number), to(service));
                assert_eq!(
                    traffic.send(&mut driver, client(number), to(service)),
                    reached
                );
            }
            traffic.send(&mut driver, client(number), to(3));
        }
    }
    let classes = driver.planner.classes();
    assert!(classes <= 4_095, "{classes}");
}
