//! Events and dumps on the running kernel.

mod support;

use core::time::Duration;
use std::fs::File;
use std::io::IoSlice;
use std::os::fd::AsFd;
use std::time::Instant;

use nft_batch::{
    By, Check, Connection, Datagram, Errno, EventError, Events, QueryError, Socket, Transport, Wait,
};
use nl_codec::msg::{Family, NftMsg};
use support::*;

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(10))
}

#[test]
fn events_come_grouped_by_generation_with_the_process() {
    with_connection(|mut connection| {
        let mut events = Events::open().unwrap();
        assert_eq!(events.try_next_group().unwrap_err(), EventError::TimedOut);
        with_map(&mut connection);
        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, [row(1, 1)]).unwrap();
        b.add_chain(IP, &chain("c")).unwrap();
        commit(&mut connection, b);
        let generation = connection.generation().unwrap();

        let group = events.next_group(soon()).unwrap();
        assert_eq!(group.generation, generation - 1);
        let kinds = |group: &nft_batch::EventGroup<'_>| -> Vec<NftMsg> {
            group
                .iter()
                .filter_map(|msg| msg.header.kind.as_nft())
                .collect()
        };
        assert_eq!(kinds(&group), [NftMsg::NEW_TABLE, NftMsg::NEW_SET]);
        assert!(group.complete);
        let group = events.next_group(soon()).unwrap();
        assert_eq!(group.generation, generation);
        assert_eq!(kinds(&group), [NftMsg::NEW_CHAIN, NftMsg::NEW_SETELEM]);
        assert_eq!(group.pid.is_some(), group.process.is_some());
        assert!(group.process.is_some_and(|name| !name.is_empty()));
        let past = Some(Instant::now());
        assert_eq!(events.next_group(past).unwrap_err(), EventError::TimedOut);
    });
}

/// Of what happens, a listener can keep what others do to tables of one name.
#[test]
fn events_of_others_about_one_table_can_be_kept_alone() {
    with_connection(|mut own| {
        let mut other = Connection::open().unwrap();
        assert_ne!(own.port(), other.port());
        let mut events = Events::open().unwrap().only(T, Some(own.port()));
        with_map(&mut own);
        let mut b = batch();
        let foreign = nl_codec::nft::Table::named("foreign");
        b.add_table(IP, &foreign).unwrap();
        b.add_chain(IP, &chain("c")).unwrap();
        commit(&mut other, b);
        let mut b = batch();
        b.delete_table(IP, By::Name("foreign")).unwrap();
        commit(&mut other, b);

        let seen = |events: &mut Events| {
            let group = events.next_group(soon()).unwrap();
            let kinds: Vec<_> = group.iter().map(|msg| msg.header.kind.as_nft()).collect();
            (group.port, kinds)
        };
        assert_eq!(seen(&mut events), (own.port(), vec![]));
        let kept = vec![Some(NftMsg::NEW_CHAIN)];
        assert_eq!(seen(&mut events), (other.port(), kept));
        assert_eq!(seen(&mut events), (other.port(), vec![]));
    });
}

#[test]
fn tables_and_chains_are_read_by_name() {
    with_connection(|mut connection| {
        with_map(&mut connection);
        let mut b = batch();
        b.add_chain(IP, &chain("c")).unwrap();
        commit(&mut connection, b);
        let table = connection.table_info(IP, T, |it| (it.flags, it.in_use, it.owner));
        // A map and a chain.
        let flags = nl_codec::nft::table::TableFlags::empty();
        assert_eq!(table.unwrap(), (Some(flags), Some(2), None));
        let handle = connection.chain_info(IP, T, "c", |it| it.handle).unwrap();
        assert!(handle.is_some());
        let missing = connection.chain_info(IP, T, "d", |_| ()).unwrap_err();
        assert_eq!(missing.errno(), Some(Errno::ENOENT));
        let missing = connection.table_info(IP, "u", |_| ()).unwrap_err();
        assert_eq!(missing.errno(), Some(Errno::ENOENT));
    });
}

