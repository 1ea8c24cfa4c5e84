//! Models of the mailbox: every interleaving of two or three threads with a few steps each.
//!
//! `RUSTFLAGS='--cfg kproxy_loom' cargo test -p svc-planner --test loom --target-dir target/loom`.
//! A wake-up that is lost shows as a deadlock. loom has no time: its waits never time out.
#![cfg(kproxy_loom)]

use loom::model::Builder;
use loom::thread;
use svc_planner::mailbox::{self, Closed, Publisher, Receiver, Wake};
use svc_planner::object::{
    Algorithm, Change, EndpointSlice, ObjectName, Protocol, Service, ServicePort, SlicePort,
    TrafficPolicy,
};

/// Interleavings with more preemptions than this find nothing new in programs this small.
const PREEMPTIONS: usize = 3;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(model);
}

/// Version `version` of slice `name`: its port.
fn slice(name: &str, version: u16) -> Change {
    Change::EndpointSlice(EndpointSlice {
        name: object_name(name),
        service: "web".into(),
        triggers: Default::default(),
        ports: [SlicePort {
            name: "".into(),
            protocol: Protocol::Tcp,
            port: version,
        }]
        .into_iter()
        .collect(),
        endpoints: Vec::new(),
    })
}

/// Version `version` of a Service: its port.
fn service(version: u16) -> Change {
    Change::Service(Service {
        name: object_name("web"),
        uid: None,
        created: None,
        cluster_ips: [[10, 96, 0, 1].into()].into_iter().collect(),
        external_ips: [].into_iter().collect(),
        load_balancer_ips: [].into_iter().collect(),
        source_ranges: [].into_iter().collect(),
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: None,
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: [ServicePort {
            name: "".into(),
            protocol: Protocol::Tcp,
            port: version,
            node_port: 0,
        }]
        .into_iter()
        .collect(),
    })
}

fn gone(name: &str) -> Change {
    Change::EndpointSliceGone(object_name(name))
}

fn object_name(name: &str) -> ObjectName {
    ObjectName {
        namespace: "default".into(),
        name: name.into(),
    }
}

/// Takes changes until the mailbox is closed; one list a drain.
fn take_all(receiver: &mut Receiver) -> Vec<Vec<Change>> {
    let mut drains = Vec::new();
    loop {
        match receiver.wait(None) {
            Wake::Changes => drains.push(receiver.drain()),
            Wake::Closed => return drains,
            Wake::Rung => {}
            Wake::Timeout => unreachable!("a wait without a timeout"),
        }
    }
}

/// Runs `publish` on a thread of its own.
fn publishing(
    publisher: &Publisher,
    publish: impl FnOnce(Publisher) + Send + 'static,
) -> thread::JoinHandle<()> {
    let publisher = publisher.clone();
    thread::spawn(move || publish(publisher))
}

#[test]
fn no_wake_up_is_lost() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let a = publishing(&publisher, |it| it.publish(slice("a", 1)).unwrap());
        let b = publishing(&publisher, |it| it.publish(slice("b", 1)).unwrap());
        // Both open ends are gone only when both threads are.
        drop(publisher);
        let mut seen = take_all(&mut receiver).concat();
        seen.sort_by_key(|change| format!("{change:?}"));
        assert_eq!(seen, [slice("a", 1), slice("b", 1)]);
        a.join().unwrap();
        b.join().unwrap();
    });
}

/// A change published before the ring is seen at the latest by the wait that hears it.
#[test]
fn a_bell_wakes_a_sleeper_and_loses_no_change() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let bell = receiver.bell();
        let a = publishing(&publisher, |it| it.publish(slice("a", 1)).unwrap());
        let b = thread::spawn(move || bell.ring());
        let mut seen = Vec::new();
        match receiver.wait(None) {
            Wake::Changes => seen.extend(receiver.drain()),
            Wake::Rung => {}
            other => unreachable!("{other:?}"),
        }
        a.join().unwrap();
        b.join().unwrap();
        drop(publisher);
        seen.extend(take_all(&mut receiver).concat());
        assert_eq!(seen, [slice("a", 1)]);
    });
}

#[test]
fn a_sleeper_is_woken_though_publishers_stay() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let a = publishing(&publisher, |it| {
            it.publish(slice("a", 1)).unwrap();
            it.publish(slice("b", 1)).unwrap();
        });
        let mut seen = Vec::new();
        while seen.len() < 2 {
            assert_eq!(receiver.wait(None), Wake::Changes);
            seen.extend(receiver.drain());
        }
        assert_eq!(seen, [slice("a", 1), slice("b", 1)]);
        a.join().unwrap();
        drop(publisher);
    });
}

