//! What becomes of a transaction when the socket or the kernel misbehaves. Each fault has one
//! defined outcome.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod support;

use nft_batch::{
    Batch, Capabilities, Connection, Errno, NotSentReason, Outcome, Resolution, Unknown,
    UnknownReason,
};
use nl_codec::msg::NftMsg;
use proptest::prelude::*;
use support::fake::{FakeKernel, PORT, Reply};
use support::*;

/// Both kinds of kernels: those that acknowledge the end of a batch and those that do not.
const KERNELS: [bool; 2] = [true, false];

type Tamper = fn(&mut Reply);

fn connect(end_ack: bool, change: impl FnOnce(&mut FakeKernel)) -> Connection<FakeKernel> {
    let mut connection = Connection::new(FakeKernel::new(end_ack)).unwrap();
    assert_eq!(connection.acknowledges_end(), end_ack);
    let kernel = connection.transport_mut();
    kernel.armed = true;
    change(kernel);
    connection
}

/// Three messages: table, map, elements.
fn small() -> Batch {
    let mut batch = batch();
    batch.add_table(IP, &table()).unwrap();
    let set = batch.add_set(IP, &set("m", true, None)).unwrap();
    batch.add_elements(set, [row(1, 1), row(2, 2)]).unwrap();
    batch
}

fn commit_small(connection: &mut Connection<FakeKernel>) -> Outcome {
    connection.commit(&mut small().seal())
}

fn committed(connection: &mut Connection<FakeKernel>) -> usize {
    connection.transport_mut().committed.len()
}

fn unknown(outcome: Outcome) -> Unknown {
    match outcome {
        Outcome::Unknown(unknown) => unknown,
        other => panic!("not unknown: {other:?}"),
    }
}

/// mullvad/nftnl-rs#90: works on both kinds of kernels, asks for one ack, and needs no time-out.
#[test]
fn kernels_with_and_without_an_ack_of_the_end() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |_| {});
        assert!(commit_small(&mut connection).is_committed());
        assert_eq!(committed(&mut connection), 1);
        // The empty batch of the first question, then ours.
        assert_eq!(connection.transport_mut().acks_asked, [1, 1]);
    }
}

/// An ack is not taken as a commit: the last message is fine here, another is not.
#[test]
fn an_ack_beside_an_error_is_a_rejection() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.bad.insert(1, Errno::EEXIST);
        });
        let rejected = rejected(&mut connection, small());
        assert!(rejected.complete);
        let [error] = rejected.errors.as_slice() else {
            panic!("{rejected:?}");
        };
        assert_eq!((error.errno, error.message), (Errno::EEXIST, Some(1)));
        assert_eq!(error.kind, Some(NftMsg::NEW_SET));
        assert_eq!(error.object.as_deref(), Some("m"));
        assert_eq!(committed(&mut connection), 0);
    }
}

/// The kernel reports a failed commit with the number of the first message, after which the last
/// one is acknowledged all the same.
#[test]
fn a_failed_commit_is_a_rejection() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.commit_error = Some(Errno::ENOMEM);
        });
        let rejected = rejected(&mut connection, small());
        assert_eq!(rejected.errors[0].errno, Errno::ENOMEM);
        assert_eq!(committed(&mut connection), 0);
    }
}

#[test]
fn enomem_and_eperm_for_the_batch_name_no_operation() {
    for end_ack in KERNELS {
        for errno in [Errno::ENOMEM, Errno::EPERM, Errno::EOPNOTSUPP] {
            let mut connection = connect(end_ack, |kernel| {
                kernel.begin_error = Some(errno);
            });
            let rejected = rejected(&mut connection, small());
            assert_eq!(rejected.errors.len(), 1);
            assert_eq!(rejected.errors[0].errno, errno);
            assert_eq!(rejected.errors[0].op, None);
        }
    }
}

