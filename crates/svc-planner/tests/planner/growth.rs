//! Maps that become full while packets use them.

use core::net::IpAddr;

use svc_planner::config::Config;
use svc_planner::fake::{Host, Packet};
use svc_planner::object::{Change, Protocol};
use svc_planner::plan::Family;
use svc_planner::report::Reason;

use crate::driver::Driver;
use crate::objects::{endpoint, ip, service, slice};

const HTTP: &str = "http";

fn name(number: u16) -> String {
    format!("svc{number}")
}

fn cluster_ip(number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::from([10, 96, high, low])
}

fn added(number: u16) -> [Change; 2] {
    let ports = [(HTTP, Protocol::Tcp, 80, 0)];
    let service = service(&name(number), cluster_ip(number), &ports);
    [Change::Service(service), pods(number, &[1, 2])]
}

fn pods(number: u16, pods: &[u8]) -> Change {
    let [high, low] = number.to_be_bytes();
    let endpoints = pods
        .iter()
        .map(|pod| endpoint(IpAddr::from([10, high, low, *pod]), None));
    let ports = [(HTTP, Protocol::Tcp, 8080)];
    let name = name(number);
    Change::EndpointSlice(slice(&name, &name, &ports, endpoints))
}

fn packet(number: u16) -> Packet {
    let client = ip("203.0.113.1");
    Packet::arriving("eth0", client, cluster_ip(number), Protocol::Tcp, 80)
}

fn host() -> Host {
    Host::new([ip("192.168.0.1")])
}

/// From ten Services to four thousand: maps are replaced by bigger ones while endpoints of old
/// Services change.
#[test]
fn maps_grow_while_changes_go_on() {
    let config = Config {
        chunk: 500,
        ..Config::default()
    };
    let mut driver = Driver::new(Family::Ipv4, config.clone());
    for change in (0..10).flat_map(added) {
        driver.change(change);
    }
    driver.drain();
    for number in 10..4_000 {
        for change in added(number) {
            driver.change(change);
        }
        if number % 100 == 0 {
            driver.commit();
            driver.now += core::time::Duration::from_millis(20);
        }
        if number % 150 == 0 {
            let old = number / 150 % 10;
            let pod = u8::try_from(number / 150).unwrap();
            driver.change(pods(old, &[1, 2 + pod]));
        }
    }
    driver.drain();
    assert_eq!(driver.planner.reports(), []);
    let all: Vec<_> = (0..4_000).step_by(37).map(packet).collect();
    driver.compare(&all, &host());
    let old: Vec<_> = (0..10).map(packet).collect();
    driver.check_quiescence(&old, &host());

    let mut fresh = Driver::new(Family::Ipv4, config);
    for change in driver.oracle.changes() {
        fresh.change(change);
    }
    fresh.drain();
    assert_eq!(driver.inventory(), fresh.inventory());
}

/// Where growth ends, those who came too late are named, all others served, and the first who
/// leave make room.
#[test]
fn what_does_not_fit_is_named() {
    let config = Config {
        max_rows: 1_600,
        ..Config::default()
    };
    let mut driver = Driver::new(Family::Ipv4, config);
    for change in (0..700).flat_map(added) {
        driver.change(change);
    }
    driver.drain();
    assert_eq!(driver.planner.reports(), []);
    for change in (700..900).flat_map(added) {
        driver.change(change);
    }
    driver.drain();
    let reports = driver.planner.reports();
    // Two endpoints each.
    assert_eq!(reports.len(), 100, "{reports:?}");
    for report in &reports {
        assert_eq!(report.reason, Reason::MapFull { map: "endpoints" });
    }
    let served: Vec<_> = (0..700).map(packet).collect();
    driver.compare(&served, &host());
    for number in 0..200 {
        driver.change(Change::ServiceGone(crate::objects::name(&name(number))));
    }
    driver.drain();
    assert_eq!(driver.planner.reports(), []);
    let all: Vec<_> = (0..900).map(packet).collect();
    driver.compare(&all, &host());
}
