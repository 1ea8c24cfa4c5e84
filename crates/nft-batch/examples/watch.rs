//! Prints who changes the rulesets of this network namespace, one line per transaction.

use core::error::Error;

use nft_batch::{EventError, Events};

fn main() -> Result<(), Box<dyn Error>> {
    let mut events = Events::open()?;
    loop {
        match events.next_group(None) {
            Ok(group) => {
                let who = group.process.unwrap_or("?");
                let pid = group.pid.unwrap_or(0);
                print!("generation {} by {who} ({pid}):", group.generation);
                for msg in group.iter() {
                    print!(" {}", msg.header.kind);
                }
                println!("{}", if group.complete { "" } else { " …" });
            }
            Err(EventError::Overrun) => println!("events were lost; read the ruleset again"),
            Err(error) => return Err(error.into()),
        }
    }
}
