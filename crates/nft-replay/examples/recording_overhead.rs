//! What recording (`kproxy run --record`) costs: the same transactions with and without, alternating,
//! in a network namespace of their own.
//!
//! ```console
//! # cargo run --release -p nft-replay --example recording_overhead
//! ```

use core::error::Error;
use core::time::Duration;
use std::time::Instant;

use netns_lab::enter_user_namespace;
use nft_batch::record::{Recorder, Section};
use nft_batch::{Batch, By, Connection, Socket};
use nft_replay::play::{Place, in_place};
use nl_codec::msg::Family;
use nl_codec::nft::set::{SetDesc, SetFlags};
use nl_codec::nft::{Data, DataType, Elem, Set, Table, Value};

const FAMILY: Family = Family::IPV4;
/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Rounds of each kind, with and without.
    pub(crate) rounds: u32,
    /// Transactions of a round of small ones.
    pub(crate) small: u32,
    /// Rows of a load.
    pub(crate) rows: u32,
}

const SIZE: Size = Size {
    rounds: 9,
    small: 2_000,
    rows: 100_000,
};

fn main() -> Result<(), Box<dyn Error>> {
    enter_user_namespace()?;
    let lines = in_place(&Place::Fresh, || {
        measure(SIZE).map_err(|error| error.to_string())
    })??;
    println!("{}", lines.join("\n"));
    Ok(())
}

/// One line for single rows, one for loads.
pub(crate) fn measure(size: Size) -> Result<Vec<String>, Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("overhead-{}.pcapng", std::process::id()));
    let recorder = || {
        let section = Section::here("recording_overhead");
        Recorder::create(&file, Some(64 << 20), section, |error| eprintln!("{error}"))
    };
    let mut connection = Connection::new(Socket::open()?)?;
    let mut small = [Vec::new(), Vec::new()];
    let mut loads = [Vec::new(), Vec::new()];
    for _ in 0..size.rounds {
        for recorded in [false, true] {
            let index = usize::from(recorded);
            let recording = if recorded { Some(recorder()?) } else { None };
            connection.transport_mut().record(recording);
            make(&mut connection, size)?;
            let started = Instant::now();
            for row in 0..size.small {
                replace(&mut connection, row)?;
            }
            small[index].push(started.elapsed() / size.small);
            loads[index].push(load(&mut connection, size)?);
            remove(&mut connection)?;
        }
    }
    connection.transport_mut().record(None);
    for name in ["", ".1"] {
        let mut path = file.clone().into_os_string();
        path.push(name);
        // The ring has one file if it is not full.
        let _ = std::fs::remove_file(path);
    }
    let load = format!("{} rows loaded", size.rows);
    let mut lines = Vec::new();
    for (what, [without, with]) in [("one row replaced", small), (load.as_str(), loads)] {
        let (without, with) = (median(without), median(with));
        lines.push(format!(
            "{what}: {:.1} µs, recorded {:.1} µs, ratio {:.2}",
            without.as_secs_f64() * 1e6,
            with.as_secs_f64() * 1e6,
            with.as_secs_f64() / without.as_secs_f64()
        ));
    }
    Ok(lines)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

fn commit(connection: &mut Connection, batch: Batch) -> Result<Duration, Box<dyn Error>> {
    let mut sealed = batch.seal();
    let started = Instant::now();
    let outcome = connection.commit(&mut sealed);
    let took = started.elapsed();
    if outcome.is_committed() {
        Ok(took)
    } else {
        Err(outcome.to_string().into())
    }
}

/// Two maps: one for single rows, one for loads.
fn make(connection: &mut Connection, size: Size) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::default();
    batch.add_table(FAMILY, &Table::named("overhead"))?;
    for name in ["rows", "load"] {
        let mut set = Set::named("overhead", name);
        set.flags = Some(SetFlags::MAP);
        set.key_type = Some(DataType::MARK);
        set.key_len = Some(4);
        set.data_type = Some(DataType::MARK);
        set.data_len = Some(4);
        let mut desc = SetDesc::default();
        desc.size = Some(size.rows.max(size.small));
        set.desc = Some(desc);
        let set = batch.add_set(FAMILY, &set)?;
        if name == "rows" {
            batch.add_elements(set, (0..size.small).map(|row| element(row, 0)))?;
        }
    }
    commit(connection, batch).map(drop)
}

fn element(key: u32, value: u32) -> Elem<'static> {
    Elem::mapping(Value::u32_be(key), Data::Value(Value::u32_be(value)))
}

fn replace(connection: &mut Connection, row: u32) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::default();
    let set = batch.set(FAMILY, "overhead", "rows")?;
    batch.delete_elements(set, [Elem::new(Value::u32_be(row))])?;
    batch.add_elements(set, [element(row, 1)])?;
    commit(connection, batch).map(drop)
}

fn load(connection: &mut Connection, size: Size) -> Result<Duration, Box<dyn Error>> {
    let mut batch = Batch::default();
    let set = batch.set(FAMILY, "overhead", "load")?;
    batch.add_elements(set, (0..size.rows).map(|row| element(row, row)))?;
    commit(connection, batch)
}

fn remove(connection: &mut Connection) -> Result<(), Box<dyn Error>> {
    let mut batch = Batch::default();
    batch.delete_table(FAMILY, By::Name("overhead"))?;
    commit(connection, batch).map(drop)
}
