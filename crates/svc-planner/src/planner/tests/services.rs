//! Services and their endpoints.

use super::*;

#[test]
fn a_service_is_balanced_and_its_change_costs_what_it_changes() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("web", "10.96.0.1")));
    bench.apply(slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]));
    assert_eq!(bench.drain(), 5); // class, ClusterIP, frontend, two slots
    assert_eq!(
        bench.balances("10.96.0.1"),
        ["10.0.0.1:8080", "10.0.0.2:8080"]
    );

    // One endpoint for another: one slot.
    bench.apply(slice("web-a", "web", &["10.0.0.1", "10.0.0.3"]));
    assert_eq!(bench.drain(), 2);
    // Nothing new: nothing.
    bench.apply(slice("web-a", "web", &["10.0.0.3", "10.0.0.1"]));
    assert_eq!(bench.drain(), 0);
    // One more: class, slot, frontend.
    bench.apply(slice("web-a", "web", &["10.0.0.1", "10.0.0.3", "10.0.0.4"]));
    assert_eq!(bench.drain(), 1 + 1 + 2);
    // One less: hole, frontend; the tail later.
    bench.apply(slice("web-a", "web", &["10.0.0.3", "10.0.0.4"]));
    assert_eq!(bench.settle(), 2 + 2);
    assert_eq!(bench.drain(), 1);
    assert_eq!(
        bench.balances("10.96.0.1"),
        ["10.0.0.3:8080", "10.0.0.4:8080"]
    );

    bench.apply(Change::ServiceGone(name("web")));
    assert_eq!(bench.settle(), 2);
    assert_eq!(bench.drain(), 2);
    for set in [
        "services",
        "endpoints",
        "cluster-addresses",
        "reject-services",
    ] {
        assert!(bench.set(set).is_empty(), "{set}");
    }
    bench.check();
}

#[test]
fn a_service_without_endpoints_is_refused_on_all_its_frontends() {
    let mut bench = Bench::new(config());
    let mut web = service("web", "10.96.0.1");
    web.external_ips.push("192.0.2.1".parse().unwrap());
    web.load_balancer_ips.push("192.0.2.2".parse().unwrap());
    web.ports[0].node_port = 30_001;
    bench.apply(Change::Service(web));
    bench.drain();
    assert_eq!(bench.set("reject-services").len(), 3);
    assert_eq!(bench.set("reject-nodeports").len(), 1);
    // The refusal outlives the first endpoint.
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.settle();
    assert_eq!(bench.set("services").len(), 3);
    assert_eq!(bench.set("nodeports").len(), 1);
    assert_eq!(bench.set("reject-services").len(), 3);
    bench.drain();
    assert!(bench.set("reject-services").is_empty());
    assert!(bench.set("reject-nodeports").is_empty());
    // And is back with the last one's end, while its slot stays for a while.
    bench.apply(Change::EndpointSliceGone(name("web-a")));
    bench.settle();
    assert!(bench.set("services").is_empty());
    assert_eq!(bench.set("reject-services").len(), 3);
    assert_eq!(bench.set("endpoints").len(), 1);
    bench.drain();
    assert!(bench.set("endpoints").is_empty());
    bench.check();
}

#[test]
fn the_older_service_owns_a_shared_address() {
    let mut bench = Bench::new(config());
    for (text, ip, created) in [("young", "10.96.0.1", 5), ("old", "10.96.0.2", 3)] {
        let mut service = service(text, ip);
        service.created = Some(created);
        service.external_ips.push("192.0.2.1".parse().unwrap());
        bench.apply(Change::Service(service));
    }
    bench.apply(slice("a", "young", &["10.0.0.1"]));
    bench.apply(slice("b", "old", &["10.0.0.2"]));
    bench.drain();
    let served = |bench: &Bench| bench.balances("192.0.2.1");
    assert_eq!(served(&bench), ["10.0.0.2:8080, masqueraded"]);
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(&*report.port.service.name, "young");
    bench.apply(Change::ServiceGone(name("old")));
    bench.drain();
    assert_eq!(served(&bench), ["10.0.0.1:8080, masqueraded"]);
    assert_eq!(bench.planner.reports(), []);
}

#[test]
fn node_ports_are_served_on_the_nodes_address() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Node(Node {
        name: "here".into(),
        addresses: smallvec![
            "192.168.0.2".parse().unwrap(),
            "192.168.1.2".parse().unwrap()
        ],
        pod_cidrs: smallvec![],
        zone: None,
        eligible: true,
    }));
    bench.drain();
    let listed: Vec<_> = bench.set("nodeport-ips").keys().copied().collect();
    assert_eq!(listed, [Key::Address("192.168.0.2".parse().unwrap())]);
}

