//! What it costs to go on with a table: a few reads by name and by key, whatever others have in their
//! tables, and not a row written.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod objects;

use std::io::IoSlice;

use kproxy::engine::{Engine, StateDir, Wait};
use kproxy::netns::Netns;
use nft_batch::{Batch, BatchOptions, Connection, Datagram, Errno, Socket, Transport};
use nl_codec::msg::{Family as NfFamily, Flags, Messages, MsgType, NftMsg};
use nl_codec::nft::{Chain, Elem, Set, Table, Value};
use svc_planner::Config;
use svc_planner::object::Change;
use test_support::in_new_netns;

const SERVICES: u16 = 300;
/// Rows in a set of somebody else's.
const THEIRS: u32 = 50_000;

/// A socket that counts, and knows no dump of rows.
#[derive(Debug)]
struct Counting {
    socket: Socket,
    cost: Cost,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Cost {
    requests: usize,
    batches: usize,
    bytes_sent: usize,
    replies: usize,
    bytes_received: usize,
}

impl Transport for Counting {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let datagram: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let first = Messages::new(&datagram).next().unwrap().unwrap().header;
        if first.kind == MsgType::BATCH_BEGIN {
            self.cost.batches += 1;
        }
        let of_rows = first.kind == MsgType::nft(NftMsg::GET_SETELEM);
        assert!(
            !of_rows || !first.flags.contains(Flags::DUMP),
            "a dump of rows"
        );
        let of_chains = first.kind == MsgType::nft(NftMsg::GET_CHAIN);
        assert!(
            !of_chains || !first.flags.contains(Flags::DUMP),
            "others' chains"
        );
        self.cost.requests += 1;
        self.cost.bytes_sent += datagram.len();
        self.socket.send(parts)
    }

    fn recv(&mut self, buf: &mut [u8], wait: nft_batch::Wait) -> Result<Datagram, Errno> {
        let received = self.socket.recv(buf, wait)?;
        self.cost.replies += 1;
        self.cost.bytes_received += received.len;
        Ok(received)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.socket.reserve(len)
    }
}

fn changes() -> impl Iterator<Item = Change> {
    (0..SERVICES).flat_map(objects::served)
}

fn sync<T: Transport>(engine: &mut Engine<T>) {
    let clock = engine.clock();
    let limit = clock.now() + Config::default().settle * 4;
    while let Wait::Until(time) = engine.sync(|_, _| ()).unwrap() {
        if time > limit.max(clock.now()) {
            return;
        }
        while clock.now() < time {
            std::thread::yield_now();
        }
    }
}

/// Goes on with the tables; what it cost.
fn restart(state: &StateDir) -> Cost {
    let socket = Counting {
        socket: Socket::open().unwrap(),
        cost: Cost::default(),
    };
    let mut engine = Engine::new(Connection::new(socket).unwrap(), |_| Config::default());
    let opened = engine.connection().transport_mut().cost;
    engine.adopt(Some(state)).unwrap();
    changes().for_each(|change| engine.apply(change));
    sync(&mut engine);
    let cost = engine.connection().transport_mut().cost;
    assert_eq!(cost.batches, opened.batches, "something was written");
    cost
}

#[test]
fn a_restart_reads_little_and_nothing_of_others() {
    in_new_netns(|| {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(folder.path(), &Netns::Current).unwrap();
        let mut engine = Engine::new(Connection::open().unwrap(), |_| Config::default());
        engine.adopt(None).unwrap();
        changes().for_each(|change| engine.apply(change));
        sync(&mut engine);
        engine.save(&state).unwrap();
        drop(engine);

        let alone = restart(&state);
        println!("{alone:?}");
        // Two families: samples, chains, a dump each of rules and of sets.
        assert!(alone.requests < 1500, "{alone:?}");
        assert!(alone.bytes_sent < 200_000, "{alone:?}");
        assert!(alone.bytes_received < 400_000, "{alone:?}");

        let mut theirs = Batch::new(BatchOptions::default());
        let table = Table::named("theirs");
        theirs.add_table(NfFamily::IPV4, &table).unwrap();
        for number in 0..100 {
            let name = format!("chain-{number}");
            let chain = Chain::named("theirs", &name);
            theirs.add_chain(NfFamily::IPV4, &chain).unwrap();
        }
        let mut set = Set::named("theirs", "many");
        set.key_len = Some(4);
        let set = theirs.add_set(NfFamily::IPV4, &set).unwrap();
        let keys: Vec<_> = (0..THEIRS).map(u32::to_ne_bytes).collect();
        let elems = keys.iter().map(|key| Elem::new(Value::new(key)));
        theirs.add_elements(set, elems).unwrap();
        let mut connection = Connection::open().unwrap();
        assert!(connection.commit(&mut theirs.seal()).is_committed());

        assert_eq!(restart(&state), alone, "it matters what others have");
    });
}
