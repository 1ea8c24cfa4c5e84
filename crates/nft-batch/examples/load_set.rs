//! A firewall's block list: a million addresses into a set as one transaction, and how long it took.
//!
//! Run it where you may change the ruleset, for example in a namespace that goes with it:
//! `unshare -rn cargo run --release -p nft-batch --example load_set`.

use core::error::Error;
use core::net::Ipv4Addr;
use std::time::Instant;

use nft_batch::{Batch, BatchOptions, Connection};
use nl_codec::msg::Family;
use nl_codec::nft::set::SetDesc;
use nl_codec::nft::{DataType, Elem, ElemRow, Set, Table, Value};

const ADDRESSES: u32 = 1_000_000;
const TABLE: &str = "firewall";
const SET: &str = "blocked";

fn main() -> Result<(), Box<dyn Error>> {
    load(&mut Connection::open()?, ADDRESSES)
}

/// Makes the set with so many addresses, and looks two of them up.
pub(crate) fn load(connection: &mut Connection, addresses: u32) -> Result<(), Box<dyn Error>> {
    let mut set = Set::named(TABLE, SET);
    set.key_type = Some(DataType::IPV4_ADDR);
    set.key_len = Some(4);
    // With its size the kernel makes the hash table once.
    let mut desc = SetDesc::default();
    desc.size = Some(addresses);
    set.desc = Some(desc);

    let started = Instant::now();
    // A user namespace may not make its send buffer as long as this is: then it becomes several
    // transactions, cut where that does no harm.
    let mut batch = Batch::new(BatchOptions::default().split(true));
    batch.add_table(Family::IPV4, &Table::named(TABLE))?;
    let blocked = batch.add_set(Family::IPV4, &set)?;
    for number in 0..addresses {
        let key = address(number);
        let row = ElemRow {
            key: &key,
            data: None,
        };
        batch.add_elements(blocked, [row])?;
    }
    let mut batch = batch.seal();
    let encoded = started.elapsed();
    let outcome = connection.commit(&mut batch);
    println!(
        "{addresses} addresses, {} messages, {} bytes, encoded in {encoded:.1?}, all in {:.1?}: {outcome}",
        batch.messages(),
        batch.len(),
        started.elapsed()
    );
    if !outcome.is_committed() {
        return Err(outcome.to_string().into());
    }
    // Reading by key costs microseconds; dumping a set of this size would take minutes.
    for number in [0, addresses, addresses - 1] {
        let key = address(number);
        let elem = Elem::new(Value::new(&key));
        let found = connection.element(Family::IPV4, TABLE, SET, &elem, |_| ())?;
        let is = if found.is_some() {
            "blocked"
        } else {
            "not blocked"
        };
        println!("{} is {is}", Ipv4Addr::from(key));
        if found.is_some() != (number < addresses) {
            return Err("not what was loaded".into());
        }
    }
    Ok(())
}

fn address(number: u32) -> [u8; 4] {
    (0x0a00_0000 + number).to_be_bytes()
}
