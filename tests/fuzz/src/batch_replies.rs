//! Replies to a transaction and to reads.

use nft_batch::{Batch, BatchOptions, Connection, Outcome};
use nl_codec::msg::Family;
use nl_codec::nft::{DataType, Elem, ElemRow, Set, Table, Value};

use crate::wire::Wire;

const TABLE: &str = "t";
const SET: &str = "s";

pub(crate) fn run(input: &[u8]) {
    let Ok(mut connection) = Connection::new(Wire::new(input)) else {
        return;
    };
    let Some(batch) = batch(input.first().is_some_and(|kernel| kernel & 4 != 0)) else {
        panic!("a small batch does not encode");
    };
    let mut sealed = batch.seal();
    let outcome = connection.commit(&mut sealed);
    assert!(!outcome.to_string().is_empty());
    match outcome {
        Outcome::Unknown(unknown) => {
            // It is asked for by key; whatever the answers are, it ends.
            let resolved = connection.resolve(&sealed, &unknown);
            core::hint::black_box(format!("{resolved:?}"));
        }
        Outcome::Rejected(rejected) => {
            assert!(!rejected.errors.is_empty());
            for error in &rejected.errors {
                assert!(error.message.is_none_or(|wire| wire < sealed.messages()));
                assert!(!error.to_string().is_empty());
            }
        }
        Outcome::Committed(committed) => assert!(committed.progress.committed > 0),
        _ => {}
    }
    // What nobody has read so far answers the following; nothing of it may be waited for.
    core::hint::black_box(connection.check(&mut sealed));
    let family = Family::IPV4;
    let mut names = Vec::new();
    drop(connection.dump_tables(family, |_, table| names.push(format!("{table:?}"))));
    drop(connection.dump_chains(family, TABLE, |it| names.push(format!("{it:?}"))));
    drop(connection.dump_rules(family, TABLE, None, |it| names.push(format!("{it:?}"))));
    drop(connection.dump_sets(family, TABLE, |it| names.push(format!("{it:?}"))));
    drop(connection.dump_elements(family, TABLE, SET, |it| names.push(format!("{it:?}"))));
    drop(connection.dump_objects(family, TABLE, |it| names.push(format!("{it:?}"))));
    let key = Elem::new(Value::new(&[192, 0, 2, 1]));
    drop(connection.element(family, TABLE, SET, &key, |it| format!("{it:?}")));
    drop(connection.generation());
    core::hint::black_box(names);
}

/// Three messages: a table, a set, two elements.
fn batch(split: bool) -> Option<Batch> {
    let mut batch = Batch::new(BatchOptions::default().split(split));
    batch.add_table(Family::IPV4, &Table::named(TABLE)).ok()?;
    let mut set = Set::named(TABLE, SET);
    set.key_type = Some(DataType::IPV4_ADDR);
    set.key_len = Some(4);
    let set = batch.add_set(Family::IPV4, &set).ok()?;
    let row = |key| ElemRow { key, data: None };
    batch
        .add_elements(set, [row(&[192, 0, 2, 1]), row(&[192, 0, 2, 2])])
        .ok()?;
    Some(batch)
}
