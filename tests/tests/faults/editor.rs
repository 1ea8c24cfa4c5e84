//! Another program that changes our tables, and its own all the time.

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{sync::Arc, thread};

use anyhow::{Result, anyhow};
use e2e::dice::Dice;
use kproxy::{engine::TABLE, lower::nf_family};
use nft_batch::{Batch, By, Connection};
use nl_codec::{
    msg::Family as NfFamily,
    nft::{Elem, Table, Value},
};
use svc_planner::plan::Family;

/// What it leaves of its own.
const OWN: &str = "editor";

/// A thread that edits until it is stopped.
pub(crate) struct Editor {
    stop: Arc<AtomicBool>,
    thread: thread::JoinHandle<Result<u32>>,
}

impl Editor {
    /// Starts it in the calling thread's network namespace.
    pub(crate) fn start(seed: u64) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let mut connection = Connection::open()?;
        let thread = thread::spawn(move || {
            let mut dice = Dice::new(seed);
            let mut edits = 0;
            while !stopped.load(Ordering::Relaxed) {
                own(&mut connection)?;
                if dice.one_in(4) {
                    edits += u32::from(edit(&mut connection, &mut dice)?);
                }
                // Its pace is what is random here.
                thread::sleep(Duration::from_millis(dice.below(20)));
            }
            Ok(edits)
        });
        Ok(Self { stop, thread })
    }

    /// Ends it; how many of its edits the kernel took.
    pub(crate) fn stop(self) -> Result<u32> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the editor panicked"))?
    }
}

/// Makes and deletes a table of its own: the generation moves on.
fn own(connection: &mut Connection) -> Result<()> {
    let mut batch = Batch::default();
    batch.add_table(NfFamily::INET, &Table::named(OWN))?;
    drop(connection.commit(&mut batch.seal()));
    let mut batch = Batch::default();
    batch.delete_table(NfFamily::INET, By::Name(OWN))?;
    drop(connection.commit(&mut batch.seal()));
    Ok(())
}

/// One edit of a table of ours; whether the kernel took it.
fn edit(connection: &mut Connection, dice: &mut Dice) -> Result<bool> {
    let family = if dice.one_in(2) {
        Family::Ipv4
    } else {
        Family::Ipv6
    };
    let nf = nf_family(family);
    let mut batch = Batch::default();
    match dice.below(12) {
        0 => {
            batch.delete_table(nf, By::Name(TABLE))?;
        }
        1..=3 => {
            let chains = ["services", "nat-prerouting", "nat-postrouting"];
            let chain = usize::try_from(dice.below(3)).unwrap_or(0);
            batch.flush_chain(nf, TABLE, chains[chain])?;
        }
        _ => {
            let Some((set, key)) = row(connection, nf, dice)? else {
                return Ok(false);
            };
            let set = batch.set(nf, TABLE, &set)?;
            batch.delete_elements(set, [Elem::new(Value::new(&key))])?;
        }
    }
    Ok(connection.commit(&mut batch.seal()).is_committed())
}

/// A row of one of the maps that packets are looked up in.
fn row(
    connection: &mut Connection,
    family: NfFamily,
    dice: &mut Dice,
) -> Result<Option<(String, Vec<u8>)>> {
    let mut sets = Vec::new();
    let named = |name: &str| name.starts_with("services") || name.starts_with("endpoints");
    drop(connection.dump_sets(family, TABLE, |set| {
        let name = set.name.and_then(|name| name.to_str()).unwrap_or_default();
        if named(name) {
            sets.push(name.to_owned());
        }
    }));
    let Some(count) = u64::try_from(sets.len()).ok().filter(|count| *count > 0) else {
        return Ok(None);
    };
    let set = sets.swap_remove(usize::try_from(dice.below(count))?);
    let mut keys = Vec::new();
    drop(connection.dump_elements(family, TABLE, &set, |elem| {
        keys.extend(elem.key_bytes().map(<[u8]>::to_vec));
    }));
    let Some(count) = u64::try_from(keys.len()).ok().filter(|count| *count > 0) else {
        return Ok(None);
    };
    let key = keys.swap_remove(usize::try_from(dice.below(count))?);
    Ok(Some((set, key)))
}
