//! The work for a change depends on the change, not on the cluster.

use core::net::IpAddr;

use svc_planner::config::Config;
use svc_planner::fake::{Host, Packet, quiescence};
use svc_planner::object::{Change, Protocol};
use svc_planner::plan::Family;

use crate::driver::Driver;
use crate::objects::{self, endpoint};

const PORT: &str = "http";

fn name(number: u16) -> String {
    format!("svc{number}")
}

fn service(number: u16) -> Change {
    let [high, low] = number.to_be_bytes();
    let cluster_ip = IpAddr::from([10, 96, high, low]);
    let ports = [(PORT, Protocol::Tcp, 80, 0)];
    let mut service = objects::service(&name(number), cluster_ip, &ports);
    service.external_ips.push(IpAddr::from([192, 0, high, low]));
    Change::Service(service)
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

/// A settled cluster of so many Services with three endpoints each.
fn cluster(services: u16) -> Driver {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    for number in 0..services {
        driver.change(service(number));
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
