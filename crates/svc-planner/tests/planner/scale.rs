//! More of everything than 16 bits hold.

use core::net::{IpAddr, Ipv4Addr};

use svc_planner::config::Config;
use svc_planner::fake::{Host, Packet};
use svc_planner::object::{Change, Protocol};
use svc_planner::plan::{Datum, Family, Key};

use crate::driver::Driver;
use crate::objects::{self, endpoint};

const SERVICES: u32 = 70_000;
const ENDPOINTS: u32 = 5_000;

fn cluster_ip(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a80_0000 + number).into()
}

fn pod(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0x0a00_0000 + number).into()
}

fn add(driver: &mut Driver, number: u32, pods: impl IntoIterator<Item = u32>) {
    let name = format!("svc{number}");
    let ports = [("http", Protocol::Tcp, 80, 0)];
    let service = objects::service(&name, cluster_ip(number), &ports);
    driver.change(Change::Service(service));
    let endpoints = pods.into_iter().map(|number| endpoint(pod(number), None));
    let ports = [("http", Protocol::Tcp, 8080)];
    let slice = objects::slice(&name, &name, &ports, endpoints);
    driver.change(Change::EndpointSlice(slice));
}

fn packet(number: u32) -> Packet {
    let client = IpAddr::from([203, 0, 113, 1]);
    Packet::arriving("eth0", client, cluster_ip(number), Protocol::Tcp, 80)
}

/// Every Service has a group of its own and its own endpoint, above 65,535 as below, and each is
/// found and changed by itself.
#[test]
fn seventy_thousand_services_are_told_apart() {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    for number in 0..SERVICES {
        add(&mut driver, number, [number]);
    }
    driver.drain();
    let rows = |driver: &Driver, stem: &str| {
        let sets = driver.kernel.sets(Family::Ipv4);
        let set = sets.iter().find(|set| {
            let name = set.name.strip_prefix(stem);
            name.is_some_and(|rest| rest.chars().all(|c| c == '-' || c.is_ascii_digit()))
        });
        driver.kernel.rows(Family::Ipv4, &set.unwrap().name)
    };
    let mut groups: Vec<u32> = rows(&driver, "services")
        .iter()
        .map(|row| match row.datum {
            Datum::Route(route) => route.group(),
            ref other => panic!("{other:?}"),
        })
        .collect();
    groups.sort_unstable();
    groups.dedup();
    assert_eq!(groups.len(), SERVICES as usize);
    assert!(groups.last().is_some_and(|group| *group > 65_535));
    let slots = rows(&driver, "endpoints");
    assert_eq!(slots.len(), SERVICES as usize);
    assert!(slots.iter().all(|row| matches!(row.key, Key::Slot { .. })));

    let host = Host::new([IpAddr::from([192, 168, 0, 1])]);
    let around = [0, 1, 4_463, 65_534, 65_535, 65_536, 65_537, SERVICES - 1];
    driver.compare(&around.map(packet), &host);
    // 70,000 differ from 4,464 by 65,536.
    add(&mut driver, SERVICES - 1, [1_000_000]);
    let operations = driver.drain();
    assert!(operations <= 4, "{operations} operations for one endpoint");
    driver.compare(&around.map(packet), &host);
}

/// All endpoints of a big Service are reached, and one less costs what one costs.
#[test]
fn five_thousand_endpoints_of_one_service_are_balanced() {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    add(&mut driver, 1, 0..ENDPOINTS);
    driver.drain();
    let host = Host::new([IpAddr::from([192, 168, 0, 1])]);
    driver.compare(&[packet(1)], &host);
    assert_eq!(driver.endpoint_rows(), ENDPOINTS as usize);
    add(&mut driver, 1, (0..ENDPOINTS).filter(|pod| *pod != 17));
    let operations = driver.drain();
    assert!(operations <= 40, "{operations} operations for one endpoint");
    driver.compare(&[packet(1)], &host);
    assert_eq!(driver.endpoint_rows(), ENDPOINTS as usize - 1);
}
