//! The loop of `run`: when it sends, what it makes of failures, what it says of itself.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod faulty;

use core::net::IpAddr;
use core::time::Duration;
use std::thread;

use faulty::{
    Faulty, How, Proxy as Faulted, Refusal, Which, add, add_endpoint, faulty, is_served, node,
    with_engine,
};
use kproxy::engine::{Engine, GuardOptions, Saver, TABLE, Wait};
use kproxy::lower::{key_bytes, nf_family};
use kproxy::netns::Netns;
use kproxy::proxy::{FamilyStatus, Periods, Proxy};
use nft_batch::{Batch, Connection, Errno, Events};
use nl_codec::nft::{Elem, Value};
use svc_planner::mailbox;
use svc_planner::object::{Change, ObjectName};
use svc_planner::plan::{Family, Key, KeyType};

/// Longest wait for an event; passes only when the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn looped(engine: Faulted, periods: Periods) -> Proxy<Faulty> {
    Proxy::new(engine, Saver::new(None), periods)
}

/// Sends what there is to send now; returns the number of transactions of each family.
fn sync(proxy: &mut Proxy<Faulty>) -> [usize; 2] {
    let mut transactions = [0, 0];
    let settled = proxy.engine().clock().now() + Duration::from_millis(100);
    loop {
        let wait = proxy.sync_with(|applied, _| match applied.family {
            Family::Ipv4 => transactions[0] += 1,
            Family::Ipv6 => transactions[1] += 1,
        });
        match wait {
            Wait::Until(time) if time <= settled => {
                while proxy.engine().clock().now() < time {
                    thread::yield_now();
                }
            }
            _ => return transactions,
        }
    }
}

fn status(proxy: &Proxy<Faulty>, family: Family) -> FamilyStatus {
    let families = proxy.board().read().families;
    families.into_iter().find(|it| it.family == family).unwrap()
}

/// Whether the frontend of a Service is in the map, as another connection sees it.
fn has_frontend(connection: &mut Connection, number: u8) -> bool {
    let key = Key::Frontend {
        address: IpAddr::from([10, 96, 0, number]),
        protocol: svc_planner::object::Protocol::Tcp,
        port: 80,
    };
    let bytes = key_bytes(Family::Ipv4, KeyType::Frontend, &key).unwrap();
    let elem = Elem::new(Value::new(bytes.as_slice()));
    let family = nf_family(Family::Ipv4);
    let found = connection.element(family, TABLE, "services", &elem, |_| ());
    found.unwrap().is_some()
}

#[test]
fn changes_that_do_not_matter_are_not_sent() {
    with_engine(|engine| {
        let mut proxy = looped(engine, Periods::default());
        let host = vec![IpAddr::from([192, 0, 2, 1])];
        proxy.apply(node(&["192.0.2.1"]));
        proxy.apply(Change::HostAddresses(host.clone()));
        let cidr = || Change::ServiceCidr {
            name: "kubernetes".into(),
            cidrs: ["10.96.0.0/16".parse().unwrap()].into_iter().collect(),
        };
        proxy.apply(cidr());
        sync(&mut proxy);
        let before = proxy.engine().connection().generation().unwrap();

        // The same again (annotations are not even read), and what is not ours.
        add(proxy.engine(), 1);
        proxy.apply(node(&["192.0.2.1"]));
        proxy.apply(Change::HostAddresses(host.clone()));
        let another = IpAddr::from([192, 0, 2, 2]);
        proxy.apply(Change::HostAddresses(vec![host[0], another]));
        proxy.apply(cidr());
        let headless = ObjectName {
            namespace: "shop".into(),
            name: "headless".into(),
        };
        proxy.apply(Change::ServiceGone(headless.clone()));
        proxy.apply(Change::EndpointSliceGone(headless));
        assert_eq!(sync(&mut proxy), [0, 0]);
        let after = proxy.engine().connection().generation().unwrap();
        assert_eq!(after, before, "nothing was sent");
        assert_eq!(status(&proxy, Family::Ipv4).queued_since, None);
    });
}