#[test]
fn without_cap_net_admin_no_connection_is_made() {
    let mut kernel = FakeKernel::new(true);
    kernel.armed = true;
    kernel.begin_error = Some(Errno::EPERM);
    let error = Connection::new(kernel).unwrap_err();
    assert_eq!(error.to_string(), "nf_tables: empty batch: EPERM");
}

#[test]
fn a_generation_mismatch_is_an_outcome_of_its_own() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |_| {});
        let mut batch = small();
        batch.expect_generation(6);
        let outcome = connection.commit(&mut batch.seal());
        assert!(
            matches!(outcome, Outcome::GenerationMismatch(it) if it.expected == 6),
            "{outcome:?}"
        );
        assert_eq!(committed(&mut connection), 0);

        let mut batch = small();
        batch.expect_generation(7);
        match connection.commit(&mut batch.seal()) {
            Outcome::Committed(it) => assert_eq!(it.generation, Some(8)),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn eintr_before_sending_is_tried_again_while_the_generation_stands() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.send_errors = [Errno::EINTR; 3].into();
        });
        assert!(commit_small(&mut connection).is_committed());
        assert_eq!(committed(&mut connection), 1);
    }
}

/// The generation no longer says that nothing was committed: not sent again.
#[test]
fn eintr_with_a_foreign_commit_is_unknown() {
    let mut connection = connect(true, |kernel| {
        kernel.send_errors = [Errno::EINTR].into();
        kernel.foreign_commits = true;
    });
    let mut sealed = small().seal();
    let unknown = unknown(connection.commit(&mut sealed));
    assert_eq!(unknown.reason, UnknownReason::SendInterrupted);
    let resolution = connection.resolve(&sealed, &unknown).unwrap();
    assert_eq!(resolution, Resolution::NotCommitted);
    assert_eq!(committed(&mut connection), 0);
}

#[test]
fn eintr_and_empty_reads_while_receiving_change_nothing() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.recv_errors = [Errno::EINTR; 3].into();
        });
        assert!(commit_small(&mut connection).is_committed());
    }
}

#[test]
fn errors_of_sending_mean_that_nothing_was_sent() {
    for errno in [Errno::ENOBUFS, Errno::ENOMEM, Errno::EAGAIN] {
        let mut connection = connect(true, |kernel| {
            kernel.send_errors = [errno].into();
        });
        let outcome = commit_small(&mut connection);
        assert!(
            matches!(&outcome, Outcome::NotSent(it) if it.reason == NotSentReason::Send(errno)),
            "{outcome:?}"
        );
        assert_eq!(committed(&mut connection), 0);
        // The connection is as good as before.
        assert!(commit_small(&mut connection).is_committed());
    }
}

/// ENOBUFS after the commit: the ack is lost, the transaction is not.
#[test]
fn lost_replies_are_unknown_and_never_sent_again() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.silent = true;
            kernel.recv_errors = [Errno::ENOBUFS].into();
        });
        let mut sealed = small().seal();
        let unknown = unknown(connection.commit(&mut sealed));
        assert_eq!(unknown.reason, UnknownReason::RepliesLost);
        assert_eq!(unknown.generation_before, Some(7));
        assert_eq!(committed(&mut connection), 1);
        // This kernel knows no elements, so keyed reads contradict.
        let resolution = connection.resolve(&sealed, &unknown).unwrap();
        assert_eq!(resolution, Resolution::NotCommitted);
    }
}

#[test]
fn an_unchanged_generation_resolves_an_unknown_outcome() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.silent = true;
            kernel.bad.insert(0, Errno::EINVAL);
        });
        let mut sealed = small().seal();
        let unknown = unknown(connection.commit(&mut sealed));
        assert_eq!(unknown.reason, UnknownReason::NoAck);
        let resolution = connection.resolve(&sealed, &unknown).unwrap();
        assert_eq!(resolution, Resolution::NotCommitted);
    }
}

#[test]
fn without_elements_to_read_back_a_changed_generation_is_undecided() {
    let mut connection = connect(true, |kernel| kernel.silent = true);
    let mut batch = batch();
    batch.add_table(IP, &table()).unwrap();
    let mut sealed = batch.seal();
    let unknown = unknown(connection.commit(&mut sealed));
    let resolution = connection.resolve(&sealed, &unknown).unwrap();
    assert_eq!(resolution, Resolution::Undecided);
}

