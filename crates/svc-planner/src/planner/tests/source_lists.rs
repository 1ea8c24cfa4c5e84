//! How long lists of source ranges stay, and how they go.

use core::net::IpAddr;

use ipnet::IpNet;

use super::source_ranges::{VIP, from, list_of, ranges, restricted};
use super::*;

/// Services with an address and two ranges each.
fn many(bench: &mut Bench, count: u8) {
    for number in 0..count {
        let text = format!("web-{number}");
        let mut service = restricted(&text, &format!("10.96.1.{number}"), &[]);
        service.load_balancer_ips = smallvec![IpAddr::from([192, 0, 3, number])];
        for range in ["203.0", "198.18"] {
            let range = format!("{range}.{number}.0/24");
            service.source_ranges.push(range.parse().unwrap());
        }
        bench.apply(Change::Service(service));
        bench.apply(slice(&format!("{text}-a"), &text, &["10.0.0.1"]));
    }
}

/// One of 65,536 ranges.
fn range(number: usize) -> IpNet {
    let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
    format!("10.{high}.{low}.0/25").parse().unwrap()
}

/// Commits all there is, each transaction taking so long; rows of ranges added and deleted by each.
fn slowly(bench: &mut Bench, each: Duration) -> Vec<(usize, usize)> {
    let mut ranges = Vec::new();
    loop {
        bench.now += each;
        match bench.planner.next(bench.now) {
            Next::Commit(transaction) => {
                bench.kernel.apply(&transaction, bench.now).unwrap();
                let changes = transaction.elements.iter();
                let rows = changes
                    .filter(|change| change.set.starts_with("source-ranges"))
                    .map(|change| (change.add.len(), change.delete.len()));
                ranges.extend(rows);
                bench.planner.committed(bench.now);
            }
            Next::WaitUntil(time) => bench.now = bench.now.max(time),
            Next::Idle => return ranges,
            next => panic!("{next:?}"),
        }
    }
}

/// Of many Services at once the last have their turn when the lists of the first are long there.
#[test]
fn lists_are_kept_for_ports_that_have_not_had_their_turn() {
    let mut bench = Bench::new(Config {
        chunk: 16,
        ..config()
    });
    bench.apply(Change::Service(service("other", "10.96.0.9")));
    bench.drain();
    many(&mut bench, 60);
    let rows = slowly(&mut bench, Duration::from_millis(100));
    let sum = |part: fn(&(usize, usize)) -> usize| rows.iter().map(part).sum::<usize>();
    assert_eq!((sum(|it| it.0), sum(|it| it.1)), (120, 0));
    assert_eq!(bench.set("firewall").len(), 60);
    bench.check();
}

/// The kernel looks for each row to delete from the first one on.
#[test]
fn many_lists_are_deleted_a_few_at_a_time() {
    const LISTS: usize = 250;
    let mut bench = Bench::new(config());
    many(&mut bench, 250);
    bench.drain();
    assert_eq!(ranges(&bench).len(), LISTS);
    for number in 0..LISTS {
        bench.apply(Change::ServiceGone(name(&format!("web-{number}"))));
    }
    let rows = slowly(&mut bench, Duration::from_millis(1));
    assert_eq!(ranges(&bench).len(), 0);
    let most = rows.iter().map(|it| it.1).max();
    assert!(
        most.is_some_and(|most| (1..LISTS).contains(&most)),
        "{rows:?}"
    );
}

/// So are the rows of a long list; a refusal and a restart on the way lose none, and other things that are
/// due do not wait for it.
#[test]
fn a_long_list_is_deleted_in_parts() {
    const LONG: usize = 3000;
    let mut bench = Bench::new(config());
    many(&mut bench, 100);
    let mut service = restricted("long", "10.96.0.9", &[]);
    service.source_ranges = (0..LONG).map(range).collect();
    bench.apply(Change::Service(service));
    bench.drain();
    let long = list_of(&bench, VIP).unwrap();
    let left = |bench: &Bench| ranges(bench).get(&long).map_or(0, Vec::len);
    assert_eq!(left(&bench), LONG);

    bench.apply(Change::ServiceGone(name("long")));
    bench.apply(slice("web-0-a", "web-0", &[]));
    let mut parts = 0;
    loop {
        match bench.planner.next(bench.now) {
            Next::Commit(transaction) => {
                let before = left(&bench);
                if parts == 1 {
                    bench.planner.rejected(bench.now, &[]);
                    parts += 1;
                    continue;
                }
                bench.kernel.apply(&transaction, bench.now).unwrap();
                bench.planner.committed(bench.now);
                let deleted = before - left(&bench);
                assert!(deleted < LONG / 4, "{deleted} rows in one transaction");
                if deleted > 0 {
                    parts += 1;
                }
                if parts == 4 {
                    parts += 1;
                    assert!(left(&bench) > 0);
                    assert_eq!(bench.set("endpoints").len(), 99, "the group of web-0");
                    let snapshot = bench.planner.snapshot().unwrap();
                    bench.planner = Planner::restore(config(), snapshot, bench.now).unwrap();
                    many(&mut bench, 100);
                    bench.apply(slice("web-0-a", "web-0", &[]));
                }
            }
            Next::WaitUntil(time) => bench.now = bench.now.max(time),
            Next::Idle => break,
            next => panic!("{next:?}"),
        }
        bench.now += Duration::from_millis(1);
    }
    assert!(parts > 10, "{parts}");
    assert_eq!((left(&bench), ranges(&bench).len()), (0, 100));
    bench.check();
}

/// What is left of a list may be what another Service asks for.
#[test]
fn a_list_deleted_in_part_may_equal_another() {
    let mut bench = Bench::new(config());
    many(&mut bench, 200);
    let mut long = restricted("long", "10.96.0.9", &[]);
    long.source_ranges = (0..1000).map(range).collect();
    bench.apply(Change::Service(long.clone()));
    bench.drain();
    let list = list_of(&bench, VIP).unwrap();
    bench.apply(Change::ServiceGone(name("long")));
    let rest = loop {
        match bench.planner.next(bench.now) {
            Next::Commit(transaction) => {
                bench.kernel.apply(&transaction, bench.now).unwrap();
                bench.planner.committed(bench.now);
                let rest = ranges(&bench).remove(&list).unwrap().len();
                if rest < 1000 {
                    break rest;
                }
            }
            Next::WaitUntil(time) => bench.now = bench.now.max(time),
            next => panic!("{next:?}"),
        }
    };
    for (text, ip, number) in [("rest", VIP, 1000 - rest), ("whole", "192.0.2.2", 0)] {
        let mut service = long.clone();
        service.name = name(text);
        service.load_balancer_ips = smallvec![ip.parse().unwrap()];
        service.source_ranges = (number..1000).map(range).collect();
        bench.apply(Change::Service(service));
        bench.apply(slice(&format!("{text}-a"), text, &["10.0.0.1"]));
    }
    bench.drain();
    assert_eq!(list_of(&bench, VIP), Some(list));
    let whole = list_of(&bench, "192.0.2.2").unwrap();
    let lengths = ranges(&bench);
    assert_eq!((lengths[&list].len(), lengths[&whole].len()), (rest, 1000));
    assert_eq!(
        from(&bench, "10.3.231.9"),
        "delivered to 10.0.0.1:8080, masqueraded"
    );
    assert_eq!(from(&bench, "10.0.0.9"), "dropped");
    bench.check();
}
