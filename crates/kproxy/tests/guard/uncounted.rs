//! Rows that others add or exchange where no event and no number of rows tells of it: in all sets of
//! kernels that do not tell how many rows there are (before Linux 6.17), in sets of prefixes always.

use core::time::Duration;
use std::io::IoSlice;
use std::time::Instant;

use kproxy::engine::{GuardOptions, Interference, TABLE};
use kproxy::lower::nf_family;
use nft_batch::{Batch, Connection, Datagram, Errno, Socket, Transport, Wait};
use nl_codec::msg::{MsgType, NftMsg};
use nl_codec::nft::{Data, Elem, Value};
use svc_planner::object::Change;
use svc_planner::plan::Family;

use crate::bench::{Bench, PATIENCE, SERVICES, commit, guarded_over, guarded_with, octets};
use crate::objects;

/// A netlink header, and that of nf_tables behind it.
const HEADERS: usize = 20;
/// `NFTA_SET_COUNT`, and a number that no attribute of a set has.
const COUNT: u16 = 20;
const NOTHING: u16 = 0x3ffe;

/// A kernel that does not tell how many rows a set has.
#[derive(Debug)]
struct Uncounted(Socket);

impl Transport for Uncounted {
    fn port(&self) -> u32 {
        self.0.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.0.send(parts)
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        let datagram = self.0.recv(buf, wait)?;
        forget_counts(&mut buf[..datagram.len]);
        Ok(datagram)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.0.reserve(len)
    }
}

fn forget_counts(mut messages: &mut [u8]) {
    let number = |bytes: &[u8]| u16::from_ne_bytes(*bytes.first_chunk().unwrap());
    while messages.len() >= HEADERS {
        let length = u32::from_ne_bytes(*messages.first_chunk().unwrap());
        let length = usize::try_from(length).unwrap();
        let kind = number(&messages[4..]);
        let (message, rest) = messages.split_at_mut(length.next_multiple_of(4).min(messages.len()));
        messages = rest;
        if kind != MsgType::nft(NftMsg::NEW_SET).0 {
            continue;
        }
        let mut attrs = &mut message[HEADERS..];
        while attrs.len() >= 4 {
            let length = usize::from(number(attrs)).next_multiple_of(4);
            if number(&attrs[2..]) == COUNT {
                attrs[2..4].copy_from_slice(&NOTHING.to_ne_bytes());
            }
            attrs = &mut attrs[length..];
        }
    }
}

/// Looks through everything several times a second.
fn hurried() -> GuardOptions {
    GuardOptions {
        pass: Duration::from_millis(400),
        // So many edits are no fight.
        window: Duration::ZERO,
        ..GuardOptions::default()
    }
}

/// A commit of the engine's own connection: no event tells of it.
fn unseen<T: Transport>(bench: &mut Bench<T>, set: &str, build: impl FnOnce(&mut Batch, Set)) {
    let family = nf_family(bench.family);
    commit(bench.engine.connection(), |batch| {
        let set = batch.set(family, TABLE, set).unwrap();
        build(batch, set);
    });
}

type Set = nft_batch::SetRef;

fn sync_until<T: Transport>(bench: &mut Bench<T>, done: impl Fn(&Interference) -> bool) {
    let start = Instant::now();
    while !done(&bench.seen()) {
        assert!(start.elapsed() < PATIENCE, "{:?}", bench.seen());
        bench.sync();
    }
}

