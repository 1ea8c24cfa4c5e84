//! The order of messages on the wire does not depend on the order of calls.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod support;

use nft_batch::{Batch, BatchError, BatchOptions, By, Connection, NotSentReason, Outcome};
use nl_codec::msg::{Messages, NftMsg};
use nl_codec::nft::expr::Counter;
use nl_codec::nft::{Elem, ElemList, ElemRow, Exprs, Rule, Str};
use proptest::prelude::*;
use support::fake::FakeKernel;
use support::*;

#[derive(Debug, Clone, Copy)]
enum Call {
    AddTable,
    AddSet(u8),
    AddHotSet(u8),
    AddChain(u8),
    Add(u8, u32),
    Delete(u8, u32),
    FlushChain(u8),
    AddRule(u8),
    DeleteSet(u8),
    DeleteChain(u8),
    DeleteTable,
    Barrier,
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let call = prop_oneof![
        Just(Call::AddTable),
        (0..3_u8).prop_map(Call::AddSet),
        (0..3_u8).prop_map(Call::AddHotSet),
        (0..3_u8).prop_map(Call::AddChain),
        (0..5_u8, 0..1_000_u32).prop_map(|(set, n)| Call::Add(set, n)),
        (0..5_u8, 0..1_000_u32).prop_map(|(set, n)| Call::Delete(set, n)),
        (0..3_u8).prop_map(Call::FlushChain),
        (0..3_u8).prop_map(Call::AddRule),
        (0..3_u8).prop_map(Call::DeleteSet),
        (0..3_u8).prop_map(Call::DeleteChain),
        Just(Call::DeleteTable),
        Just(Call::Barrier),
    ];
    proptest::collection::vec(call, 0..60)
}

fn name(prefix: &str, n: u8) -> String {
    format!("{prefix}{n}")
}

fn apply(batch: &mut Batch, call: Call) {
    let exprs = [Counter::default().into()];
    match call {
        Call::AddTable => {
            batch.add_table(IP, &table()).unwrap();
        }
        Call::AddSet(n) => {
            batch.add_set(IP, &set(&name("s", n), true, None)).unwrap();
        }
        Call::AddHotSet(n) => {
            batch
                .add_hot_set(IP, &set(&name("h", n), true, None))
                .unwrap();
        }
        Call::AddChain(n) => {
            batch.add_chain(IP, &chain(&name("c", n))).unwrap();
        }
        Call::Add(n, key) => {
            let set = batch.set(IP, T, &name("s", n)).unwrap();
            batch.add_elements(set, [row(key, 1)]).unwrap();
        }
        Call::Delete(n, number) => {
            let set = batch.set(IP, T, &name("s", n)).unwrap();
            batch.delete_elements(set, [key(number)]).unwrap();
        }
        Call::FlushChain(n) => {
            batch.flush_chain(IP, T, &name("c", n)).unwrap();
        }
        Call::AddRule(n) => {
            let chain = name("c", n);
            let rule = Rule::new(T, &chain, Exprs::new(&exprs));
            batch.add_rule(IP, &rule).unwrap();
        }
        Call::DeleteSet(n) => {
            let set = name("s", n);
            batch.delete_set(IP, T, By::Name(&set)).unwrap();
        }
        Call::DeleteChain(n) => {
            let chain = name("c", n);
            batch.delete_chain(IP, T, By::Name(&chain)).unwrap();
        }
        Call::DeleteTable => {
            batch.delete_table(IP, By::Name(T)).unwrap();
        }
        Call::Barrier => batch.barrier(),
    }
}

/// Rank of a message within a section.
fn rank(kind: NftMsg) -> u8 {
    match kind {
        NftMsg::NEW_TABLE => 0,
        NftMsg::NEW_SET => 1,
        NftMsg::NEW_CHAIN => 2,
        NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM => 3,
        NftMsg::DEL_RULE => 4,
        NftMsg::NEW_RULE => 5,
        NftMsg::DEL_SET => 6,
        NftMsg::DEL_CHAIN => 7,
        NftMsg::DEL_TABLE => 8,
        other => panic!("unexpected {other}"),
    }
}

/// Kind, set, and keys of each message.
type Seen = (NftMsg, Option<String>, Vec<Vec<u8>>);

