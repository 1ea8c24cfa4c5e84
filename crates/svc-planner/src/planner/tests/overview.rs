//! What is told in numbers and by Service, and when what came into force happened.

use super::*;

fn triggered(change: Change, times: &[u64]) -> Change {
    match change {
        Change::EndpointSlice(slice) => Change::EndpointSlice(EndpointSlice {
            triggers: times.into(),
            ..slice
        }),
        other => other,
    }
}

fn triggers(bench: &mut Bench) -> Vec<u64> {
    let mut told = Vec::new();
    bench.planner.take_triggers(|time| told.push(time));
    told
}

#[test]
fn triggers_are_told_when_nothing_waits_any_more() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(triggered(slice("a", "web", &["10.0.0.1"]), &[1, 2]));
    assert!(triggers(&mut bench).is_empty());
    bench.settle();
    assert_eq!(triggers(&mut bench), [1, 2]);
    assert!(triggers(&mut bench).is_empty());

    // The same again, or no endpoint of this family, is nothing that could take time.
    bench.apply(triggered(slice("a", "web", &["10.0.0.1"]), &[3]));
    bench.apply(triggered(slice("six", "web", &["fd00::1"]), &[4]));
    bench.settle();
    assert!(triggers(&mut bench).is_empty());

    // Of what is gone the annotation is that of the update before.
    bench.apply(triggered(slice("a", "web", &["10.0.0.2"]), &[5]));
    bench.apply(triggered(slice("b", "web", &["10.0.0.3"]), &[6]));
    bench.apply(Change::EndpointSliceGone(name("a")));
    bench.settle();
    assert_eq!(triggers(&mut bench), [6]);
    bench.apply(triggered(slice("b", "web", &[]), &[7]));
    bench.settle();
    assert_eq!(triggers(&mut bench), [7]);
}

#[test]
fn ports_without_an_endpoint_here_are_counted() {
    let mut bench = Bench::new(config());
    let local = |internal, external, node_port| {
        let mut service = service("web", "10.96.0.1");
        (service.internal_policy, service.external_policy) = (internal, external);
        service.ports[0].node_port = node_port;
        Change::Service(service)
    };
    let counted = |bench: &mut Bench| {
        bench.settle();
        let totals = bench.planner.totals();
        (totals.no_local_internal, totals.no_local_external)
    };
    let (here, any) = (TrafficPolicy::Local, TrafficPolicy::Cluster);
    bench.apply(local(here, here, 30080));
    // Without any endpoint it is no question of where.
    assert_eq!(counted(&mut bench), (0, 0));
    bench.apply(slice("a", "web", &["10.0.0.1"]));
    assert_eq!(counted(&mut bench), (1, 1));
    bench.apply(local(here, any, 30080));
    assert_eq!(counted(&mut bench), (1, 0));
    // It is not reached from outside.
    bench.apply(local(any, here, 0));
    assert_eq!(counted(&mut bench), (0, 0));
    bench.apply(local(here, here, 30080));
    assert_eq!(counted(&mut bench), (1, 1));
    bench.apply(slice("a", "web", &["10.0.0.1", "10.0.0.2@"]));
    assert_eq!(counted(&mut bench), (0, 0));
    bench.apply(slice("a", "web", &["10.0.0.1"]));
    assert_eq!(counted(&mut bench), (1, 1));
    bench.kernel = Fake::new();
    bench.planner.rebuild(Inventory::default());
    assert_eq!(counted(&mut bench), (1, 1));
    bench.apply(Change::ServiceGone(name("web")));
    assert_eq!(counted(&mut bench), (0, 0));
}

#[test]
fn totals_and_services_follow_changes() {
    let mut bench = Bench::new(config());
    for number in 1..=3 {
        let ip = format!("10.96.0.{number}");
        bench.apply(Change::Service(service(&format!("svc{number}"), &ip)));
    }
    bench.apply(slice("a", "svc1", &["10.0.0.1", "10.0.0.2@", "fd00::1"]));
    bench.apply(slice("b", "svc1", &["10.0.0.3"]));
    bench.apply(slice("c", "svc2", &["10.0.0.4"]));
    bench.settle();
    let totals = bench.planner.totals();
    assert_eq!((totals.services, totals.ports, totals.endpoints), (3, 3, 4));
    assert_eq!((totals.classes, totals.groups), (2, 2));
    let rows = |bench: &Bench, set| {
        let fill = bench.planner.set_fills().find(|fill| fill.set == set);
        fill.and_then(|fill| fill.rows)
    };
    assert_eq!(rows(&bench, "endpoints"), Some(4));
    assert_eq!(rows(&bench, "client-affinity"), None);

    // In slices, however small, each is shown once.
    let mut shown = Vec::new();
    let mut from = Some(0);
    while let Some(position) = from {
        from = bench.planner.services(position, 1, |service| {
            shown.push((service.name.to_owned(), service.endpoints, service.local));
        });
    }
    let expected = [("svc1", 3, 1), ("svc2", 1, 0), ("svc3", 0, 0)];
    assert_eq!(
        shown,
        expected.map(|(name, all, here)| (name.to_owned(), all, here))
    );

    let detail = bench.planner.service(&name("svc1"), 0..10).unwrap();
    assert_eq!(
        (detail.all, detail.ready, detail.endpoints.len()),
        (3, 3, 3)
    );
    for part in [0..0, 0..2, 1..3, 2..9, 3..9] {
        let of_part = bench.planner.service(&name("svc1"), part.clone()).unwrap();
        let expected: Vec<_> = detail
            .endpoints
            .iter()
            .skip(part.start)
            .take(part.len())
            .cloned()
            .collect();
        assert_eq!((of_part.all, of_part.endpoints), (3, expected), "{part:?}");
    }
    let (chain, class, group) = detail.frontends[0].route.clone().unwrap();
    assert!(
        chain.starts_with("internal-3") && class > 0 && group > 0,
        "{chain}"
    );
    assert_eq!(bench.planner.service(&name("none"), 0..1), None);

    bench.apply(Change::EndpointSliceGone(name("a")));
    bench.apply(Change::ServiceGone(name("svc2")));
    bench.settle();
    let totals = bench.planner.totals();
    assert_eq!((totals.services, totals.endpoints), (2, 2));
}