/// Errors that did arrive are known although others were lost.
#[test]
fn an_error_beside_lost_replies_is_an_incomplete_rejection() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.bad.insert(2, Errno::EEXIST);
            kernel.recv_errors = [Errno::ENOBUFS].into();
        });
        let rejected = rejected(&mut connection, small());
        assert!(!rejected.complete);
        assert_eq!(rejected.errors.len(), 1);
    }
}

#[test]
fn truncated_and_malformed_replies_are_unknown() {
    let faults: [(Tamper, UnknownReason); 3] = [
        (
            |reply| reply.truncated = true,
            UnknownReason::ReplyTruncated,
        ),
        (
            |reply| reply.bytes.truncate(18),
            UnknownReason::ReplyMalformed,
        ),
        (
            |reply| {
                reply.bytes.truncate(24);
                reply.bytes[..4].copy_from_slice(&24_u32.to_ne_bytes());
            },
            UnknownReason::ReplyMalformed,
        ),
    ];
    for end_ack in KERNELS {
        for (tamper, reason) in faults {
            let mut connection = connect(end_ack, |kernel| kernel.tamper = Some(tamper));
            assert_eq!(unknown(commit_small(&mut connection)).reason, reason);
        }
    }
}

/// Replies count only from the kernel, to our port, with a number of this batch.
#[test]
fn foreign_replies_do_not_count() {
    let faults: [Tamper; 4] = [
        |reply| reply.sender = 99,
        |reply| reply.bytes[12..16].copy_from_slice(&(PORT + 1).to_ne_bytes()),
        |reply| {
            let seq = u32::from_ne_bytes(reply.bytes[8..12].try_into().unwrap());
            reply.bytes[8..12].copy_from_slice(&seq.wrapping_sub(1000).to_ne_bytes());
        },
        |reply| {
            let seq = u32::from_ne_bytes(reply.bytes[8..12].try_into().unwrap());
            reply.bytes[8..12].copy_from_slice(&seq.wrapping_add(1000).to_ne_bytes());
        },
    ];
    for end_ack in KERNELS {
        for tamper in faults {
            let mut connection = connect(end_ack, |kernel| kernel.tamper = Some(tamper));
            let unknown = unknown(commit_small(&mut connection));
            assert_eq!(unknown.reason, UnknownReason::NoAck);
            assert!(connection.ignored() > 0);
        }
    }
}

/// A late error of an earlier batch is not taken for one of this batch.
#[test]
fn late_replies_of_an_earlier_batch_are_ignored() {
    for end_ack in KERNELS {
        let mut connection = connect(end_ack, |kernel| {
            kernel.bad.insert(0, Errno::EINVAL);
        });
        let _rejected = rejected(&mut connection, small());
        let kernel = connection.transport_mut();
        kernel.bad.clear();
        // Errors of the batch before, arriving now: the empty batch had the numbers 1 and 2, the
        // question for the generation 3, the batch 4 to 8.
        for seq in 4..=8_u32 {
            let header = nl_codec::msg::Header {
                len: 20,
                kind: nl_codec::msg::MsgType::nft(NftMsg::NEW_TABLE),
                flags: nl_codec::msg::Flags::REQUEST,
                seq,
                port: PORT,
            };
            let bytes = fake::ack(&header, Some(Errno::EINVAL));
            kernel.queue.push_back(Reply {
                bytes,
                sender: 0,
                truncated: false,
            });
        }
        let before = connection.ignored();
        let outcome = commit_small(&mut connection);
        assert!(outcome.is_committed(), "{outcome}");
        assert_eq!(connection.ignored(), before + 5);
    }
}

