//! How the kernel answers a batch, seen on the bare socket.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod support;

use std::io::IoSlice;

use nft_batch::{Errno, Socket, Transport, Wait};
use nl_codec::SliceCursor;
use nl_codec::ack::Control;
use nl_codec::msg::{Flags, Head, Messages, NftMsg, put_batch_begin, put_batch_end, put_message};
use nl_codec::nft::{Chain, Table};
use support::*;

/// Sends a batch that begins with number 10, adds a table (11, asks for an ack) and, if `bad`, a
/// chain of a table that is not there (12); returns the replies that are queued when the send is
/// back: number and error.
fn replies(socket: &mut Socket, generation: Option<u32>, bad: bool) -> Vec<(u32, Option<Errno>)> {
    let mut buf = [0; 1024];
    let mut cursor = SliceCursor::new(&mut buf);
    put_batch_begin(&mut cursor, 10, generation).unwrap();
    let head = |msg, seq, flags| Head::nft(msg, IP).with_flags(flags).with_seq(seq);
    let add = head(NftMsg::NEW_TABLE, 11, Flags::CREATE | Flags::ACK);
    put_message(&mut cursor, &add, &table()).unwrap();
    if bad {
        let chain = Chain::named("missing", "c");
        let add = head(NftMsg::NEW_CHAIN, 12, Flags::CREATE);
        put_message(&mut cursor, &add, &chain).unwrap();
    }
    put_batch_end(&mut cursor, 13, Flags::empty()).unwrap();
    socket.send(&[IoSlice::new(cursor.written())]).unwrap();
    let mut replies = Vec::new();
    let mut buf = [0; 4096];
    // Not waiting: the send handled everything.
    while let Ok(datagram) = socket.recv(&mut buf, Wait::No) {
        for msg in Messages::new(&buf[..datagram.len]) {
            let msg = msg.unwrap();
            match Control::decode(&msg).unwrap() {
                Some(Control::Ack(ack)) => replies.push((msg.header.seq, ack.error)),
                other => panic!("{other:?}"),
            }
        }
    }
    replies
}

fn table_exists(socket: &mut Socket) -> bool {
    let delete = raw::Raw::new().plain(NftMsg::DEL_TABLE, &Table::named(T));
    delete.send(socket) == [None]
}

#[test]
fn replies_are_queued_when_the_send_is_over() {
    in_new_netns(|| {
        let mut socket = Socket::open().unwrap();
        assert_eq!(replies(&mut socket, None, false), [(11, None)]);
        assert!(table_exists(&mut socket));
    });
}

#[test]
fn an_ack_does_not_mean_a_commit() {
    in_new_netns(|| {
        let mut socket = Socket::open().unwrap();
        let mut answers = replies(&mut socket, None, true);
        answers.sort_unstable_by_key(|(seq, _)| *seq);
        assert_eq!(answers, [(11, None), (12, Some(Errno::ENOENT))]);
        assert!(!table_exists(&mut socket));
    });
}

#[test]
fn a_wrong_generation_is_reported_with_the_number_of_the_begin_message() {
    in_new_netns(|| {
        let mut socket = Socket::open().unwrap();
        let answers = replies(&mut socket, Some(u32::MAX), false);
        assert_eq!(answers, [(10, Some(Errno::ERESTART))]);
        assert!(!table_exists(&mut socket));
    });
}
