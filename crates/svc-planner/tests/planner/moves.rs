//! Endpoints that move between the slices of a Service, and slices of a thousand endpoints.

use core::net::IpAddr;
use core::ops::Range;

use svc_planner::config::Config;
use svc_planner::fake::Host;
use svc_planner::object::{Change, Node, Protocol};
use svc_planner::plan::Family;

use crate::driver::Driver;
use crate::objects::{endpoint, ip, name, node, service, slice};

const NODE_IP: &str = "192.168.0.1";
const PORTS: [(&str, Protocol, u16); 2] =
    [("dns", Protocol::Udp, 5353), ("web", Protocol::Tcp, 8080)];
/// The controller's upper limit for a slice.
const FULL: u16 = 1_000;

fn address(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::from([10, 1, high, low])
}

/// A slice of the Service `web` with these endpoints.
fn part(text: &str, numbers: impl IntoIterator<Item = u16>) -> Change {
    let endpoints = numbers
        .into_iter()
        .map(|number| endpoint(address(number), None));
    Change::EndpointSlice(slice(text, "web", &PORTS, endpoints))
}

/// Serves a UDP and a TCP port whose clients stick, from two slices.
fn serving(one: Range<u16>, other: Range<u16>) -> Driver {
    let mut driver = Driver::new(
        Family::Ipv4,
        Config {
            node_name: "here".into(),
            ..Config::default()
        },
    );
    let here: Node = node("here", &[NODE_IP]);
    driver.change(Change::Node(here));
    let ports = [
        ("dns", Protocol::Udp, 53, 30_053),
        ("web", Protocol::Tcp, 80, 30_080),
    ];
    let mut web = service("web", ip("10.96.0.1"), &ports);
    web.affinity = Some(600);
    driver.change(Change::Service(web));
    driver.change(part("one", one));
    driver.change(part("other", other));
    driver.drain();
    let told = driver.planner.take_flow_changes().unwrap();
    assert!(!told.is_empty(), "that it is served");
    driver
}

/// Nothing is sent, so that no row of a client, an endpoint's id or anything else is touched; nothing
/// is told of flows.
fn assert_untouched(driver: &mut Driver, what: &str) {
    assert_eq!(driver.drain(), 0, "{what}: operations");
    let told = driver.planner.take_flow_changes().unwrap();
    assert!(told.is_empty(), "{what}: {told:?}");
}

#[test]
fn nobody_notices_an_endpoint_that_moves_by_way_of_both_slices() {
    let mut driver = serving(0..2, 2..4);
    driver.change(part("other", 1..4));
    assert_untouched(&mut driver, "in both");
    driver.change(part("one", 0..1));
    assert_untouched(&mut driver, "in the other");
    driver.change(part("one", 0..4));
    assert_untouched(&mut driver, "all in both");
    driver.change(Change::EndpointSliceGone(name("other")));
    assert_untouched(&mut driver, "a slice less");
}

#[test]
fn nobody_notices_an_endpoint_that_is_in_neither_slice_for_a_moment() {
    let mut driver = serving(0..2, 2..4);
    driver.change(part("one", 0..1));
    driver.change(part("other", 1..4));
    assert_untouched(&mut driver, "one that moves");
    driver.change(Change::EndpointSliceGone(name("one")));
    driver.change(Change::EndpointSliceGone(name("other")));
    driver.change(part("again", [3, 1, 0, 2]));
    assert_untouched(&mut driver, "all that move, in another order");
}

#[test]
fn slices_of_a_thousand_endpoints_are_reshuffled_unnoticed() {
    let mut driver = serving(0..FULL, FULL..2 * FULL);
    driver.change(part("one", (0..FULL).rev()));
    assert_untouched(&mut driver, "another order");
    driver.change(part("one", FULL / 2..FULL));
    driver.change(part("third", 0..FULL / 2));
    assert_untouched(&mut driver, "one slice becomes two");
    let halves = |odd: u16| (0..2 * FULL).filter(move |number| number % 2 == odd);
    driver.change(Change::EndpointSliceGone(name("third")));
    driver.change(part("one", halves(1)));
    driver.change(part("other", halves(0)));
    assert_untouched(&mut driver, "all are dealt anew");

    // One that does go is the only one.
    driver.change(part("other", halves(0).skip(1)));
    driver.drain();
    let told = driver.planner.take_flow_changes().unwrap();
    assert!(!told.is_empty(), "one that goes");
    let host = Host::new([ip(NODE_IP)]);
    driver.compare(&[], &host);
}
