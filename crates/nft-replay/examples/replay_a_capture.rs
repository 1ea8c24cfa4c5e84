//! Replays a capture in a network namespace of its own and tells what each transaction cost.
//!
//! ```console
//! # cargo run -p nft-replay --example replay_a_capture -- rules.pcapng
//! ```
//! Without a file it records one first: a set of 1,000 addresses, filled by nft-batch.

use core::error::Error;
use std::path::Path;

use netns_lab::enter_user_namespace;
use nft_batch::record::{Recorder, Section};
use nft_batch::{Batch, Connection, Socket};
use nft_replay::capture::Capture;
use nft_replay::play::{Place, PlayOptions, Player, Verdict, in_place};
use nft_replay::session::Session;
use nl_codec::msg::Family;
use nl_codec::nft::{DataType, Elem, Set, Table, Value};

fn main() -> Result<(), Box<dyn Error>> {
    enter_user_namespace()?;
    let given = std::env::args_os().nth(1);
    let capture = match &given {
        Some(file) => Capture::open(Path::new(file))?,
        None => recorded()?,
    };
    let (lines, agrees) = replay(&capture)?;
    println!("{}", lines.join("\n"));
    if agrees {
        Ok(())
    } else {
        Err("the kernel said something else than in the capture".into())
    }
}

/// A line for each transaction, and whether the kernel said what it said in the capture.
pub(crate) fn replay(capture: &Capture) -> Result<(Vec<String>, bool), Box<dyn Error>> {
    let mut lines = Vec::new();
    if let Some(damage) = &capture.damage {
        lines.push(format!("{damage}; what comes before is replayed"));
    }
    let session = Session::new(capture);
    let report = in_place(&Place::Fresh, || {
        Player::open(PlayOptions::default())?.play(&session, |_| true)
    })??;
    for played in &report.transactions {
        let verdict = match &played.verdict {
            Verdict::Agrees => "as recorded".to_owned(),
            other => format!("{other:?}"),
        };
        lines.push(format!(
            "#{} {} in {:?}, {verdict}",
            played.number, played.outcome, played.took
        ));
    }
    Ok((lines, report.agrees()))
}

/// Records a program of our own, in a namespace of its own.
pub(crate) fn recorded() -> Result<Capture, Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("replay-example-{}.pcapng", std::process::id()));
    let filled = in_place(&Place::Fresh, || {
        fill(&file).map_err(|error| error.to_string())
    })?;
    let capture = Capture::open(&file);
    std::fs::remove_file(&file)?;
    filled?;
    Ok(capture?)
}

fn fill(file: &Path) -> Result<(), Box<dyn Error>> {
    let section = Section::here("replay_a_capture");
    let recorder = Recorder::create(file, None, section, |error| eprintln!("{error}"))?;
    let mut socket = Socket::open()?;
    socket.record(Some(recorder));
    let mut connection = Connection::new(socket)?;

    let mut batch = Batch::default();
    let family = Family::IPV4;
    batch.add_table(family, &Table::named("firewall"))?;
    let mut set = Set::named("firewall", "blocked");
    set.key_type = Some(DataType::IPV4_ADDR);
    set.key_len = Some(4);
    let set = batch.add_set(family, &set)?;
    let blocked = (0..1_000_u32).map(|host| Elem::new(Value::u32_be(0x0a00_0000 + host)));
    batch.add_elements(set, blocked)?;
    let outcome = connection.commit(&mut batch.seal());
    if outcome.is_committed() {
        Ok(())
    } else {
        Err(outcome.to_string().into())
    }
}
