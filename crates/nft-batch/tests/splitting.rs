//! Batches that are longer than the send buffer can be made.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod support;

use nft_batch::{Batch, BatchOptions, Connection, Errno, NotSentReason, Outcome};
use nl_codec::msg::NftMsg;
use support::fake::FakeKernel;
use support::*;

fn connect(change: impl FnOnce(&mut FakeKernel)) -> Connection<FakeKernel> {
    let mut connection = Connection::new(FakeKernel::new(true)).unwrap();
    let kernel = connection.transport_mut();
    kernel.armed = true;
    change(kernel);
    connection
}

fn committed(connection: &mut Connection<FakeKernel>) -> usize {
    connection.transport_mut().committed.len()
}

fn large(split: bool) -> Batch {
    let mut batch = Batch::new(BatchOptions::default().split(split));
    batch.add_table(IP, &table()).unwrap();
    batch.add_chain(IP, &chain("c")).unwrap();
    let plain = batch.add_set(IP, &set("plain", true, None)).unwrap();
    let mixed = batch.add_set(IP, &set("mixed", true, None)).unwrap();
    let elements = (0..20_000).map(|n| row(n, n));
    batch.add_elements(plain, elements).unwrap();
    batch.add_elements(mixed, [row(1, 2)]).unwrap();
    batch.delete_elements(mixed, [key(1)]).unwrap();
    batch.flush_chain(IP, T, "c").unwrap();
    batch
}

/// EMSGSIZE when splitting is not allowed.
#[test]
fn a_batch_that_is_too_long_is_not_sent() {
    let mut connection = connect(|kernel| kernel.limit = 200_000);
    let mut sealed = large(false).seal();
    let len = sealed.len();
    let outcome = connection.commit(&mut sealed);
    let limit = 200_000;
    assert!(
        matches!(&outcome, Outcome::NotSent(it)
            if it.reason == NotSentReason::TooLong { len, limit }),
        "{outcome:?}"
    );
    assert_eq!(committed(&mut connection), 0);
}

/// When allowed, it is split around element messages, whether the limit is known before or shows
/// when sending.
#[test]
fn a_batch_that_may_be_split_is_sent_in_parts() {
    for claimed in [None, Some(usize::MAX)] {
        let mut connection = connect(|kernel| {
            kernel.limit = 200_000;
            kernel.claimed_limit = claimed;
        });
        let mut sealed = large(true).seal();
        let messages: Vec<Vec<u8>> = sealed.iter_messages().map(<[u8]>::to_vec).collect();
        match connection.commit(&mut sealed) {
            Outcome::Committed(it) => {
                assert!(it.progress.parts > 1);
                assert_eq!(it.progress.parts, it.progress.committed);
            }
            other => panic!("{other:?}"),
        }
        let kernel = connection.transport_mut();
        assert!(kernel.committed.len() > 1);
        // All messages, in order; numbers and ack flags apart.
        let sent: Vec<Vec<u8>> = kernel.committed.concat();
        assert_eq!(sent.len(), messages.len());
        for (sent, message) in sent.iter().zip(&messages) {
            assert_eq!(sent[..6], message[..6]);
            assert_eq!(sent[12..], message[12..]);
        }
        // A set's deletions and additions are in one transaction.
        let kinds = |part: &Vec<Vec<u8>>| {
            part.iter()
                .filter(|bytes| bytes[4] == NftMsg::DEL_SETELEM.0)
                .count()
        };
        let with_deletion: Vec<_> = kernel.committed.iter().filter(|it| kinds(it) > 0).collect();
        assert_eq!(with_deletion.len(), 1);
        let at = with_deletion[0]
            .iter()
            .position(|bytes| bytes[4] == NftMsg::DEL_SETELEM.0)
            .unwrap();
        assert_eq!(with_deletion[0][at + 1][4], NftMsg::NEW_SETELEM.0);
    }
}

/// A part that fails ends the batch, and the outcome says how far it got.
#[test]
fn a_failing_part_says_how_far_the_batch_got() {
    let mut connection = connect(|kernel| {
        kernel.limit = 200_000;
        // Only the first part has so many messages.
        kernel.bad.insert(6, Errno::EEXIST);
    });
    let mut batch = large(true);
    let set = batch.set(IP, T, "other").unwrap();
    batch
        .add_elements(set, (0..20_000).map(|n| row(n, n)))
        .unwrap();
    let outcome = connection.commit(&mut batch.seal());
    assert!(matches!(outcome, Outcome::Rejected(_)), "{outcome:?}");
    let progress = outcome.progress();
    assert_eq!(progress.committed, 0);
    assert!(progress.parts > 1);
    assert!(outcome.to_string().contains("(0 of "), "{outcome}");
}

/// Parts of a batch made for a generation are each made for what the part before made.
#[test]
fn a_split_batch_keeps_its_generation() {
    let mut connection = connect(|kernel| kernel.limit = 200_000);
    let mut batch = large(true);
    batch.expect_generation(7);
    match connection.commit(&mut batch.seal()) {
        Outcome::Committed(it) => {
            assert_eq!(it.generation, Some(7 + it.progress.parts));
        }
        other => panic!("{other:?}"),
    }
}

/// Something that must stay together and is too long is not sent at all.
#[test]
fn what_must_stay_together_is_not_cut() {
    let mut connection = connect(|kernel| kernel.limit = 100_000);
    let mut batch = Batch::new(BatchOptions::default().split(true));
    let set = batch.set(IP, T, "m").unwrap();
    batch
        .add_elements(set, (0..3_000).map(|n| row(n, n)))
        .unwrap();
    batch.delete_elements(set, (0..3_000).map(key)).unwrap();
    let outcome = connection.commit(&mut batch.seal());
    assert!(
        matches!(&outcome, Outcome::NotSent(it)
            if matches!(it.reason, NotSentReason::TooLong { limit: 100_000, .. })),
        "{outcome:?}"
    );
    assert_eq!(committed(&mut connection), 0);
}