#[test]
fn surplus_rows_are_found_without_being_counted_and_deleted_alone() {
    guarded_over(Uncounted, hurried(), SERVICES, |mut bench| {
        assert!(!bench.counts_rows());
        let ip = |number| octets(objects::cluster_ip_of(bench.family, number));
        let (nobody, somebody) = (ip(60_001), ip(1));
        let route = [1, 0, 16, 0];
        for (set, key, datum) in [
            // No ClusterIP, a Service that there is not, a slot of no group, a class of nobody.
            ("cluster-addresses", nobody.clone(), &[][..]),
            (
                "services",
                [&nobody[..], &[6, 0, 0, 0, 0, 80, 0, 0]].concat(),
                &route,
            ),
            (
                "endpoints",
                vec![0, 0, 9, 0, 0, 0, 0, 0],
                &[&nobody[..], &[0, 80, 0, 0]].concat(),
            ),
            // Bytes that no key of ours has.
            (
                "services",
                [&somebody[..], &[6, 1, 1, 1, 0, 80, 0, 0]].concat(),
                &route,
            ),
        ] {
            let before = bench.seen();
            unseen(&mut bench, set, |batch, set| {
                let mut elem = Elem::new(Value::new(&key));
                if !datum.is_empty() {
                    elem.data = Some(Data::Value(Value::new(datum)));
                }
                batch.add_elements(set, [elem]).unwrap();
            });
            sync_until(&mut bench, |seen| seen.rows > before.rows);
            bench.check(set);
            let seen = bench.seen();
            assert_eq!((seen.rows, seen.rebuilds), (before.rows + 1, 0), "{set}");
        }
        // Nothing more is found.
        let counts = bench.seen().counts;
        sync_until(&mut bench, |seen| seen.counts > counts + 1);
        let seen = bench.seen();
        assert_eq!((seen.rows, seen.edits, seen.fights), (4, 0, 0), "{seen:?}");
    });
}

/// How many clients stick is counted, too, as headroom is the only limit to it.
#[test]
fn clients_are_counted_where_the_kernel_does_not() {
    guarded_over(Uncounted, hurried(), SERVICES, |mut bench| {
        assert!(
            bench
                .engine
                .affinity_fill()
                .unwrap()
                .iter()
                .all(|fill| fill.clients == 0)
        );
        let ip = octets(objects::cluster_ip_of(bench.family, 1));
        unseen(&mut bench, "client-affinity", |batch, set| {
            let keys: Vec<_> = (0..5000_u32)
                .map(|client| {
                    let mut address = vec![0; ip.len()];
                    address[..4].copy_from_slice(&client.to_be_bytes());
                    [&address[..], &ip, &[6, 0, 0, 0, 0, 80, 0, 0]].concat()
                })
                .collect();
            let elems = keys.iter().map(|key| {
                let mut elem = Elem::mapping(Value::new(key), Data::Value(Value::u32_ne(1 << 20)));
                elem.timeout = Some(3_600_000);
                elem
            });
            batch.add_elements(set, elems).unwrap();
        });
        let counts = bench.seen().counts;
        sync_until(&mut bench, |seen| seen.counts > counts + 1);
        let fills = bench.engine.affinity_fill().unwrap();
        let fill = fills
            .iter()
            .find(|fill| fill.family == bench.family)
            .unwrap();
        assert_eq!(fill.clients, 5000);
        assert_eq!(bench.seen().rows, 0, "they are nobody's business");
    });
}

