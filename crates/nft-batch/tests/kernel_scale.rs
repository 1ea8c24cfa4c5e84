//! Large transactions and lost replies on the running kernel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod support;

use std::io::IoSlice;

use nft_batch::{
    Batch, BatchError, BatchOptions, Connection, Datagram, Errno, NotSentReason, Outcome,
    Resolution, Socket, Transport, Unknown, UnknownReason, Wait,
};
use nl_codec::msg::Flags;
use nl_codec::nft::{Data, Elem, Value};
use support::*;

/// Counts replies, and asks for an ack of every message if told so.
struct Watched {
    socket: Socket,
    ack_all: bool,
    replies: usize,
}

impl Watched {
    fn connect() -> Connection<Self> {
        let socket = Socket::open().unwrap();
        Connection::new(Self {
            socket,
            ack_all: false,
            replies: 0,
        })
        .unwrap()
    }
}

impl Transport for Watched {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        if !self.ack_all {
            return self.socket.send(parts);
        }
        let mut datagram: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let mut at = 0;
        while let Some(header) = datagram.get_mut(at..at + 16) {
            let len = u32::from_ne_bytes(header[..4].try_into().unwrap());
            header[6] |= u8::try_from(Flags::ACK.bits()).unwrap();
            at += nl_codec::align(usize::try_from(len).unwrap());
        }
        self.socket.send(&[IoSlice::new(&datagram)])
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        let received = self.socket.recv(buf, wait)?;
        self.replies += 1;
        Ok(received)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.socket.reserve(len)
    }
}

/// One message per element.
fn one_each(batch: &mut Batch, count: u32) {
    let m = map(batch);
    for n in 0..count {
        // Alternating kinds of messages keep the engine from packing.
        if n % 2 == 0 {
            batch.add_elements(m, [row(n, n)]).unwrap();
        } else {
            batch.create_elements(m, [row(n, n)]).unwrap();
        }
    }
}

fn unknown(outcome: Outcome) -> Unknown {
    match outcome {
        Outcome::Unknown(unknown) => unknown,
        other => panic!("not unknown: {other}"),
    }
}

/// google/nftables#103: few acks are asked for, however many messages.
#[test]
fn many_messages_get_one_reply() {
    in_new_netns(|| {
        for count in [5_000, 50_000] {
            let mut connection = Watched::connect();
            let mut batch = batch();
            batch.destroy_table(IP, T).unwrap();
            batch.barrier();
            batch.add_table(IP, &table()).unwrap();
            batch.add_set(IP, &set("m", true, None)).unwrap();
            one_each(&mut batch, count);
            let mut sealed = batch.seal();
            assert!(sealed.messages() > count);
            connection.transport_mut().replies = 0;
            let outcome = connection.commit(&mut sealed);
            assert!(outcome.is_committed(), "{outcome}");
            // The generation before, an ack of the last message where the end is not
            // acknowledged or else both, and no more.
            let replies = connection.transport_mut().replies;
            assert!(replies <= 3, "{replies} replies to {count} messages");
        }
    });
}

/// google/nftables#103: when acks are lost all the same, the kernel is asked what happened.
#[test]
fn lost_acks_are_resolved_by_looking() {
    in_new_netns(|| {
        let mut setup = Connection::open().unwrap();
        with_map(&mut setup);
        for (count, fails) in [(5_000, false), (50_000, false), (50_000, true)] {
            let mut b = batch();
            let m = map(&mut b);
            b.flush_set(m).unwrap();
            commit(&mut setup, b);

            let mut connection = Watched::connect();
            connection.transport_mut().ack_all = true;
            let mut b = batch();
            one_each(&mut b, count);
            if fails {
                // The last message: its error is lost with the acks before it.
                let m = map(&mut b);
                b.add_elements(m, [row(0, 1)]).unwrap();
            }
            let mut sealed = b.seal();
            let outcome = connection.commit(&mut sealed);
            if count == 5_000 {
                // The receive buffer was made large enough for these.
                assert!(outcome.is_committed(), "{outcome}");
                continue;
            }
            let unknown = unknown(outcome);
            assert_eq!(unknown.reason, UnknownReason::RepliesLost);
            let expected = if fails {
                Resolution::NotCommitted
            } else {
                Resolution::Committed { samples: 64 }
            };
            assert_eq!(connection.resolve(&sealed, &unknown).unwrap(), expected);
            assert_eq!(lookup(&mut setup, count - 1).is_some(), !fails);
        }
    });
}

/// Somebody else's commit in between does not make a failed transaction look committed.
#[test]
fn a_foreign_commit_does_not_pass_for_ours() {
    in_new_netns(|| {
        let mut setup = Connection::open().unwrap();
        with_map(&mut setup);
        let mut connection = Watched::connect();
        connection.transport_mut().ack_all = true;
        let mut b = batch();
        one_each(&mut b, 50_000);
        let m = map(&mut b);
        b.add_elements(m, [row(0, 1)]).unwrap();
        let mut sealed = b.seal();
        let unknown = unknown(connection.commit(&mut sealed));
        let mut b = batch();
        b.add_chain(IP, &chain("foreign")).unwrap();
        commit(&mut setup, b);
        let resolution = connection.resolve(&sealed, &unknown).unwrap();
        assert_eq!(resolution, Resolution::NotCommitted);
    });
}