#[test]
fn after_one_failed_sync_nothing_is_forgotten() {
    with_engine(|engine| {
        let mut proxy = looped(engine, Periods::default());
        add(proxy.engine(), 2);
        sync(&mut proxy);
        add_endpoint(proxy.engine(), 1, 2);
        proxy.apply(Change::ServiceGone(faulty::name(2)));
        let refusal = Refusal(Which::Of(Family::Ipv4), How::Whole(Errno::EPERM));
        faulty(proxy.engine()).refusals = vec![refusal];
        assert_eq!(sync(&mut proxy), [0, 0]);
        assert!(is_served(proxy.engine(), 2), "it is as it was");
        let failed = status(&proxy, Family::Ipv4);
        assert_eq!(failed.failures, 1);
        assert!(failed.queued_since.is_some());
        assert!(failed.last_error.unwrap().1.contains("EPERM"));

        // Not tried again at once, not even for a change.
        faulty(proxy.engine()).refusals.clear();
        let turned_away = faulty(proxy.engine()).turned_away;
        assert_eq!(turned_away, 1);
        proxy.apply(Change::NodeGone);
        let Wait::Until(retry) = proxy.sync() else {
            panic!("no retry")
        };
        assert!(is_served(proxy.engine(), 2));
        // The planner's and the loop's deadlines are points in time: there is no event.
        while proxy.engine().clock().now() < retry {
            thread::yield_now();
        }
        assert!(sync(&mut proxy)[0] > 0);
        assert!(!is_served(proxy.engine(), 2));
        let mended = status(&proxy, Family::Ipv4);
        assert_eq!((mended.failures, mended.queued_since), (0, None));
        assert!(mended.last_success.is_some());
    });
}

#[test]
fn a_family_that_always_fails_does_not_delay_the_other() {
    with_engine(|engine| {
        let mut proxy = looped(engine, Periods::default());
        let refusal = Refusal(Which::Of(Family::Ipv6), How::Whole(Errno::EOPNOTSUPP));
        faulty(proxy.engine()).refusals = vec![refusal];
        for number in 2..=9 {
            proxy.apply(node(&["192.0.2.1", &format!("2001:db8::{number}")]));
            add(proxy.engine(), number);
            assert!(sync(&mut proxy)[0] > 0, "{number}");
            assert!(is_served(proxy.engine(), number));
        }
        let (four, six) = (Family::Ipv4, Family::Ipv6);
        assert!(status(&proxy, six).failures > 0);
        assert!(status(&proxy, six).queued_since.is_some());
        assert_eq!(status(&proxy, four).failures, 0);
        assert_eq!(status(&proxy, four).queued_since, None);
        let turned_away = faulty(proxy.engine()).turned_away;
        assert!(turned_away <= 4, "a failure costs time: {turned_away}");
    });
}

#[test]
fn nothing_is_sent_before_the_node_is_known() {
    with_engine(|engine| {
        let mut proxy = looped(engine, Periods::default()).awaiting("own");
        add(proxy.engine(), 2);
        assert_eq!(sync(&mut proxy), [0, 0]);
        assert!(!is_served(proxy.engine(), 2));
        assert!(is_served(proxy.engine(), 1), "what is there stays");
        let known = |proxy: &Proxy<Faulty>| {
            let node = proxy.board().read().node;
            (node.known, node.eligible)
        };
        assert_eq!(known(&proxy), (false, false));
        proxy.apply(Change::ServiceGone(faulty::name(9)));
        assert_eq!(status(&proxy, Family::Ipv4).queued_since, None, "not late");

        proxy.apply(node(&["192.0.2.1"]));
        assert!(sync(&mut proxy)[0] > 0);
        assert!(is_served(proxy.engine(), 2));
        assert_eq!(known(&proxy), (true, true));

        // Gone: its last facts stay, and changes go on.
        proxy.apply(Change::NodeGone);
        assert_eq!(sync(&mut proxy), [0, 0]);
        add(proxy.engine(), 3);
        assert!(sync(&mut proxy)[0] > 0);
        assert!(is_served(proxy.engine(), 3));
        assert_eq!(known(&proxy), (true, false));
    });
}