#[test]
fn a_change_is_seen_once_or_replaced_by_a_later_one() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let a = publishing(&publisher, |it| {
            it.publish(slice("a", 1)).unwrap();
            it.publish(slice("a", 2)).unwrap();
            it.publish(gone("a")).unwrap();
        });
        let b = publishing(&publisher, |it| it.publish(slice("b", 1)).unwrap());
        drop(publisher);
        let seen = take_all(&mut receiver).concat();
        let (of_b, of_a): (Vec<_>, Vec<_>) = seen
            .into_iter()
            .partition(|change| *change == slice("b", 1));
        assert_eq!(of_b.len(), 1);
        assert_eq!(of_a.last(), Some(&gone("a")));
        let order = [slice("a", 1), slice("a", 2), gone("a")];
        let places: Vec<_> = of_a
            .iter()
            .map(|change| order.iter().position(|other| other == change).unwrap())
            .collect();
        assert!(places.is_sorted_by(|a, b| a < b), "{of_a:?}");
        a.join().unwrap();
        b.join().unwrap();
    });
}

#[test]
fn what_is_published_together_is_drained_together() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let a = publishing(&publisher, |it| {
            for version in [1, 2] {
                let batch = [slice("a", version), slice("b", version)];
                it.publish_all(batch).unwrap();
            }
        });
        let other = publishing(&publisher, |it| it.publish(slice("c", 1)).unwrap());
        drop(publisher);
        for mut drained in take_all(&mut receiver) {
            drained.retain(|change| *change != slice("c", 1));
            let together = [1, 2].map(|version| vec![slice("a", version), slice("b", version)]);
            assert!(
                drained.is_empty() || together.contains(&drained),
                "torn: {drained:?}"
            );
        }
        a.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn what_a_close_did_not_refuse_is_drained() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let closing = publishing(&publisher, |it| it.close());
        let publishing = thread::spawn(move || publisher.publish(slice("a", 1)));
        let seen = take_all(&mut receiver).concat();
        match publishing.join().unwrap() {
            Ok(()) => assert_eq!(seen, [slice("a", 1)]),
            Err(Closed) => assert_eq!(seen, []),
        }
        closing.join().unwrap();
    });
}

#[test]
fn publishers_hear_that_the_receiver_is_gone() {
    check(|| {
        let (publisher, receiver) = mailbox::open();
        let receiving = thread::spawn(move || drop(receiver));
        let first = publisher.publish(slice("a", 1));
        let second = publisher.publish(slice("a", 2));
        assert!(first.is_ok() || second == Err(Closed));
        receiving.join().unwrap();
        assert_eq!(publisher.publish(slice("a", 3)), Err(Closed));
    });
}

/// A receiver that holds changes back hears of the end all the same, and has lost none of them.
#[test]
fn a_pause_ends_with_the_close() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let publishing = publishing(&publisher, |it| it.publish(slice("a", 1)).unwrap());
        drop(publisher);
        while !receiver.pause(core::time::Duration::MAX) {}
        assert_eq!(take_all(&mut receiver).concat(), [slice("a", 1)]);
        publishing.join().unwrap();
    });
}

/// A Service that a watch brings together with its slices is never seen with others, whatever another
/// watch publishes beside it and however often the receiver looks.
#[test]
fn a_service_is_not_torn_from_the_slices_that_came_with_it() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let a = publishing(&publisher, |it| {
            for version in [1, 2] {
                it.publish_all([service(version), slice("web-1", version)])
                    .unwrap();
            }
        });
        let other = publishing(&publisher, |it| it.publish(Change::NodeGone).unwrap());
        drop(publisher);
        let (mut of_service, mut of_slice) = (0, 0);
        for drained in take_all(&mut receiver) {
            for change in &drained {
                match change {
                    Change::Service(it) => of_service = it.ports[0].port,
                    Change::EndpointSlice(it) => of_slice = it.ports[0].port,
                    _ => assert_eq!(*change, Change::NodeGone),
                }
            }
            assert_eq!(of_service, of_slice, "torn: {drained:?}");
        }
        assert_eq!((of_service, of_slice), (2, 2));
        a.join().unwrap();
        other.join().unwrap();
    });
}

/// At the end of a process watches end, the receiver goes and somebody closes, in any order.
#[test]
fn ends_that_go_at_once_leave_nobody_waiting() {
    check(|| {
        let (publisher, mut receiver) = mailbox::open();
        let closing = publishing(&publisher, |it| it.close());
        let watching = publishing(&publisher, |it| {
            // A watch that is started late, and ends at once.
            let late = it.clone();
            drop(it);
            late.publish(slice("a", 1))
                .map_or_else(|Closed| {}, |()| drop(late));
        });
        drop(publisher);
        while receiver.wait(None) != Wake::Closed {
            assert_eq!(receiver.drain(), [slice("a", 1)]);
        }
        drop(receiver);
        closing.join().unwrap();
        watching.join().unwrap();
    });
}