/// google/nftables#311: 280 KB, which the default send buffer refuses, and 64 MiB.
#[test]
fn the_send_buffer_grows_with_the_transaction() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        let mut m = set("m", true, None);
        m.key_len = Some(64);
        b.add_set(IP, &m).unwrap();
        let mut reuse = commit(&mut connection, b).reuse();
        // 64 bytes of key, 4 of data: 88 bytes on the wire.
        for (rows, bytes) in [(3_300_u32, 280 << 10), (763_000, 64 << 20)] {
            let m = map(&mut reuse);
            reuse.flush_set(m).unwrap();
            reuse
                .add_elements(m, (0..rows).map(|n| LongRow { key: n }))
                .unwrap();
            let sealed = reuse.seal();
            assert!(sealed.len() >= bytes, "{}", sealed.len());
            let mut sealed = sealed;
            let outcome = connection.commit(&mut sealed);
            assert!(outcome.is_committed(), "{outcome}");
            let read = LongRow { key: rows - 1 }.with(|elem| {
                let mut key = Elem::default();
                key.key = elem.key;
                connection.element(IP, T, "m", &key, |_| ())
            });
            assert_eq!(read.unwrap(), Some(()));
            reuse = sealed.reuse();
        }
    });
}

/// A map row with a key of 64 bytes.
struct LongRow {
    key: u32,
}

impl LongRow {
    fn with<R>(&self, f: impl FnOnce(&Elem<'_>) -> R) -> R {
        let mut key = [0; 64];
        key[..4].copy_from_slice(&self.key.to_be_bytes());
        let data = Data::Value(Value::u32_be(self.key));
        f(&Elem::mapping(Value::new(&key), data))
    }
}

impl nl_codec::nft::elem::PutElem for LongRow {
    fn put_elem<E: nl_codec::Encoder>(&self, enc: &mut E) -> Result<(), nl_codec::EncodeError> {
        self.with(|elem| elem.put_elem(enc))
    }
}

/// As the kernel treats a user without CAP_NET_ADMIN in the first user namespace: no more than
/// `net.core.wmem_max`, doubled.
struct Unprivileged(Socket);

const LIMIT: usize = 212_960;

impl Transport for Unprivileged {
    fn port(&self) -> u32 {
        self.0.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        assert!(len <= LIMIT, "{len} bytes");
        self.0.send(parts)
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        self.0.recv(buf, wait)
    }

    fn reserve(&mut self, _len: usize) -> Result<usize, Errno> {
        Ok(LIMIT)
    }
}

/// google/nftables#311: where the buffer cannot grow, the batch is split if it may be, and says so.
#[test]
fn a_batch_is_split_where_the_buffer_cannot_grow() {
    in_new_netns(|| {
        let transport = Unprivileged(Socket::open().unwrap());
        let mut connection = Connection::new(transport).unwrap();
        let fill = |options: BatchOptions| {
            let mut b = Batch::new(options);
            b.add_table(IP, &table()).unwrap();
            let m = b.add_set(IP, &set("m", true, None)).unwrap();
            b.add_elements(m, (0..30_000).map(|n| row(n, n))).unwrap();
            b.add_chain(IP, &chain("c")).unwrap();
            b.seal()
        };
        let outcome = connection.commit(&mut fill(BatchOptions::default()));
        assert!(
            matches!(&outcome, Outcome::NotSent(it)
                if matches!(it.reason, NotSentReason::TooLong { limit: LIMIT, .. })),
            "{outcome}"
        );
        let outcome = connection.commit(&mut fill(BatchOptions::default().split(true)));
        match outcome {
            Outcome::Committed(it) => assert_eq!(it.progress.parts, 5),
            other => panic!("{other}"),
        }
        let mut check = Connection::open().unwrap();
        for n in [0, 15_000, 29_999] {
            assert_eq!(lookup(&mut check, n), Some(n.to_be_bytes().to_vec()));
        }
    });
}

/// google/nftables#311,
/// for real: in a user namespace SO_SNDBUFFORCE is refused and SO_SNDBUF is clamped. The test
/// runs itself there, as a process that enters one must have a single thread.
#[test]
fn a_user_namespace_bounds_the_send_buffer() {
    const INSIDE: &str = "NFT_BATCH_TEST_INSIDE";
    if std::env::var_os(INSIDE).is_some() {
        return inside_a_user_namespace();
    }
    let name = "a_user_namespace_bounds_the_send_buffer";
    let child = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--net"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    match child {
        Ok(output) if output.status.success() => {}
        Ok(output) if output.stdout.is_empty() => {
            let reason = String::from_utf8_lossy(&output.stderr);
            test_support::skip(&format!("no user namespace: {reason}"));
        }
        Ok(output) => panic!("{}", String::from_utf8_lossy(&output.stdout)),
        Err(error) => test_support::skip(&format!("cannot run unshare: {error}")),
    }
}

