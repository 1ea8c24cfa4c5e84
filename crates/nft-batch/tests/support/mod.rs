//! A private network namespace for a test, and the objects most tests use.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

use nft_batch::{Batch, Connection, Outcome, SealedBatch, SetRef, Socket, Transport};
use nl_codec::msg::Family;
use nl_codec::nft::set::{SetDesc, SetFlags};
use nl_codec::nft::{Chain, Data, DataType, Elem, Set, Table, Value};
pub(crate) mod fake;

pub(crate) use test_support::in_new_netns;

pub(crate) const T: &str = "t";
pub(crate) const IP: Family = Family::IPV4;

/// A connection in a new network namespace.
pub(crate) fn with_connection(test: impl FnOnce(Connection) + Send + 'static) {
    in_new_netns(|| test(Connection::open().unwrap()));
}

pub(crate) fn table() -> Table<'static> {
    Table::named(T)
}

pub(crate) fn chain(name: &str) -> Chain<'_> {
    Chain::named(T, name)
}

/// A set of 4-byte keys; with `data` a map to 4 bytes.
pub(crate) fn set(name: &str, data: bool, size: Option<u32>) -> Set<'_> {
    let mut set = Set::named(T, name);
    set.flags = Some(if data {
        SetFlags::MAP
    } else {
        SetFlags::empty()
    });
    set.key_type = Some(DataType::IPV4_ADDR);
    set.key_len = Some(4);
    if data {
        set.data_type = Some(DataType::IPV4_ADDR);
        set.data_len = Some(4);
    }
    if size.is_some() {
        let mut desc = SetDesc::default();
        desc.size = size;
        set.desc = Some(desc);
    }
    set
}

/// A map to verdicts.
pub(crate) fn vmap(name: &str) -> Set<'_> {
    let mut set = set(name, false, None);
    set.flags = Some(SetFlags::MAP);
    set.data_type = Some(DataType::VERDICT_MAP);
    set
}

pub(crate) fn key(number: u32) -> Elem<'static> {
    Elem::new(Value::u32_be(number))
}

pub(crate) fn row(number: u32, data: u32) -> Elem<'static> {
    Elem::mapping(Value::u32_be(number), Data::Value(Value::u32_be(data)))
}

pub(crate) fn batch() -> Batch {
    Batch::default()
}

/// Commits or panics with what the kernel said.
pub(crate) fn commit<Tr: Transport>(connection: &mut Connection<Tr>, batch: Batch) -> SealedBatch {
    let mut sealed = batch.seal();
    let outcome = connection.commit(&mut sealed);
    assert!(outcome.is_committed(), "{outcome}");
    sealed
}

/// Commits and returns what the kernel refused.
pub(crate) fn rejected<Tr: Transport>(
    connection: &mut Connection<Tr>,
    batch: Batch,
) -> nft_batch::Rejected {
    match connection.commit(&mut batch.seal()) {
        Outcome::Rejected(rejected) => rejected,
        other => panic!("not rejected: {other:?}"),
    }
}

/// Table `t` with map `m` of 4-byte keys to 4 bytes.
pub(crate) fn with_map(connection: &mut Connection<Socket>) {
    let mut batch = batch();
    batch.add_table(IP, &table()).unwrap();
    batch.add_set(IP, &set("m", true, None)).unwrap();
    commit(connection, batch);
}

pub(crate) fn map(batch: &mut Batch) -> SetRef {
    batch.set(IP, T, "m").unwrap()
}

/// What map `m` holds for a key.
pub(crate) fn lookup(connection: &mut Connection<Socket>, number: u32) -> Option<Vec<u8>> {
    connection
        .element(IP, T, "m", &key(number), |elem| match &elem.data {
            Some(Data::Value(value)) => value.as_bytes().to_vec(),
            other => panic!("unexpected data {other:?}"),
        })
        .unwrap()
}