#[test]
fn sequence_numbers_wrap_around() {
    for end_ack in KERNELS {
        for first in (0..12).map(|back| u32::MAX - back) {
            let kernel = FakeKernel::new(end_ack);
            let mut connection = Connection::starting_at(kernel, first).unwrap();
            connection.transport_mut().armed = true;
            assert!(commit_small(&mut connection).is_committed());
            connection.transport_mut().bad.insert(2, Errno::EEXIST);
            let rejected = rejected(&mut connection, small());
            assert_eq!(rejected.errors[0].message, Some(2), "from {first}");
        }
    }
}

/// ovn-kubernetes/ovn-kubernetes#4892:
/// kernels before 6.3 know no DESTROY; adding and deleting in one batch does the same.
#[test]
fn destroy_on_kernels_that_lack_it() {
    for errno in [Errno::EINVAL, Errno::EOPNOTSUPP] {
        let mut connection = connect(false, |kernel| {
            kernel.unknown = Some((NftMsg::DESTROY_TABLE, errno));
        });
        let capabilities = Capabilities::probe(&mut connection).unwrap();
        assert!(!capabilities.destroy);
        assert!(!capabilities.batch_end_ack);
        let mut batch = Batch::new(capabilities.batch_options());
        batch.destroy_table(IP, "gone").unwrap();
        batch.destroy_chain(IP, T, "c").unwrap();
        batch.destroy_set(IP, &set("m", true, None)).unwrap();
        let mut sealed = batch.seal();
        let outcome = connection.commit(&mut sealed);
        assert!(outcome.is_committed(), "{outcome}");
        let kinds: Vec<u8> = sealed.iter_messages().map(|bytes| bytes[4]).collect();
        let expected = [
            NftMsg::NEW_TABLE,
            NftMsg::NEW_SET,
            NftMsg::NEW_CHAIN,
            NftMsg::DEL_SET,
            NftMsg::DEL_CHAIN,
            NftMsg::DEL_TABLE,
        ];
        assert_eq!(kinds, expected.map(|kind| kind.0));
    }
}

/// siderolabs/pkgs#951: a kernel without an expression is named as such at start.
#[test]
fn missing_expressions_are_named() {
    for name in ["fib", "numgen", "masq"] {
        let mut connection = connect(true, |kernel| kernel.without_expr = Some(name));
        let capabilities = Capabilities::probe(&mut connection).unwrap();
        assert_eq!(capabilities.missing, [(name, Errno::ENOENT)]);
    }
}

/// google/nftables#303: many elements become several messages; no length wraps.
#[test]
fn elements_are_packed_up_to_the_attribute_limit() {
    // 28 bytes each: key 4 + 8 + 4 … 2,340 fit into 65,531 bytes.
    let mut batch = batch();
    let set = batch.set(IP, T, "m").unwrap();
    batch
        .add_elements(set, (0..2_340 * 3 + 1).map(|n| row(n, n)))
        .unwrap();
    let sealed = batch.seal();
    let lens: Vec<usize> = sealed.iter_messages().map(<[u8]>::len).collect();
    assert_eq!(lens.len(), 4);
    let list = |len: usize| len - 20 - 8 - 8;
    assert!(lens[..3].iter().all(|len| list(*len) <= 65_535), "{lens:?}");
    assert_eq!(lens[0], lens[1]);
    assert_eq!(lens[1], lens[2]);
}

proptest! {
    /// Whatever the replies hold, the outcome is one of the defined ones.
    #[test]
    fn garbled_replies_never_panic(
        end_ack: bool,
        bad in proptest::option::of(0..4_usize),
        at in 0..64_usize,
        bytes in proptest::collection::vec(any::<u8>(), 1..64),
    ) {
        let mut connection = connect(end_ack, |kernel| {
            kernel.bad.extend(bad.map(|at| (at, Errno::EINVAL)));
            kernel.garble = Some((at, bytes));
        });
        let mut sealed = small().seal();
        let outcome = connection.commit(&mut sealed);
        prop_assert!(!outcome.to_string().is_empty());
        if let Outcome::Unknown(unknown) = outcome {
            let _resolved = connection.resolve(&sealed, &unknown);
        }
    }
}
