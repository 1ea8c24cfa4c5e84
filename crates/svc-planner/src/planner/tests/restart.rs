//! Snapshots.

use super::*;

#[test]
fn a_restart_over_an_unchanged_table_changes_nothing_and_finishes_what_was_due() {
    let mut bench = Bench::new(config());
    let objects = |bench: &mut Bench, last: &[&str]| {
        for i in 1..6 {
            let text = format!("s{i}");
            let mut web = service(&text, &format!("10.96.0.{i}"));
            web.load_balancer_ips
                .push(format!("192.0.2.{i}").parse().unwrap());
            web.external_policy = TrafficPolicy::Local;
            web.ports[0].node_port = 30_000 + i;
            bench.apply(Change::Service(web));
        }
        for (i, endpoints) in [&["10.0.0.1@", "10.0.0.2"][..], &["10.0.0.3"], &[], last]
            .iter()
            .enumerate()
        {
            let text = format!("s{}", i + 1);
            bench.apply(slice(&text, &text, endpoints));
        }
    };
    objects(&mut bench, &["10.0.0.5", "10.0.0.6@", "10.0.0.7"]);
    bench.drain();
    // Leave deletions due: a tail, and a reject row.
    let last = &["10.0.0.5", "10.0.0.6@"];
    bench.apply(slice("s4", "s4", last));
    bench.settle();
    let snapshot = bench.planner.snapshot().unwrap();
    let text = serde_json::to_string(&snapshot).unwrap();
    let read: Snapshot = serde_json::from_str(&text).unwrap();
    assert_eq!(read, snapshot);
    assert_eq!(
        read.state(),
        *bench.set(&read.state_set()).keys().next().unwrap()
    );
    let restart = |bench: &mut Bench| {
        let read = serde_json::from_str(&text).unwrap();
        bench.planner = Planner::restore(config(), read, bench.now).unwrap();
    };

    restart(&mut bench);
    objects(&mut bench, last);
    assert_eq!(bench.settle(), 0);
    assert_eq!(bench.planner.snapshot().unwrap(), snapshot);
    // The tail goes as if nothing had happened.
    let (before, due) = (bench.set("endpoints").len(), bench.drain());
    assert_eq!((before - bench.set("endpoints").len(), due), (1, 1));
    bench.check();

    // Nobody comes back: everything goes.
    let snapshot = bench.planner.snapshot().unwrap();
    bench.planner = Planner::restore(config(), snapshot, bench.now).unwrap();
    bench.drain();
    for set in [
        "services",
        "nodeports",
        "endpoints",
        "shortcuts",
        "reject-services",
        "cluster-ips",
    ] {
        assert!(bench.set(set).is_empty(), "{set}: {:?}", bench.set(set));
    }
    assert!(bench.set("hairpin-connections").is_empty());
    bench.check();
}

#[test]
fn contradicting_snapshots_are_refused() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(slice("web", "web", &["10.0.0.1@"]));
    bench.drain();
    let saved = serde_json::to_value(bench.planner.snapshot().unwrap()).unwrap();
    let restore = |edit: fn(&mut serde_json::Value)| {
        let mut saved = saved.clone();
        edit(&mut saved);
        Planner::restore(
            config(),
            serde_json::from_value(saved).unwrap(),
            Duration::ZERO,
        )
    };
    assert!(restore(|_| {}).is_ok());
    let edits: [fn(&mut serde_json::Value); 6] = [
        |saved| saved["version"] = 999.into(),
        |saved| saved["sets"] = serde_json::json!([]),
        |saved| saved["classes"] = serde_json::json!([]),
        |saved| saved["groups"] = serde_json::json!([]),
        |saved| saved["hairpins"] = serde_json::json!([]),
        |saved| saved["cluster_ips"] = serde_json::json!(["fd00::1"]),
    ];
    for edit in edits {
        assert!(restore(edit).is_err());
    }
}

#[test]
fn a_restart_before_the_switch_to_a_bigger_set_finishes_it() {
    let mut bench = Bench::new(Config {
        chunk: 100,
        ..config()
    });
    bench.drain();
    let endpoints: Vec<String> = (0..1400)
        .map(|i| format!("10.1.{}.{}", i / 250, i % 250))
        .collect();
    let endpoints: Vec<&str> = endpoints.iter().map(|address| &**address).collect();
    let objects = |bench: &mut Bench| {
        for (i, endpoints) in endpoints.chunks(100).enumerate() {
            let text = format!("s{i}");
            bench.apply(Change::Service(service(
                &text,
                &format!("10.96.0.{}", i + 1),
            )));
            bench.apply(slice(&text, &text, endpoints));
        }
    };
    objects(&mut bench);
    let mut copying = 0;
    let snapshot = loop {
        bench.now += Duration::from_millis(10);
        let Next::Commit(transaction) = bench.planner.next(bench.now) else {
            continue;
        };
        bench.kernel.apply(&transaction, bench.now).unwrap();
        bench.planner.committed(bench.now);
        match &bench.planner.growth {
            None => {}
            Some(growth) if growth.cursor == crate::model::arena::NONE => {
                break bench.planner.snapshot().unwrap();
            }
            Some(_) => {
                assert_eq!(bench.planner.snapshot(), None);
                copying += 1;
            }
        }
    };
    assert!(copying > 3, "{copying}");
    let config = bench.planner.config.clone();
    bench.planner = Planner::restore(config, snapshot, bench.now).unwrap();
    objects(&mut bench);
    bench.drain();
    assert_eq!(bench.set("endpoints-1").len(), 1400);
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    assert_eq!(bench.balances("10.96.0.14").len(), 100);
}