#[test]
fn the_first_change_goes_at_once_the_next_ones_together() {
    with_engine(|engine| {
        let mut connection = Connection::open().unwrap();
        let mut events = Events::open().unwrap();
        let periods = Periods {
            min_sync: Duration::from_secs(2),
            ..Periods::default()
        };
        let (publisher, mut receiver) = mailbox::open();
        thread::scope(|scope| {
            let mut proxy = looped(engine, periods);
            let running = scope.spawn(move || {
                proxy.run(&mut receiver);
                proxy
            });
            let mut until = |number: u8| {
                let deadline = std::time::Instant::now() + PATIENCE;
                let mut transactions = 0;
                while !has_frontend(&mut connection, number) {
                    let _group = events.next_group(Some(deadline)).unwrap();
                    transactions += 1;
                }
                transactions
            };
            for change in faulty::service(2) {
                publisher.publish(change).unwrap();
            }
            until(2);
            let start = std::time::Instant::now();
            for number in 3..=20 {
                publisher.publish_all(faulty::service(number)).unwrap();
            }
            let transactions = until(20);
            let waited = start.elapsed();
            // The Service's endpoints may have come a moment after it: then they waited, too.
            assert!(transactions <= 2, "{transactions}");
            assert!(waited >= Duration::from_millis(500), "{waited:?}");

            // When nothing will come any more, nothing is waited for.
            publisher.publish_all(faulty::service(21)).unwrap();
            publisher.close();
            let mut proxy = running.join().unwrap();
            assert!(is_served(proxy.engine(), 21));
        });
    });
}

/// What others do to a table is no more put off by a long pause after failures than a change is.
#[test]
fn a_pause_after_failures_does_not_put_off_repairs() {
    with_engine(|engine| {
        let mut proxy = looped(
            engine,
            Periods {
                min_sync: Duration::ZERO,
                sync: Duration::from_secs(300),
            },
        );
        let (wake, woken) = std::sync::mpsc::channel();
        let guarded = proxy
            .engine()
            .guard(&Netns::Current, GuardOptions::default(), move || {
                // Nobody listens when the test is over.
                let _ = wake.send(());
            });
        guarded.unwrap();
        sync(&mut proxy);
        let refusal = Refusal(Which::Of(Family::Ipv4), How::Whole(Errno::EPERM));
        faulty(proxy.engine()).refusals = vec![refusal];
        let mut pause = Duration::ZERO;
        for number in 2..=6 {
            for change in faulty::service(number) {
                proxy.apply(change);
            }
            // Points in time, for which there is no event.
            while usize::from(number) - 1 > faulty(proxy.engine()).turned_away {
                let Wait::Until(time) = proxy.sync() else {
                    panic!("no retry");
                };
                let now = proxy.engine().clock().now();
                pause = time.saturating_sub(now);
                let turned_away = faulty(proxy.engine()).turned_away;
                if usize::from(number) - 1 > turned_away {
                    thread::sleep(pause);
                }
            }
        }
        let failed = status(&proxy, Family::Ipv4);
        assert_eq!(failed.all_failures, 5, "one for each sync that failed");
        assert!(pause > Duration::from_secs(10), "{pause:?}");

        faulty(proxy.engine()).refusals.clear();
        let start = std::time::Instant::now();
        let key = faulty::frontend(1);
        let mut batch = Batch::default();
        let map = batch
            .set(nf_family(Family::Ipv4), TABLE, "services")
            .unwrap();
        batch
            .delete_elements(map, [Elem::new(Value::new(&key))])
            .unwrap();
        let mut other = Connection::open().unwrap();
        assert!(other.commit(&mut batch.seal()).is_committed());
        woken.recv_timeout(PATIENCE).unwrap();
        while !is_served(proxy.engine(), 1) {
            let wait = proxy.sync();
            let now = proxy.engine().clock().now();
            if let Wait::Until(time) = wait {
                thread::sleep(time.saturating_sub(now).min(Duration::from_millis(100)));
            }
        }
        let waited = start.elapsed();
        assert!(waited < pause, "waited for {waited:?} of {pause:?}");
        assert!(is_served(proxy.engine(), 6), "and what had failed before");
    });
}

#[test]
fn a_family_that_is_not_there_is_never_asked_for() {
    test_support::in_new_netns(|| {
        for family in [Family::Ipv4, Family::Ipv6] {
            let connection = Connection::open().unwrap();
            let config = |_| svc_planner::Config::default();
            let mut engine = Engine::for_families(connection, &[family], config);
            engine.adopt(None).unwrap();
            engine.apply(node(&["192.0.2.1", "2001:db8::1"]));
            let mut families = Vec::new();
            engine
                .sync(|applied, _| families.push(applied.family))
                .unwrap();
            families.dedup();
            assert_eq!(families, [family]);
        }
    });
}