#[test]
fn policy_local_keeps_external_clients_on_this_node() {
    let mut bench = Bench::new(Config {
        local: crate::config::LocalDetector::Cidr("10.0.0.0/8".parse().unwrap()),
        ..config()
    });
    let mut web = service("web", "10.96.0.1");
    web.load_balancer_ips.push("192.0.2.1".parse().unwrap());
    web.external_policy = TrafficPolicy::Local;
    web.internal_policy = TrafficPolicy::Local;
    bench.apply(Change::Service(web));
    bench.apply(slice("web-a", "web", &["10.0.0.1@", "10.0.0.2"]));
    bench.drain();
    let external = |bench: &Bench| -> Vec<String> {
        let [source, vip] = ["203.0.113.2", "192.0.2.1"].map(|ip| ip.parse().unwrap());
        let packet = Packet::arriving("eth0", source, vip, Protocol::Tcp, 80);
        let outcomes = bench.kernel.outcomes(&packet, &host()).into_iter();
        outcomes
            .map(|(outcome, _)| outcome.verdict.to_string())
            .collect()
    };
    assert_eq!(external(&bench), ["delivered to 10.0.0.1:8080"]);
    assert_eq!(
        bench.balances("192.0.2.1"),
        ["10.0.0.1:8080", "10.0.0.2:8080"]
    );
    assert_eq!(bench.balances("10.96.0.1"), ["10.0.0.1:8080"]);
    // None left here: silence, but pods still reach the others through the shortcut.
    bench.apply(slice("web-a", "web", &["10.0.0.3", "10.0.0.2"]));
    bench.drain();
    assert_eq!(external(&bench), ["dropped"]);
    assert_eq!(
        bench.balances("192.0.2.1"),
        ["10.0.0.2:8080", "10.0.0.3:8080"]
    );
    assert_eq!(bench.balances("10.96.0.1"), ["dropped"]);
    bench.apply(Change::EndpointSliceGone(name("web-a")));
    bench.drain();
    assert_eq!(external(&bench), ["rejected"]);
    assert!(bench.set("shortcuts").is_empty() && bench.set("endpoints").is_empty());
    bench.check();
}

#[test]
fn what_a_cluster_ip_without_a_local_endpoint_does_may_be_changed() {
    let mut bench = Bench::new(config());
    let mut web = service("web", "10.96.0.1");
    web.internal_policy = TrafficPolicy::Local;
    bench.apply(Change::Service(web));
    bench.apply(slice("web-a", "web", &["10.0.0.2"]));
    bench.drain();
    assert_eq!(bench.balances("10.96.0.1"), ["dropped"]);
    bench.planner.reconfigure(Config {
        no_local_endpoint: crate::config::NoLocalEndpoint::Reject,
        ..config()
    });
    bench.drain();
    assert_eq!(bench.balances("10.96.0.1"), ["rejected"]);
    bench.planner.reconfigure(config());
    bench.drain();
    assert_eq!(bench.balances("10.96.0.1"), ["dropped"]);
    bench.check();
}

#[test]
fn a_change_of_node_port_addresses_loses_no_connection() {
    let node = Node {
        name: "here".into(),
        addresses: smallvec!["192.168.0.2".parse().unwrap()],
        pod_cidrs: smallvec![],
        zone: None,
        eligible: true,
    };
    let mut bench = Bench::new(config());
    bench.apply(Change::Node(node));
    let mut web = service("web", "10.96.0.1");
    web.ports[0].node_port = 30_001;
    bench.apply(Change::Service(web));
    bench.apply(slice("web", "web", &["10.0.0.1"]));
    bench.drain();
    bench.planner.reconfigure(Config {
        node_port_addresses: crate::config::NodePortAddresses::ALL,
        ..config()
    });
    bench.settle();
    assert_eq!(bench.set("nodeport-ips").len(), 1);
    bench.drain();
    assert!(bench.set("nodeport-ips").is_empty());
    bench.planner.reconfigure(config());
    bench.drain();
    assert_eq!(bench.set("nodeport-ips").len(), 1);
    let delivered = "delivered to 10.0.0.1:8080, masqueraded".to_owned();
    assert_eq!(bench.verdicts("192.168.0.2", 30_001), [delivered].into());
    bench.check();
}
