//! Encode and decode beside unchecked floors and, as JSON lines on stdin, other libraries.

use core::hint::black_box;
use core::time::Duration;
use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use benches::codec::{Rows, decode_by_hand, decode_elements, decode_rows};
use benches::stats::{median, ratio, shown};
use serde::Deserialize;

/// What a peer prints, see `benches/peers/README.md`.
#[derive(Deserialize)]
struct Peer {
    name: String,
    ns: u64,
    allocations: u64,
    bytes: u64,
}

fn main() -> anyhow::Result<()> {
    let rows = Rows::default();
    let mut buf = vec![0; 1 << 17];
    let len = rows.encode(&mut buf)?;

    let floor = time(|| {
        black_box(&rows).encode_unchecked(black_box(&mut buf));
    });
    let encode = time(|| {
        black_box(black_box(&rows).encode(black_box(&mut buf)).is_ok());
    });
    let decode_floor = time(|| {
        black_box(decode_by_hand(black_box(&buf[..len])));
    });
    let rows_read = time(|| {
        let _ = black_box(decode_rows(black_box(&buf[..len])));
    });
    let elements_read = time(|| {
        let _ = black_box(decode_elements(black_box(&buf[..len])));
    });
    let encode_allocations = allocations(|| {
        black_box(rows.encode(&mut buf).is_ok());
    });
    let decode_allocations = allocations(|| {
        let _ = black_box((decode_rows(&buf[..len]), decode_elements(&buf[..len])));
    });

    println!("1,000 map elements (16-byte key, 8-byte data) in one message of {len} bytes");
    println!(
        "{:<40} {:>10} {:>12} {:>9}",
        "", "time", "allocations", "× floor"
    );
    line("unchecked cursor (floor)", floor, 0, floor);
    line("nl-codec encode", encode, encode_allocations, floor);
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        for peer in stdin.lock().lines() {
            let peer: Peer = serde_json::from_str(&peer?)?;
            line(
                &peer.name,
                Duration::from_nanos(peer.ns),
                peer.allocations,
                floor,
            );
            anyhow::ensure!(
                peer.bytes.abs_diff(len as u64) <= 64,
                "{} does other work",
                peer.name
            );
        }
    }
    println!();
    line("walk by hand (floor)", decode_floor, 0, decode_floor);
    let allocations = decode_allocations;
    line(
        "nl-codec decode, rows",
        rows_read,
        allocations,
        decode_floor,
    );
    line(
        "nl-codec decode, elements",
        elements_read,
        allocations,
        decode_floor,
    );
    anyhow::ensure!(
        encode_allocations == 0 && decode_allocations == 0,
        "the codec allocates"
    );
    within("encode", ratio(encode, floor), 2.0)?;
    within("decode of rows", ratio(rows_read, decode_floor), 3.0)
}

fn within(what: &str, factor: f64, bound: f64) -> anyhow::Result<()> {
    println!("{what} is {factor:.2} × its unchecked floor (bound: {bound})");
    anyhow::ensure!(factor <= bound, "{what} is slower than {bound} × the floor");
    Ok(())
}

/// Median of 101 samples of 50 runs each, per run.
fn time(mut run: impl FnMut()) -> Duration {
    const RUNS: u32 = 50;
    let sample = |_| {
        let start = Instant::now();
        (0..RUNS).for_each(|_| run());
        start.elapsed() / RUNS
    };
    median((0..101).map(sample).collect())
}

fn allocations(run: impl FnOnce()) -> u64 {
    allocation_counter::measure(run).count_total
}

fn line(name: &str, time: Duration, allocations: u64, floor: Duration) {
    println!(
        "{name:<40} {:>10} {allocations:>12} {:>9.2}",
        shown(time),
        ratio(time, floor)
    );
}