fn seen(batch: Batch) -> Vec<Seen> {
    let mut set_ids = std::collections::HashMap::new();
    let sealed = batch.seal();
    sealed
        .iter_messages()
        .map(|bytes| {
            let msg = Messages::new(bytes).next().unwrap().unwrap();
            let msg = msg.nfnetlink().unwrap();
            let kind = msg.header.kind.as_nft().unwrap();
            if kind == NftMsg::NEW_SET {
                let set: nl_codec::nft::Set<'_> = msg.body().unwrap();
                let name = set.name.unwrap().to_string();
                let previous = set_ids.insert(set.id.unwrap(), name.clone());
                assert_eq!(previous, None, "set ids are unique");
                return (kind, Some(name), Vec::new());
            }
            if rank(kind) != 3 {
                return (kind, None, Vec::new());
            }
            let list: ElemList<'_> = msg.body().unwrap();
            // A set of this batch goes by id alone, another one by name alone.
            assert!(list.set.is_none() || list.set_id.is_none());
            let set = match (list.set, list.set_id) {
                (Some(name), _) => name.to_string(),
                (None, Some(id)) => set_ids[&id].clone(),
                (None, None) => panic!("no set"),
            };
            let keys = list.elems.unwrap().iter();
            let keys = keys.map(|elem| elem.unwrap().key_bytes().unwrap().to_vec());
            (kind, Some(set), keys.collect())
        })
        .collect()
}

fn set_of(bytes: &[u8]) -> Option<String> {
    let msg = Messages::new(bytes).next().unwrap().unwrap();
    let list: ElemList<'_> = msg.nfnetlink().unwrap().body().unwrap();
    list.set.map(|set| set.to_string())
}