/// Prefixes in a family.
struct Prefixes {
    balancer: &'static str,
    sources: [&'static str; 3],
    /// The first two lie side by side: one begins where the other ends.
    services: [&'static str; 3],
    /// How the first source, and what is put in its place, begin: as nft shows them, and the byte.
    before: &'static str,
    after: (&'static str, u8),
}

const fn prefixes(family: Family) -> Prefixes {
    match family {
        Family::Ipv4 => Prefixes {
            balancer: "198.51.100.1",
            sources: ["10.9.0.0/16", "10.10.0.0/16", "10.12.1.1/32"],
            services: ["10.97.0.0/16", "10.98.0.0/16", "192.0.2.0/24"],
            before: "10.9.0.0",
            after: ("11.9.0.0", 11),
        },
        Family::Ipv6 => Prefixes {
            balancer: "2001:db8:1::1",
            sources: ["fd00:9::/32", "fd00:a::/32", "fd00:c::1/128"],
            services: ["fd00:10:97::/48", "fd00:10:98::/48", "2001:db8:2::/64"],
            before: "fd00:9::",
            after: ("fc00:9::", 0xfc),
        },
    }
}

/// A Service whose load balancer's address some sources may use.
fn restricted(family: Family, number: u16) -> Change {
    let Change::Service(mut service) = objects::service_of(family, number) else {
        panic!("a Service");
    };
    let prefixes = prefixes(family);
    service
        .load_balancer_ips
        .push(prefixes.balancer.parse().unwrap());
    let ranges = prefixes.sources.iter().map(|range| range.parse().unwrap());
    service.source_ranges.extend(ranges);
    Change::Service(service)
}

/// The rows of the set of source ranges: first and last key.
fn ranges<T: Transport>(connection: &mut Connection<T>, family: Family) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let read = connection.dump_elements(nf_family(family), TABLE, "source-ranges", |elem| {
        let Some(Data::Value(last)) = elem.key_end else {
            panic!("{elem:?} has no end");
        };
        rows.push((elem.key_bytes().unwrap().to_vec(), last.as_bytes().to_vec()));
    });
    read.unwrap();
    rows
}

#[test]
fn source_ranges_that_nobody_saw_exchanged_are_put_right() {
    guarded_with(hurried(), SERVICES, exchange_a_range);
    guarded_over(Uncounted, hurried(), SERVICES, |bench| {
        exchange_a_range(bench);
    });
}

fn exchange_a_range<T: Transport>(mut bench: Bench<T>) {
    let prefixes = prefixes(bench.family);
    bench.engine.apply(restricted(bench.family, 3));
    for (name, cidr) in ["a", "b", "c"].into_iter().zip(prefixes.services) {
        bench.engine.apply(Change::ServiceCidr {
            name: name.into(),
            cidrs: [cidr.parse().unwrap()].into_iter().collect(),
        });
    }
    bench.sync();
    let intact = bench.listing();
    let rows = ranges(bench.engine.connection(), bench.family);
    assert_eq!(rows.len(), 3);
    let counts = bench.seen().counts;
    sync_until(&mut bench, |seen| seen.counts > counts + 1);
    assert_eq!(bench.seen().rebuilds, 0, "{:?}", bench.seen());
    // As many rows as before: one range makes room for another one.
    let source = octets(prefixes.before.parse().unwrap());
    let (first, last) = rows
        .iter()
        .find(|(first, _)| first.ends_with(&source))
        .unwrap();
    let (after, byte) = prefixes.after;
    unseen(&mut bench, "source-ranges", |batch, set| {
        let mut gone = Elem::new(Value::new(first));
        gone.key_end = Some(Data::Value(Value::new(last)));
        batch.delete_elements(set, [gone]).unwrap();
        let (mut first, mut last) = (first.clone(), last.clone());
        (first[4], last[4]) = (byte, byte);
        let mut other = Elem::new(Value::new(&first));
        other.key_end = Some(Data::Value(Value::new(&last)));
        batch.add_elements(set, [other]).unwrap();
    });
    assert_ne!(bench.listing(), intact);
    sync_until(&mut bench, |seen| seen.rebuilds > 0);
    bench.sync();
    // The former sets go a little later.
    let start = Instant::now();
    let mut listed = bench.nft("list table $table");
    while listed.contains(after) {
        assert!(start.elapsed() < PATIENCE, "{listed}");
        bench.sync();
        listed = bench.nft("list table $table");
    }
    assert!(listed.contains(prefixes.before), "{listed}");
    let seen = bench.seen();
    assert_eq!((seen.rebuilds, seen.edits), (1, 0), "{seen:?}");
    sync_until(&mut bench, |now| now.counts > seen.counts + 1);
    assert_eq!(bench.seen().rebuilds, 1, "it is at rest");
}
