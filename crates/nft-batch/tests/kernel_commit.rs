//! Transactions on the running kernel.

mod support;

use nft_batch::{By, Connection, Errno, Outcome};
use nl_codec::msg::NftMsg;
use nl_codec::nft::{Data, Elem, Value, Verdict};
use support::*;

#[test]
fn a_batch_in_any_order_of_calls_is_committed_and_readable() {
    with_connection(|mut connection| {
        let mut batch = batch();
        let early = batch.set(IP, T, "m").unwrap();
        batch.add_elements(early, [row(1, 10)]).unwrap();
        let new = batch.add_set(IP, &set("m", true, None)).unwrap();
        batch.add_elements(new, [row(2, 20)]).unwrap();
        batch.add_table(IP, &table()).unwrap();
        commit(&mut connection, batch);
        assert_eq!(lookup(&mut connection, 1), Some(vec![0, 0, 0, 10]));
        assert_eq!(lookup(&mut connection, 2), Some(vec![0, 0, 0, 20]));
        assert_eq!(lookup(&mut connection, 3), None);
    });
}

#[test]
fn deletions_come_before_additions_whatever_the_order_of_calls() {
    with_connection(|mut connection| {
        with_map(&mut connection);
        let mut first = batch();
        let m = map(&mut first);
        first.add_elements(m, [row(1, 10)]).unwrap();
        let mut next = commit(&mut connection, first).reuse();
        let m = map(&mut next);
        next.add_elements(m, [row(1, 11)]).unwrap();
        next.delete_elements(m, [key(1)]).unwrap();
        commit(&mut connection, next);
        assert_eq!(lookup(&mut connection, 1), Some(vec![0, 0, 0, 11]));
    });
}

/// moby/moby#53301:
/// add never overwrites; delete and add in one transaction replaces; an identical re-add is
/// no change.
#[test]
fn adding_other_data_to_a_key_is_eexist_and_names_the_element() {
    with_connection(|mut connection| {
        with_map(&mut connection);
        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, (0..100).map(|n| row(n, n))).unwrap();
        commit(&mut connection, b);

        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, (100..150).map(|n| row(n, n))).unwrap();
        let bad = b
            .add_elements(
                m,
                (140..160)
                    .rev()
                    .map(|n| row(n - 60, if n == 150 { 0 } else { n - 60 })),
            )
            .unwrap();
        let rejected = rejected(&mut connection, b);
        assert!(rejected.complete);
        let [error] = rejected.errors.as_slice() else {
            panic!("{rejected:?}");
        };
        assert_eq!(error.errno, Errno::EEXIST);
        assert_eq!(error.kind, Some(NftMsg::NEW_SETELEM));
        assert_eq!(error.op, Some(bad));
        assert_eq!(error.table.as_deref(), Some("t"));
        assert_eq!(error.object.as_deref(), Some("m"));
        let element = error.element.as_ref().unwrap();
        assert_eq!(
            (element.index, element.key.as_slice()),
            (9, &[0, 0, 0, 90][..])
        );
        // Nothing of the batch is there.
        assert_eq!(lookup(&mut connection, 120), None);

        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, [row(1, 1), row(1, 1)]).unwrap();
        commit(&mut connection, b);

        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, [row(200, 1), row(200, 2)]).unwrap();
        let rejected = support::rejected(&mut connection, b);
        assert_eq!(rejected.errors[0].errno, Errno::EEXIST);
        assert_eq!(rejected.errors[0].element.as_ref().unwrap().index, 1);
    });
}

/// leshniak/nft-blacklist#2: ENFILE is how the kernel says that a set is full.
#[test]
fn a_full_set_is_named_with_its_size_and_the_element() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_set(IP, &set("m", true, Some(2))).unwrap();
        commit(&mut connection, b);
        let mut b = batch();
        let m = map(&mut b);
        b.add_elements(m, (1..=3).map(|n| row(n, n))).unwrap();
        let rejected = rejected(&mut connection, b);
        let error = &rejected.errors[0];
        assert_eq!(error.errno, Errno::ENFILE);
        assert_eq!(error.set_size, Some(2));
        assert_eq!(error.element.as_ref().unwrap().key, [0, 0, 0, 3]);
        assert_eq!(
            error.to_string(),
            "newsetelem ip t m element 2 (0x00000003): ENFILE (the set is full, size 2) at \
             NFTA_SET_ELEM_LIST_ELEMENTS/1[2]"
        );
    });
}

/// kubernetes/kubernetes#122604:
/// a chain in use by a map row cannot go alone; with the row, in whatever order of calls, it
/// can.
#[test]
fn a_chain_goes_with_the_row_that_uses_it() {
    with_connection(|mut connection| {
        let goto = Elem::mapping(Value::u32_be(1), Data::Verdict(Verdict::goto("c")));
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_chain(IP, &chain("c")).unwrap();
        let v = b.add_set(IP, &vmap("v")).unwrap();
        b.add_elements(v, [goto]).unwrap();
        commit(&mut connection, b);

        let mut b = batch();
        b.delete_chain(IP, T, By::Name("c")).unwrap();
        let rejected = rejected(&mut connection, b);
        assert_eq!(rejected.errors[0].errno, Errno::EBUSY);
        assert_eq!(rejected.errors[0].object.as_deref(), Some("c"));

        let mut b = batch();
        b.delete_chain(IP, T, By::Name("c")).unwrap();
        let v = b.set(IP, T, "v").unwrap();
        b.delete_elements(v, [key(1)]).unwrap();
        commit(&mut connection, b);
    });
}

/// linkerd/linkerd2#9053: another writer came between reading and committing.
#[test]
fn a_batch_for_another_generation_is_a_mismatch() {
    with_connection(|mut connection| {
        with_map(&mut connection);
        let generation = connection.generation().unwrap();
        let mut other = Connection::open().unwrap();
        let mut b = batch();
        b.add_chain(IP, &chain("other")).unwrap();
        commit(&mut other, b);

        let mut b = batch();
        b.add_chain(IP, &chain("c")).unwrap();
        b.expect_generation(generation);
        let mut sealed = b.seal();
        match connection.commit(&mut sealed) {
            Outcome::GenerationMismatch(mismatch) => assert_eq!(mismatch.expected, generation),
            other => panic!("{other:?}"),
        }
        let mut b = sealed.reuse();
        b.add_chain(IP, &chain("c")).unwrap();
        b.expect_generation(connection.generation().unwrap());
        match connection.commit(&mut b.seal()) {
            Outcome::Committed(committed) => {
                assert_eq!(committed.generation, Some(generation + 2));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(connection.generation().unwrap(), generation + 2);
    });
}
