//! Dumps of a set whose hash table the kernel is resizing: some elements come twice, others not at all.

#![allow(clippy::unwrap_used, reason = "test code outside #[test] functions")]

mod support;

use nft_batch::{Connection, Dump};
use nl_codec::nft::Elem;
use support::fake::{FakeDump, FakeKernel};
use support::*;

/// What is told of a set whose dumps are these, and how the reading went.
fn read(dumps: &[(&[u32], bool)]) -> (Vec<u32>, Dump) {
    let mut connection = Connection::new(FakeKernel::new(true)).unwrap();
    connection.transport_mut().dumps = dumps
        .iter()
        .map(|&(keys, commits)| FakeDump {
            keys: keys.to_vec(),
            commits,
        })
        .collect();
    let mut told = Vec::new();
    let each = |elem: &Elem<'_>| {
        let key = elem.key_bytes().unwrap();
        told.push(u32::from_be_bytes(key.try_into().unwrap()));
    };
    let dump = connection.dump_elements(IP, T, "m", each).unwrap();
    (told, dump)
}

#[test]
fn a_dump_without_repeats_is_all_there_is() {
    let (told, dump) = read(&[(&[1, 2, 3], false)]);
    assert_eq!(told, [1, 2, 3]);
    assert_eq!((dump.passes, dump.consistent), (1, true));
}

#[test]
fn what_is_missed_beside_a_repeat_is_found_and_nothing_told_twice() {
    let (told, dump) = read(&[
        (&[1, 2, 2, 4], false),
        (&[4, 3, 3, 1], false),
        (&[1, 2, 3, 4, 5], false),
    ]);
    assert_eq!(told, [1, 2, 4, 3, 5]);
    assert_eq!((dump.passes, dump.consistent), (3, true));
}

#[test]
fn a_commit_between_two_passes_is_told() {
    let (told, dump) = read(&[(&[1, 1], true), (&[1, 2], false)]);
    assert_eq!(told, [1, 2]);
    assert_eq!((dump.passes, dump.consistent), (2, false));
}

#[test]
fn one_that_goes_on_repeating_is_left_at_last() {
    let (told, dump) = read(&vec![(&[1, 1][..], false); 20]);
    assert_eq!(told, [1]);
    assert_eq!((dump.passes, dump.consistent), (8, false));
}
