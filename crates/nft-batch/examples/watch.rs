//! Prints who changes the rulesets of this network namespace, one line per transaction.
//!
//! `sudo cargo run -p nft-batch --example watch`, and for example `nft add table ip t` elsewhere.

use core::error::Error;

use nft_batch::{EventError, Events};

fn main() -> Result<(), Box<dyn Error>> {
    watch(&mut Events::open()?, usize::MAX, |line| println!("{line}"))
}

/// Tells `each` of so many transactions.
pub(crate) fn watch(
    events: &mut Events,
    transactions: usize,
    mut each: impl FnMut(String),
) -> Result<(), Box<dyn Error>> {
    for _ in 0..transactions {
        match events.next_group(None) {
            Ok(group) => {
                let who = group.process.unwrap_or("?");
                let pid = group.pid.unwrap_or(0);
                let kinds: Vec<_> = group.iter().map(|it| it.header.kind.to_string()).collect();
                let more = if group.complete { "" } else { " …" };
                let kinds = kinds.join(" ");
                let generation = group.generation;
                each(format!(
                    "generation {generation} by {who} ({pid}): {kinds}{more}"
                ));
            }
            Err(EventError::Overrun) => each("events were lost; read the ruleset again".to_owned()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