/// A listener that does not keep up is told so, and that the next group is not complete.
#[test]
fn lost_events_are_reported() {
    with_connection(|mut connection| {
        let mut events = Events::open().unwrap();
        with_map(&mut connection);
        let mut reuse = batch();
        // Each element is an event of about 100 bytes; the receive buffer holds 8 MiB.
        for round in 0..4_u32 {
            let m = map(&mut reuse);
            let base = round * 40_000;
            reuse
                .add_elements(m, (base..base + 40_000).map(|n| row(n, n)))
                .unwrap();
            reuse = commit(&mut connection, reuse).reuse();
        }
        let mut overrun = false;
        let mut incomplete = false;
        // One that fits, after the loss.
        let last = loop {
            match events.try_next_group() {
                Ok(group) => incomplete |= !group.complete,
                Err(EventError::Overrun) => overrun = true,
                Err(EventError::TimedOut) => break connection.generation().unwrap(),
                Err(other) => panic!("{other}"),
            }
        };
        assert!(overrun);
        let mut b = batch();
        b.add_chain(IP, &chain("c")).unwrap();
        commit(&mut connection, b);
        let group = events.next_group(soon()).unwrap();
        assert_eq!(group.generation, last + 1);
        incomplete |= !group.complete;
        assert!(incomplete);
    });
}

#[test]
fn dumps_show_one_table_and_say_whether_they_are_consistent() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_table(IP, &nl_codec::nft::Table::named("foreign"))
            .unwrap();
        let mut foreign = chain("theirs");
        foreign.table = Some("foreign".into());
        b.add_chain(IP, &foreign).unwrap();
        b.add_chain(IP, &chain("a")).unwrap();
        b.add_chain(IP, &chain("b")).unwrap();
        let m = b.add_set(IP, &set("m", true, None)).unwrap();
        b.add_elements(m, (0..5_000).map(|n| row(n, n + 1)))
            .unwrap();
        let exprs = [nl_codec::nft::expr::Counter::default().into()];
        let rule = nl_codec::nft::Rule::new(T, "a", nl_codec::nft::Exprs::new(&exprs));
        b.add_rule(IP, &rule).unwrap();
        commit(&mut connection, b);

        let mut tables = Vec::new();
        let dump = connection.dump_tables(Family::UNSPEC, |family, table| {
            tables.push((family, table.name.unwrap().to_string()));
        });
        assert!(dump.unwrap().consistent);
        assert_eq!(tables, [(IP, "t".into()), (IP, "foreign".to_owned())]);

        let mut chains = Vec::new();
        let dump = connection.dump_chains(IP, T, |chain| {
            chains.push(chain.name.unwrap().to_string());
        });
        assert!(dump.unwrap().consistent);
        assert_eq!(chains, ["a", "b"]);

        for (chain, expected) in [(None, 1), (Some("a"), 1), (Some("b"), 0)] {
            let mut rules = 0;
            let dump = connection.dump_rules(IP, T, chain, |_| rules += 1);
            assert!(dump.unwrap().consistent);
            assert_eq!(rules, expected);
        }

        let mut sets = 0;
        let dump = connection.dump_sets(IP, T, |set| {
            assert_eq!(set.name.unwrap().to_str(), Some("m"));
            sets += 1;
        });
        assert!(dump.unwrap().consistent);
        assert_eq!(sets, 1);

        let mut count = 0;
        let dump = connection.dump_elements(IP, T, "m", |_| count += 1);
        assert!(dump.unwrap().consistent);
        assert_eq!(count, 5_000);

        // Somebody commits while we read: 5,000 elements take several datagrams.
        let mut other = Connection::open().unwrap();
        let mut changed = false;
        let dump = connection.dump_elements(IP, T, "m", |_| {
            if !changed {
                changed = true;
                let mut b = batch();
                b.delete_chain(IP, T, By::Name("b")).unwrap();
                commit(&mut other, b);
            }
        });
        assert!(!dump.unwrap().consistent);

        let missing = connection.dump_elements(IP, T, "none", |_| ());
        assert_eq!(missing.unwrap_err().errno(), Some(Errno::ENOENT));
    });
}

