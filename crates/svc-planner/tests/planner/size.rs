//! The work for a change depends on the change, not on the cluster.

use core::net::IpAddr;

use smallvec::SmallVec;
use svc_planner::config::Config;
use svc_planner::fake::{Host, Packet, quiescence};
use svc_planner::object::{Change, Node, Protocol, Service, TrafficPolicy};
use svc_planner::plan::Family;

use crate::driver::Driver;
use crate::objects::{self, endpoint};

const PORT: &str = "http";

fn name(number: u16) -> String {
    format!("svc{number}")
}

fn service(number: u16) -> Change {
    changed(number, |_| ())
}

/// The Service in another shape.
fn changed(number: u16, change: impl FnOnce(&mut Service)) -> Change {
    let [high, low] = number.to_be_bytes();
    let cluster_ip = IpAddr::from([10, 96, high, low]);
    let ports = [(PORT, Protocol::Tcp, 80, 0)];
    let mut service = objects::service(&name(number), cluster_ip, &ports);
    service.external_ips.push(IpAddr::from([192, 0, high, low]));
    change(&mut service);
    Change::Service(service)
}

/// The first pods of a Service, of which the last is about to go.
fn terminating(number: u16, pods: u8) -> Change {
    let mut change = slice(number, 1..=pods);
    if let Change::EndpointSlice(slice) = &mut change
        && let Some(last) = slice.endpoints.last_mut()
    {
        (last.ready, last.terminating) = (false, true);
    }
    change
}

/// The node at an address, of which there is also an interface.
fn node(host: u8) -> [Change; 2] {
    let address = IpAddr::from([172, 16, 0, host]);
    let node = Node {
        name: Config::default().node_name,
        addresses: [address].into_iter().collect(),
        pod_cidrs: SmallVec::new(),
        zone: None,
        eligible: true,
    };
    [Change::HostAddresses(vec![address]), Change::Node(node)]
}

fn slice(number: u16, pods: impl IntoIterator<Item = u8>) -> Change {
    let [high, low] = number.to_be_bytes();
    let endpoints = pods
        .into_iter()
        .map(|pod| endpoint(IpAddr::from([10, high, low, pod]), None));
    let ports = [(PORT, Protocol::Tcp, 8080)];
    let name = name(number);
    Change::EndpointSlice(objects::slice(&name, &name, &ports, endpoints))
}

/// A settled cluster of so many Services with three endpoints each, one in two with a node port.
fn cluster(services: u16) -> Driver {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    for change in node(1) {
        driver.change(change);
    }
    for number in 0..services {
        driver.change(changed(number, |service| {
            if number % 2 == 0 {
                service.ports[0].node_port = 20_000 + number;
            }
        }));
        driver.change(slice(number, 1..=3));
    }
    driver.drain();
    driver
}

/// Operations until all is done, deferred deletions included.
fn operations(driver: &mut Driver, change: Change) -> usize {
    driver.change(change);
    driver.drain()
}

/// What changes, how many operations that may cost, and how it is done.
type Retyping = (&'static str, usize, fn(&mut Service));

/// What a Service may become, and how much it may cost to become it or to become what it was.
fn retypings() -> [Retyping; 7] {
    [
        ("NodePort", 40, |it| it.ports[0].node_port = 31_000),
        ("LoadBalancer with source ranges", 40, |it| {
            it.load_balancer_ips.push(IpAddr::from([198, 18, 0, 7]));
            it.source_ranges.push(IpAddr::from([203, 0, 113, 9]).into());
        }),
        ("without external IPs", 40, |it| it.external_ips.clear()),
        ("internal policy Local", 40, |it| {
            it.internal_policy = TrafficPolicy::Local;
        }),
        ("external policy Local", 40, |it| {
            it.external_policy = TrafficPolicy::Local;
        }),
        ("session affinity", 60, |it| it.affinity = Some(600)),
        ("a port of another number", 40, |it| it.ports[0].port = 81),
    ]
}

#[test]
fn changes_cost_the_same_in_small_and_large_clusters() {
    let costs = [20, 2_000].map(|services| {
        let mut driver = cluster(services);
        let mut costs = Vec::new();
        // Each also replaces the row that marks the state, in each transaction.
        let mut cost = |what, change, at_most| {
            let operations = operations(&mut driver, change);
            assert!(
                operations <= at_most,
                "{what}: {operations} operations in a cluster of {services}"
            );
            costs.push((what, operations));
        };
        cost("no change", slice(7, 1..=3), 0);
        cost("replace an endpoint", slice(7, [1, 2, 9]), 2 + 2);
        cost(
            "remove a Service",
            Change::ServiceGone(objects::name(&name(5))),
            3 + 3 + 2 * 2,
        );
        cost("add a Service", service(5), 3 + 3 + 2);
        // A class of four slots for ClusterIPs and one for external IPs comes first.
        cost("add an endpoint", slice(7, [1, 2, 9, 4]), 24);
        cost("remove it again", slice(7, [1, 2, 9]), 30);
        cost("no endpoint left", slice(7, []), 24);
        cost("endpoints again", slice(7, 1..=3), 24);
        cost("an endpoint terminates", terminating(7, 3), 30);
        cost("the last one terminates", terminating(7, 1), 30);
        cost("all are ready again", slice(7, 1..=3), 30);
        for (what, at_most, change) in retypings() {
            cost(what, changed(7, change), at_most);
            cost(what, service(7), at_most);
        }
        // However many Services have a node port.
        for change in node(2) {
            cost("the node's address", change, 8);
        }
        costs
    });
    assert_eq!(costs[0], costs[1]);
}

#[test]
fn a_hundred_endpoints_less_one_move_one() {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    driver.change(service(1));
    driver.change(slice(1, 1..=100));
    // Classes with 99 slots are there already.
    driver.change(service(2));
    driver.change(slice(2, 1..=99));
    driver.drain();
    // The count of two frontends, the last endpoint into the hole, the tail, later its deletion.
    let shrink = operations(&mut driver, slice(1, (1..=100).filter(|pod| *pod != 50)));
    assert!(shrink <= 40, "{shrink} operations");
    assert_eq!(driver.endpoint_rows(), 99 + 99);
}

/// Classes out of use are kept for a while; when there are too many, the oldest go.
#[test]
fn shapes_of_the_past_do_not_pile_up() {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    driver.change(service(1));
    let mut most = 0;
    for pods in (1..=200).rev() {
        driver.change(slice(1, 1..=pods));
        driver.drain();
        most = most.max(driver.class_chains().len());
    }
    // Of the ClusterIP and of the external IP.
    assert!(most <= 2 + 64 + 2, "{most} classes at the same time");
    assert_eq!(driver.endpoint_rows(), 1);
    let to = Packet::arriving(
        "eth0",
        IpAddr::from([203, 0, 113, 1]),
        IpAddr::from([10, 96, 0, 1]),
        Protocol::Tcp,
        80,
    );
    let host = Host::new([IpAddr::from([192, 168, 0, 1])]);
    driver.compare(core::slice::from_ref(&to), &host);
    let Config { hold, .. } = driver.config;
    let order = quiescence::check_order(&driver.kernel, Family::Ipv4, hold);
    assert_eq!(order, []);
}