proptest! {
    #[test]
    fn sections_are_ordered_by_phase_and_sets_are_together(calls in calls()) {
        // Section by section, what is sent must not depend on the order of calls.
        for section in calls.split(|call| matches!(call, Call::Barrier)) {
            let mut batch = batch();
            for call in section {
                apply(&mut batch, *call);
            }
            let seen = seen(batch);
            prop_assert!(seen.is_sorted_by_key(|(kind, ..)| rank(*kind)));
            let elements: Vec<&Seen> = seen.iter().filter(|(kind, ..)| rank(*kind) == 3).collect();
            // One message per set and direction, deletions right before additions.
            let mut order: Vec<(&str, NftMsg)> = Vec::new();
            for (kind, set, _) in &elements {
                order.push((set.as_deref().unwrap(), *kind));
            }
            let mut unique = order.clone();
            unique.sort_by_key(|(set, kind)| (*set, kind.0));
            unique.dedup();
            prop_assert_eq!(unique.len(), order.len());
            for pair in order.windows(2) {
                if pair[0].0 == pair[1].0 {
                    prop_assert_eq!(pair[0].1, NftMsg::DEL_SETELEM);
                } else {
                    prop_assert!(!order.iter().any(|(set, kind)| *set == pair[0].0
                        && *kind == NftMsg::NEW_SETELEM) || pair[0].1 == NftMsg::NEW_SETELEM);
                }
            }
            // Nothing is lost.
            let count = |pattern: fn(&Call) -> bool| section.iter().filter(|c| pattern(c)).count();
            let keys = |kind: NftMsg| -> usize {
                elements.iter().filter(|it| it.0 == kind).map(|it| it.2.len()).sum()
            };
            let added = count(|c| matches!(c, Call::Add(..)));
            let deleted = count(|c| matches!(c, Call::Delete(..)));
            prop_assert_eq!(keys(NftMsg::NEW_SETELEM), added);
            prop_assert_eq!(keys(NftMsg::DEL_SETELEM), deleted);
        }
    }

    #[test]
    fn a_barrier_separates(calls in calls()) {
        let mut whole = batch();
        let mut parts = Vec::new();
        for section in calls.split(|call| matches!(call, Call::Barrier)) {
            let mut part = batch();
            for call in section {
                apply(&mut part, *call);
                apply(&mut whole, *call);
            }
            whole.barrier();
            parts.extend(part.seal().iter_messages().map(|bytes| bytes[4]).collect::<Vec<_>>());
        }
        let whole: Vec<u8> = whole.seal().iter_messages().map(|bytes| bytes[4]).collect();
        prop_assert_eq!(whole, parts);
    }

    /// Split or not, the same messages arrive in the same order, and nothing is cut between a
    /// set's deletions and its additions.
    #[test]
    fn a_split_batch_holds_the_same_messages(calls in calls(), limit in 200..3_000_usize) {
        let mut batch = Batch::new(BatchOptions::default().split(true));
        for call in &calls {
            apply(&mut batch, *call);
        }
        let one_section = !calls.iter().any(|call| matches!(call, Call::Barrier));
        let mut sealed = batch.seal();
        let messages: Vec<Vec<u8>> = sealed.iter_messages().map(<[u8]>::to_vec).collect();
        let mut connection = Connection::new(FakeKernel::new(true)).unwrap();
        let kernel = connection.transport_mut();
        kernel.armed = true;
        kernel.limit = limit;
        match connection.commit(&mut sealed) {
            Outcome::Committed(_) => {
                let parts = &connection.transport_mut().committed;
                let sent: Vec<&[u8]> = parts.iter().flatten().map(|bytes| &bytes[12..]).collect();
                let made: Vec<&[u8]> = messages.iter().map(|bytes| &bytes[12..]).collect();
                prop_assert_eq!(sent, made);
                for pair in parts.windows(2) {
                    let (last, first) = (pair[0].last().unwrap(), &pair[1][0]);
                    let kinds = (NftMsg(last[4]), NftMsg(first[4]));
                    if one_section && kinds == (NftMsg::DEL_SETELEM, NftMsg::NEW_SETELEM) {
                        prop_assert_ne!(set_of(last), set_of(first));
                    }
                    // Structure is never cut from structure.
                    prop_assert!(rank(kinds.0) == 3 || rank(kinds.1) == 3);
                }
            }
            Outcome::NotSent(not_sent) => {
                let NotSentReason::TooLong { len, .. } = not_sent.reason else {
                    panic!("{}", not_sent.reason);
                };
                prop_assert!(len > limit);
                prop_assert_eq!(connection.transport_mut().committed.len(), 0);
            }
            other => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn reuse_gives_the_same_bytes(calls in calls()) {
        let encode = |mut batch: Batch| {
            for call in &calls {
                apply(&mut batch, *call);
            }
            batch.seal()
        };
        let first = encode(batch());
        let bytes: Vec<Vec<u8>> = first.iter_messages().map(<[u8]>::to_vec).collect();
        let again = encode(first.reuse());
        prop_assert!(again.iter_messages().eq(bytes.iter().map(Vec::as_slice)));
    }
}

#[test]
fn hot_sets_come_first() {
    let mut b = batch();
    b.add_set(IP, &set("cold", true, None)).unwrap();
    b.add_hot_set(IP, &set("hot", true, None)).unwrap();
    let names: Vec<_> = seen(b).into_iter().filter_map(|it| it.1).collect();
    assert_eq!(names, ["hot", "cold"]);
}

/// A set of this batch is named by id alone, also in expressions, where its name is empty.
#[test]
fn references_to_new_sets_are_ids() {
    let mut b = batch();
    let existing = b.set(IP, T, "old").unwrap();
    let new = b.add_set(IP, &set("new", true, None)).unwrap();
    assert_eq!(existing.id(), None);
    assert_eq!(existing.name_in_expr("old"), Str::from("old"));
    assert!(new.id().is_some());
    assert_eq!(new.name_in_expr("new"), Str::from(""));
    // The same set by name is the same reference.
    assert_eq!(b.set(IP, T, "new").unwrap(), new);
}

#[test]
fn references_are_good_in_their_own_batch_only() {
    let mut first = batch();
    let set = first.set(IP, T, "m").unwrap();
    let mut second = batch();
    let error = second.add_elements(set, [row(1, 1)]).unwrap_err();
    assert_eq!(error, BatchError::ForeignSet);
    let mut again = first.seal().reuse();
    let error = again.flush_set(set).unwrap_err();
    assert_eq!(error, BatchError::ForeignSet);
}

/// An operation that cannot be encoded leaves the batch as it was.
#[test]
fn a_failed_operation_leaves_no_trace() {
    let mut b = batch();
    let set = b.set(IP, T, "m").unwrap();
    b.add_elements(set, (0..100).map(|n| row(n, n))).unwrap();
    let long = vec![0; 70_000];
    let good = [1, 2, 3, 4];
    let rows = (0..3_000).map(|n| ElemRow {
        key: if n == 2_999 { &long } else { &good },
        data: None,
    });
    let error = b.add_elements(set, rows).unwrap_err();
    assert!(matches!(
        error,
        BatchError::Encode {
            what: "add elements",
            ..
        }
    ));
    b.add_elements(set, (100..200).map(|n| row(n, n))).unwrap();
    let seen = seen(b);
    assert_eq!(seen.len(), 1);
    let expected: Vec<Vec<u8>> = (0..200_u32).map(|n| n.to_be_bytes().to_vec()).collect();
    assert_eq!(seen[0].2, expected);
}

#[test]
fn missing_parts_are_named() {
    let mut b = batch();
    let error = b.add_set(IP, &nl_codec::nft::Set::default()).unwrap_err();
    assert_eq!(error.to_string(), "add set without a table");
    let error = b
        .add_table(IP, &nl_codec::nft::Table::default())
        .unwrap_err();
    assert_eq!(error.to_string(), "add table without a name");
    let exprs = [Counter::default().into()];
    let rule = Rule::new(T, "c", Exprs::new(&exprs));
    let error = b.replace_rule(IP, &rule).unwrap_err();
    assert_eq!(error.to_string(), "replace rule without a handle");
    assert!(b.seal().is_empty());
}

/// Elements given in several calls are still packed into one message.
#[test]
fn calls_share_messages() {
    let mut b = batch();
    let (m, n) = (b.set(IP, T, "m").unwrap(), b.set(IP, T, "n").unwrap());
    for number in 0..1_000 {
        b.add_elements(m, [row(number, 1)]).unwrap();
        b.add_elements(n, [Elem::new(nl_codec::nft::Value::u32_be(number))])
            .unwrap();
    }
    assert_eq!(b.operations(), 2_000);
    assert_eq!(b.seal().messages(), 2);
}
