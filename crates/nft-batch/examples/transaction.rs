//! A transaction with two mistakes: nothing of it happens, and the kernel's errors are traced back to
//! the operations, down to the element. Without the mistakes it is committed, if nobody else has
//! changed the ruleset since it was read.
//!
//! `unshare -rn cargo run -p nft-batch --example transaction`.

use core::error::Error;

use nft_batch::{Batch, By, Connection, Outcome, SetRef};
use nl_codec::msg::Family;
use nl_codec::nft::{Chain, DataType, ElemRow, Set, Table};

const FAMILY: Family = Family::IPV4;
const TABLE: &str = "example";

fn main() -> Result<(), Box<dyn Error>> {
    let mut connection = Connection::open()?;
    for line in refused(&mut connection)? {
        println!("{line}");
    }
    println!("{}", committed(&mut connection)?);
    Ok(())
}

/// What the kernel says to the mistakes: one line for each.
pub(crate) fn refused(connection: &mut Connection) -> Result<Vec<String>, Box<dyn Error>> {
    let (mut batch, set) = transaction()?;
    // A chain that is not there …
    batch.delete_chain(FAMILY, TABLE, By::Name("missing"))?;
    // … and a key that is too long, as the third of three elements.
    batch.add_elements(set, [row(&[0, 80]), row(&[0, 81]), row(&[0, 0, 0, 82])])?;
    match connection.commit(&mut batch.seal()) {
        Outcome::Rejected(rejected) => {
            Ok(rejected.errors.iter().map(ToString::to_string).collect())
        }
        other => Err(format!("not refused: {other}").into()),
    }
}

/// The same without the mistakes, made for the generation that was read.
pub(crate) fn committed(connection: &mut Connection) -> Result<Outcome, Box<dyn Error>> {
    loop {
        let generation = connection.generation()?;
        let (mut batch, _) = transaction()?;
        batch.expect_generation(generation);
        let mut sealed = batch.seal();
        match connection.commit(&mut sealed) {
            // Somebody was faster: read again, decide again.
            Outcome::GenerationMismatch(_) => {}
            Outcome::Unknown(unknown) => {
                let resolved = connection.resolve(&sealed, &unknown)?;
                return Err(format!("{unknown:?}: {resolved:?}").into());
            }
            outcome => return Ok(outcome),
        }
    }
}

/// A table with a chain and a set. The order in which operations are put in does not matter.
fn transaction() -> Result<(Batch, SetRef), Box<dyn Error>> {
    let mut batch = Batch::default();
    let mut set = Set::named(TABLE, "ports");
    set.key_type = Some(DataType::INET_SERVICE);
    set.key_len = Some(2);
    let set = batch.add_set(FAMILY, &set)?;
    batch.add_chain(FAMILY, &Chain::named(TABLE, "in"))?;
    batch.add_table(FAMILY, &Table::named(TABLE))?;
    Ok((batch, set))
}

fn row(key: &[u8]) -> ElemRow<'_> {
    ElemRow { key, data: None }
}
