//! The examples do what they say, each in a network namespace of its own.

use nft_batch::{Batch, Connection, Events};
use nl_codec::msg::Family;
use nl_codec::nft::Table;
use test_support::in_new_netns;

#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/load_set.rs"]
mod load_set;
#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/transaction.rs"]
mod transaction;
#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/watch.rs"]
mod watch;

#[test]
fn a_million_addresses_are_loaded() {
    in_new_netns(|| load_set::load(&mut Connection::open().unwrap(), 1_000_000).unwrap());
}

#[test]
fn mistakes_are_traced_back() {
    in_new_netns(|| {
        let mut connection = Connection::open().unwrap();
        let lines = transaction::refused(&mut connection).unwrap();
        let all = lines.join("\n");
        // A chain is flushed before it is deleted: its name is wrong twice.
        assert_eq!(lines.len(), 3, "{all}");
        assert!(all.contains("delchain ip example missing: ENOENT"), "{all}");
        assert!(all.contains("ports element 2"), "{all}");
        let outcome = transaction::committed(&mut connection).unwrap();
        assert!(outcome.is_committed(), "{outcome}");
    });
}

#[test]
fn transactions_of_others_are_told() {
    in_new_netns(|| {
        let mut events = Events::open().unwrap();
        let mut connection = Connection::open().unwrap();
        for name in ["one", "two"] {
            let mut batch = Batch::default();
            batch.add_table(Family::INET, &Table::named(name)).unwrap();
            assert!(connection.commit(&mut batch.seal()).is_committed());
        }
        let mut lines = Vec::new();
        watch::watch(&mut events, 2, |line| lines.push(line)).unwrap();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines.iter().all(|line| line.contains("newtable")),
            "{lines:?}"
        );
    });
}
