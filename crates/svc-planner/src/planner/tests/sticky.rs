//! Clients that stick to endpoints, when addresses change hands.

use super::*;

const EXTERNAL: &str = "192.0.2.7";

/// A Service with the external address, or without.
fn holder(text: &str, ip: &str, holds: bool, affinity: Option<u32>) -> Change {
    let mut service = service(text, ip);
    if holds {
        service.external_ips.push(EXTERNAL.parse().unwrap());
    }
    service.affinity = affinity;
    Change::Service(service)
}

#[test]
fn an_address_that_left_costs_a_service_its_clients_once() {
    let mut bench = Bench::new(config());
    let first = |holds| holder("first", "10.96.0.1", holds, Some(600));
    let second = |holds| holder("second", "10.96.0.2", holds, None);
    let third = |holds| holder("third", "10.96.0.3", holds, None);
    for (change, name, endpoint) in [
        (first(true), "first", "10.0.0.1"),
        (second(false), "second", "10.0.0.2"),
        (third(false), "third", "10.0.0.3"),
    ] {
        bench.apply(change);
        bench.apply(slice(name, name, &[endpoint]));
    }
    bench.drain();
    let numbers = bench.set("sticky-endpoints");
    bench.apply(first(false));
    bench.drain();
    assert_eq!(bench.set("sticky-endpoints"), numbers, "nobody else has it");
    bench.apply(second(true));
    bench.drain();
    let renumbered = bench.set("sticky-endpoints");
    assert_ne!(renumbered, numbers, "remembered clients of the address");
    bench.apply(second(false));
    bench.drain();
    bench.apply(third(true));
    bench.drain();
    assert_eq!(bench.set("sticky-endpoints"), renumbered);
    bench.check();
}
