//! Loads 100,000 addresses into a set as one transaction and says how long it took.
//!
//! Run it where you may change the ruleset, for example in a namespace that goes with it:
//! `unshare -rn cargo run --example load_set`.

use core::error::Error;
use core::net::Ipv4Addr;
use std::time::Instant;

use nft_batch::{Batch, Connection};
use nl_codec::msg::Family;
use nl_codec::nft::set::SetDesc;
use nl_codec::nft::{DataType, ElemRow, Set, Table};

const ADDRESSES: u32 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::open()?;
    let mut set = Set::named("example", "addresses");
    set.key_type = Some(DataType::IPV4_ADDR);
    set.key_len = Some(4);
    // With its size the kernel makes the hash table once.
    let mut desc = SetDesc::default();
    desc.size = Some(ADDRESSES);
    set.desc = Some(desc);

    let started = Instant::now();
    let mut batch = Batch::default();
    batch.add_table(Family::IPV4, &Table::named("example"))?;
    let addresses = batch.add_set(Family::IPV4, &set)?;
    for number in 0..ADDRESSES {
        let key = Ipv4Addr::from(0x0a00_0000 + number).octets();
        let row = ElemRow {
            key: &key,
            data: None,
        };
        batch.add_elements(addresses, [row])?;
    }
    let mut batch = batch.seal();
    let encoded = started.elapsed();
    let outcome = connection.commit(&mut batch);
    println!(
        "{} messages, {} bytes, encoded in {encoded:.1?}, all in {:.1?}: {outcome}",
        batch.messages(),
        batch.len(),
        started.elapsed()
    );
    if outcome.is_committed() {
        Ok(())
    } else {
        Err(outcome.to_string().into())
    }
}
