//! Commits that fail, or whose outcome is not known.

use svc_planner::config::Config;
use svc_planner::fake::quiescence::{self, Windows};
use svc_planner::fake::{ApplyError, Errno, Fault, Host, Packet};
use svc_planner::object::{Change, Protocol};
use svc_planner::plan::{Family, Key};
use svc_planner::report::{PortName, Reason};
use svc_planner::{Next, Planner};

use crate::driver::Driver;
use crate::objects::{endpoint, ip, name, service, slice};

const HTTP: &str = "http";

fn first() -> Change {
    let ports = [(HTTP, Protocol::Tcp, 80, 0)];
    Change::Service(service("svc1", ip("10.96.0.1"), &ports))
}

fn second() -> Change {
    let ports = [(HTTP, Protocol::Tcp, 80, 0)];
    Change::Service(service("svc2", ip("10.96.0.2"), &ports))
}

fn pods(of: &str, addresses: &[&str]) -> Change {
    let endpoints = addresses.iter().map(|address| endpoint(ip(address), None));
    let ports = [(HTTP, Protocol::Tcp, 8080)];
    Change::EndpointSlice(slice(of, of, &ports, endpoints))
}

fn packets() -> Vec<Packet> {
    ["10.96.0.1", "10.96.0.2", "10.96.0.3"]
        .map(|to| Packet::arriving("eth0", ip("203.0.113.1"), ip(to), Protocol::Tcp, 80))
        .into()
}

fn host() -> Host {
    Host::new([ip("192.168.0.1")])
}

fn driver() -> Driver {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    for change in [
        first(),
        second(),
        pods("svc1", &["10.0.0.1", "10.0.0.2"]),
        pods("svc2", &["10.0.0.3"]),
    ] {
        driver.change(change);
    }
    driver
}

/// A rejected transaction is planned again, and again, until it is accepted.
#[test]
fn every_transaction_may_be_refused() {
    let mut driver = driver();
    let mut refused = 0;
    loop {
        driver.reject();
        driver.reject();
        if driver.commit().is_some() {
            refused += 1;
            continue;
        }
        match driver.planner.next(driver.now) {
            Next::WaitUntil(time) => driver.now = time,
            Next::Idle => break,
            next => panic!("{next:?}"),
        }
    }
    assert!(refused >= 2, "classes first, then rows");
    driver.compare(&packets(), &host());
    driver.check_quiescence(&packets(), &host());
}

/// Whether the row that marks the state is there tells what became of a transaction.
#[test]
fn lost_replies_are_resolved_by_the_state_row() {
    for fault in [Fault::LoseReply, Fault::LoseRequest] {
        let mut driver = driver();
        let mut unknown = 0;
        loop {
            match driver.planner.next(driver.now) {
                Next::Commit(transaction) => {
                    driver.kernel.set_faults(move |_| Some(fault));
                    let result = driver.kernel.apply(&transaction, driver.now);
                    driver.kernel.clear_faults();
                    assert_eq!(result, Err(ApplyError::Unknown));
                    let mark = transaction
                        .elements
                        .iter()
                        .flat_map(|change| change.add.iter().map(|row| (&change.set, row.key)))
                        .find(|(_, key)| matches!(key, Key::State { .. }));
                    let (set, key) = mark.unwrap();
                    let arrived = driver.kernel.row(Family::Ipv4, set, &key).is_some();
                    assert_eq!(arrived, fault == Fault::LoseReply);
                    if arrived {
                        driver.planner.committed(driver.now);
                        assert_eq!(driver.planner.state(), Some(key));
                    } else {
                        driver.planner.rejected(driver.now, &[]);
                        driver.commit();
                    }
                    unknown += 1;
                }
                Next::WaitUntil(time) => driver.now = time,
                Next::Idle => break,
                next => panic!("{next:?}"),
            }
        }
        assert!(unknown > 0);
        driver.compare(&packets(), &host());
    }
}