/// Cuts every nth datagram short.
struct Cutting {
    socket: Socket,
    received: usize,
    cut: usize,
}

impl Transport for Cutting {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.socket.send(parts)
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        self.received += 1;
        let len = if self.received == self.cut {
            100
        } else {
            buf.len()
        };
        self.socket.recv(&mut buf[..len], wait)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.socket.reserve(len)
    }
}

/// A dump that cannot be read to its end is an error, and the next one works all the same.
#[test]
fn a_broken_dump_does_not_block_the_next() {
    with_connection(|mut setup| {
        with_map(&mut setup);
        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, (0..5_000).map(|n| row(n, n))).unwrap();
        commit(&mut setup, b);
        let transport = Cutting {
            socket: Socket::open().unwrap(),
            received: 0,
            cut: usize::MAX,
        };
        let mut connection = Connection::new(transport).unwrap();
        // The generation is read first, then the dump's first datagram, then its second.
        for ahead in [2, 3] {
            let transport = connection.transport_mut();
            transport.cut = transport.received + ahead;
            let broken = connection.dump_elements(IP, T, "m", |_| ());
            let what = "dump elements";
            assert_eq!(broken.unwrap_err(), QueryError::Truncated { what });
            let mut count = 0;
            let dump = connection.dump_elements(IP, T, "m", |_| count += 1);
            assert!(dump.unwrap().consistent);
            assert_eq!(count, 5_000);
        }
    });
}

#[test]
fn a_missing_set_is_no_missing_element() {
    with_connection(|mut connection| {
        with_map(&mut connection);
        assert_eq!(lookup(&mut connection, 1), None);
        let error = connection
            .element(IP, T, "none", &key(1), |_| ())
            .unwrap_err();
        assert_eq!(
            error,
            QueryError::Kernel {
                what: "get set",
                errno: Errno::ENOENT
            }
        );
    });
}

/// A batch without its end is handled, judged, and dropped.
#[test]
fn checking_commits_nothing() {
    with_connection(|mut connection| {
        with_map(&mut connection);
        let generation = connection.generation().unwrap();
        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, [row(1, 1)]).unwrap();
        let mut sealed = b.seal();
        assert_eq!(connection.check(&mut sealed), Check::Fine);
        assert_eq!(lookup(&mut connection, 1), None);
        assert_eq!(connection.generation().unwrap(), generation);

        let mut b = sealed.reuse();
        let m = map(&mut b);
        b.add_elements(m, [row(1, 1), row(1, 2)]).unwrap();
        match connection.check(&mut b.seal()) {
            Check::Bad(errors) => assert_eq!(errors[0].errno, Errno::EEXIST),
            other => panic!("{other:?}"),
        }
        assert_eq!(connection.generation().unwrap(), generation);
    });
}

/// A connection can be opened in another network namespace without going there.
#[test]
fn connections_open_in_other_namespaces() {
    let own = File::open("/proc/thread-self/ns/net").unwrap();
    in_new_netns(move || {
        let here = File::open("/proc/thread-self/ns/net").unwrap();
        let mut connection = Connection::open_in(here.as_fd()).unwrap();
        with_map(&mut connection);
        let mut direct = Connection::open().unwrap();
        assert_eq!(lookup(&mut direct, 1), None);

        // Reading only: this is the namespace of the test runner.
        let mut outside = Connection::open_in(own.as_fd()).unwrap();
        let mut ours = false;
        let dump = outside.dump_tables(IP, |_, table| {
            ours |= table
                .name
                .is_some_and(|name| name.as_bytes() == T.as_bytes());
        });
        assert!(dump.is_ok());
        assert!(!ours);
        let null = File::open("/dev/null").unwrap();
        assert!(Connection::open_in(null.as_fd()).is_err());
    });
}
