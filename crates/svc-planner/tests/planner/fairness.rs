//! One namespace that asks for as much as it can: the others are served all the same.

use core::net::IpAddr;

use proptest::prelude::*;
use svc_planner::config::Config;
use svc_planner::fake::{Host, Packet, Verdict};
use svc_planner::object::{Change, Protocol, Service};
use svc_planner::plan::Family;

use crate::driver::Driver;
use crate::objects::{endpoint, ip, service, slice};

const HTTP: &str = "http";
const CLIENT: &str = "203.0.113.9";

/// What a Service of the greedy namespace has of its own.
#[derive(Debug, Clone, Copy)]
struct Greed {
    endpoints: bool,
    timeout: bool,
    ranges: bool,
}

fn numbered(first: [u8; 2], number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::from([first[0], first[1], high, low])
}

/// Service number `number` of a namespace, reached at a ClusterIP and a load balancer's address.
fn balanced(namespace: &str, number: u16) -> Service {
    let name = format!("{namespace}-{number}");
    let mut service = service(
        &name,
        numbered([10, 96], number),
        &[(HTTP, Protocol::Tcp, 80, 0)],
    );
    service.name.namespace = namespace.into();
    service.load_balancer_ips.push(numbered([198, 18], number));
    service
}

fn endpoints(service: &Service, number: u16, count: u16) -> Change {
    let name = &service.name.name;
    let pods = (0..count).map(|pod| endpoint(numbered([100, 64], number * 32 + pod), None));
    let mut slice = slice(name, name, &[(HTTP, Protocol::Tcp, 8080)], pods);
    slice.name.namespace = service.name.namespace.clone();
    Change::EndpointSlice(slice)
}

/// The greedy namespace's Service: its own number of endpoints, timeout and ranges, as it likes.
fn greedy(greed: Greed, number: u16) -> [Change; 2] {
    let mut service = balanced("greedy", number);
    if greed.timeout {
        service.affinity = Some(u32::from(number) + 1);
    }
    if greed.ranges {
        let own = [numbered([192, 0], number), numbered([192, 1], number)];
        service.source_ranges = own.into_iter().map(Into::into).collect();
    }
    let count = if greed.endpoints { number % 20 + 1 } else { 2 };
    let slice = endpoints(&service, number, count);
    [Change::Service(service), slice]
}

/// The others, from number 2,000 on: with few endpoints each, some sticky, all restricted.
fn modest(number: u16) -> [Change; 2] {
    let mut service = balanced(&format!("modest{}", number % 5), 2_000 + number);
    service.affinity = number.is_multiple_of(3).then_some(10_800);
    service
        .source_ranges
        .push("203.0.113.0/24".parse().unwrap());
    service
        .source_ranges
        .push(numbered([192, 2], number).into());
    let slice = endpoints(&service, 2_000 + number, number % 4 + 1);
    [Change::Service(service), slice]
}

fn served(driver: &Driver, to: IpAddr) -> usize {
    let host = Host::new([ip("192.168.0.1")]);
    let packet = Packet::arriving("eth0", ip(CLIENT), to, Protocol::Tcp, 80);
    let outcomes = driver.kernel.outcomes(&packet, &host).into_iter();
    let verdicts: std::collections::BTreeSet<_> =
        outcomes.map(|(outcome, _)| outcome.verdict).collect();
    let delivered = |verdict: &Verdict| matches!(verdict, Verdict::Delivered { .. });
    assert!(verdicts.iter().all(delivered), "{to}: {verdicts:?}");
    verdicts.len()
}

fn greed() -> impl Strategy<Value = Greed> {
    any::<[bool; 3]>().prop_map(|[endpoints, timeout, ranges]| Greed {
        endpoints,
        timeout,
        ranges,
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3,
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::default()
    })]

    /// Whoever comes first, and whatever the greedy namespace's Services differ in.
    #[test]
    fn one_namespace_does_not_cost_the_others_their_service(
        greed in greed(),
        early in 0..20_u16,
        greedy_ones in 1_250..1_300_u16,
    ) {
        let config = Config {
            // All shapes that are shared fit into what is kept for them.
            max_classes: 2_400,
            max_source_ranges: 256,
            chunk: 500,
            ..Config::default()
        };
        let mut driver = Driver::new(Family::Ipv4, config);
        driver.settle();
        let others = 0..20;
        for change in others.clone().take(early.into()).flat_map(modest) {
            driver.change(change);
        }
        driver.settle();
        for change in (0..greedy_ones).flat_map(|number| greedy(greed, number)) {
            driver.change(change);
        }
        driver.drain();
        for change in others.clone().skip(early.into()).flat_map(modest) {
            driver.change(change);
        }
        driver.drain();
        for number in others {
            let count = usize::from(number % 4) + 1;
            for net in [[10, 96], [198, 18]] {
                prop_assert_eq!(served(&driver, numbered(net, 2_000 + number)), count);
            }
        }
        for report in driver.planner.reports() {
            prop_assert_eq!(&*report.port.service.namespace, "greedy", "{:?}", report);
        }
        // Nor is the greedy one left without, but for what is out of bounds.
        for number in 0..greedy_ones {
            prop_assert!(served(&driver, numbered([10, 96], number)) > 0);
        }
    }
}