/// A port that is to blame is set aside, all others are served; it is tried again when it changes.
#[test]
fn a_culprit_is_set_aside_until_it_changes() {
    let mut driver = driver();
    driver.drain();
    let third = || {
        let ports = [(HTTP, Protocol::Tcp, 80, 0)];
        Change::Service(service("svc3", ip("10.96.0.3"), &ports))
    };
    driver.planner.apply(third());
    driver.planner.apply(pods("svc3", &["10.0.0.9"]));
    driver.planner.apply(pods("svc2", &["10.0.0.4"]));
    driver.oracle.apply(pods("svc2", &["10.0.0.4"]));
    let Next::Commit(transaction) = driver.planner.next(driver.now) else {
        panic!("nothing to commit");
    };
    driver
        .kernel
        .set_faults(|_| Some(Fault::Reject(Errno::Einval)));
    driver.kernel.apply(&transaction, driver.now).unwrap_err();
    driver.kernel.clear_faults();
    let key = Key::Frontend {
        address: ip("10.96.0.3"),
        protocol: Protocol::Tcp,
        port: 80,
    };
    let culprit = driver.planner.owner(&key).unwrap();
    let expected = PortName {
        service: name("svc3"),
        port: HTTP.into(),
        protocol: Protocol::Tcp,
    };
    assert_eq!(culprit, expected);
    driver
        .planner
        .rejected(driver.now, core::slice::from_ref(&culprit));
    driver.settle();
    let reports = driver.planner.reports();
    assert_eq!(reports.len(), 1);
    let report = &reports[0];
    assert_eq!(
        (&report.port, &report.reason),
        (&culprit, &Reason::SetAside)
    );
    let [first, second, third_packet] = <[Packet; 3]>::try_from(packets()).unwrap();
    driver.compare(&[first, second], &host());

    driver.oracle.apply(third());
    driver.change(pods("svc3", &["10.0.0.8"]));
    driver.drain();
    assert_eq!(driver.planner.reports(), []);
    driver.compare(&[third_packet], &host());
}

/// The checks of these tests see what they look for: a planner that does not wait for packets on
/// their way is found out.
#[test]
fn impatience_is_found() {
    let run = |config: Config| {
        let mut driver = Driver::new(Family::Ipv4, config);
        driver.change(first());
        driver.change(pods("svc1", &["10.0.0.1", "10.0.0.2"]));
        driver.drain();
        driver.now += core::time::Duration::from_secs(5);
        driver.change(Change::ServiceGone(name("svc1")));
        driver.change(Change::EndpointSliceGone(name("svc1")));
        driver.drain();
        driver.change(second());
        driver.change(pods("svc2", &["10.0.0.3"]));
        driver.drain();
        let Config { hold, settle, .. } = Config::default();
        let windows = Windows { hold, settle };
        quiescence::check(&driver.kernel, windows, &packets(), &host())
    };
    assert_eq!(run(Config::default()), []);
    let hold = core::time::Duration::from_millis(10);
    let found = run(Config {
        hold,
        ..Config::default()
    });
    assert!(!found.is_empty(), "a group reused too early went unnoticed");
}

/// A planner that commits nothing plans nothing else.
#[test]
fn one_transaction_at_a_time() {
    let mut planner = Planner::new(Family::Ipv4, Config::default());
    planner.apply(first());
    let now = core::time::Duration::ZERO;
    assert!(matches!(planner.next(now), Next::Commit(_)));
    planner.apply(second());
    assert_eq!(planner.next(now), Next::InFlight);
    planner.committed(now);
    assert!(matches!(planner.next(now), Next::Commit(_)));
}

/// What a restored planner learns before its first transaction is not forgotten with a rejection.
#[test]
fn a_restored_planner_may_be_refused() {
    let mut driver = Driver::new(Family::Ipv4, Config::default());
    driver.change(first());
    driver.settle();
    driver.resume();
    let ports = [(HTTP, Protocol::Tcp, 80, 0)];
    driver.change(Change::Service(service("svc1", ip("10.96.0.2"), &ports)));
    driver.reject();
    driver.drain();
    driver.compare(&packets(), &host());
    let (_, sets) = driver.inventory();
    assert!(
        sets.contains(&("reject-services".to_owned(), 1)),
        "{sets:?}"
    );
}