fn inside_a_user_namespace() {
    let mut connection = Connection::open().unwrap();
    let limit = connection.transport_mut().reserve(usize::MAX / 4).unwrap();
    // 28 bytes each: two and a half datagrams.
    let rows = u32::try_from(limit / 28 * 5 / 2).unwrap();
    let fill = |options: BatchOptions| {
        let mut b = Batch::new(options);
        b.add_table(IP, &table()).unwrap();
        let m = b.add_set(IP, &set("m", true, Some(rows))).unwrap();
        b.add_elements(m, (0..rows).map(|n| row(n, n))).unwrap();
        b.seal()
    };
    let outcome = connection.commit(&mut fill(BatchOptions::default()));
    assert!(
        matches!(&outcome, Outcome::NotSent(it)
            if matches!(it.reason, NotSentReason::TooLong { .. })),
        "{outcome}"
    );
    let outcome = connection.commit(&mut fill(BatchOptions::default().split(true)));
    assert!(outcome.is_committed(), "{outcome}");
    assert_eq!(outcome.progress().parts, 3);
    assert_eq!(
        lookup(&mut connection, rows - 1),
        Some((rows - 1).to_be_bytes().to_vec())
    );
}

/// google/nftables#303: lists beyond 64 KiB, and lists of exactly the largest lengths.
#[test]
fn long_element_lists_are_split_into_messages() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_set(IP, &set("m", true, None)).unwrap();
        let mut reuse = commit(&mut connection, b).reuse();

        // 5,000 elements with comments of 128 bytes.
        let comment = [b'x'; 128];
        let commented = |n: u32| {
            let mut elem = row(n, n);
            elem.userdata = Some(&comment);
            elem
        };
        let m = map(&mut reuse);
        reuse.add_elements(m, (0..5_000).map(commented)).unwrap();
        let mut sealed = reuse.seal();
        assert!(sealed.messages() > 1);
        let outcome = connection.commit(&mut sealed);
        assert!(outcome.is_committed(), "{outcome}");
        let mut count = 0;
        let dump = connection.dump_elements(IP, T, "m", |elem| {
            assert_eq!(elem.userdata, Some(&comment[..]));
            count += 1;
        });
        assert!(dump.unwrap().consistent);
        assert_eq!(count, 5_000);

        // The largest list is 65,532 bytes long with its header: 65,535 is no multiple of four.
        // Rows of 28 bytes, with one longer one so that it comes out even.
        let mut reuse = sealed.reuse();
        let m = map(&mut reuse);
        reuse.flush_set(m).unwrap();
        let rest = 65_528 - 2_336 * 28;
        let padding = vec![b'y'; rest - 28 - 4];
        let rows = (0..2_337_u32).map(|n| {
            let mut elem = row(n, n);
            if n == 2_336 {
                elem.userdata = Some(&padding);
            }
            elem
        });
        reuse.add_elements(m, rows).unwrap();
        let mut sealed = reuse.seal();
        let lens: Vec<usize> = sealed.iter_messages().map(<[u8]>::len).collect();
        assert_eq!(lens, [20 + 8 + 8, 20 + 8 + 8 + 65_532]);
        let outcome = connection.commit(&mut sealed);
        assert!(outcome.is_committed(), "{outcome}");

        // One element more starts a new message.
        let mut reuse = sealed.reuse();
        let m = map(&mut reuse);
        reuse
            .add_elements(m, (0..2_340_u32).map(|n| row(n, n)))
            .unwrap();
        assert_eq!(reuse.seal().messages(), 1);
        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, (0..2_341_u32).map(|n| row(n, n)))
            .unwrap();
        assert_eq!(b.seal().messages(), 2);
    });
}

/// crowdsecurity/cs-firewall-bouncer#285:
/// names that are too long never leave; what the kernel finds out of range is tied to the
/// object and field.
#[test]
fn names_of_255_bytes_are_the_longest() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        for n in 0..1_000 {
            b.add_chain(IP, &chain(&format!("c{n}"))).unwrap();
        }
        b.add_chain(IP, &chain(&"x".repeat(255))).unwrap();
        for len in [256, 300] {
            let name = "x".repeat(len);
            let error = b.add_chain(IP, &chain(&name)).unwrap_err();
            assert_eq!(
                error,
                BatchError::NameTooLong {
                    what: "chain",
                    len,
                    name: "x".repeat(64),
                }
            );
        }
        commit(&mut connection, b);

        // Userdata of 257 bytes is the kernel's to find.
        let mut b = batch();
        for n in 0..1_000 {
            b.add_chain(IP, &chain(&format!("d{n}"))).unwrap();
        }
        let userdata = [0; 257];
        let mut bad = chain("bad");
        bad.userdata = Some(&userdata);
        let op = b.add_chain(IP, &bad).unwrap();
        let rejected = rejected(&mut connection, b);
        assert_eq!(rejected.errors.len(), 1);
        let error = &rejected.errors[0];
        assert_eq!((error.errno, error.op), (Errno::ERANGE, Some(op)));
        assert_eq!(error.object.as_deref(), Some("bad"));
    });
}
