//! Encode and decode beside the unchecked floor and, as JSON lines on stdin, other libraries.

use core::hint::black_box;
use core::time::Duration;
use std::io::{BufRead, IsTerminal};
use std::time::Instant;

use benches::codec::{Rows, decode};
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
    let read = time(|| {
        black_box(decode(black_box(&buf[..len])).is_ok());
    });
    let encode_allocations = allocations(|| {
        black_box(rows.encode(&mut buf).is_ok());
    });
    let decode_allocations = allocations(|| {
        black_box(decode(&buf[..len]).is_ok());
    });

    println!("1,000 map elements (16-byte key, 8-byte data) in one message of {len} bytes");
    println!(
        "{:<40} {:>10} {:>12} {:>9}",
        "", "time", "allocations", "× floor"
    );
    line("unchecked cursor (floor)", floor, 0, floor);
    line("nl-codec encode", encode, encode_allocations, floor);
    line("nl-codec decode", read, decode_allocations, floor);
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
    anyhow::ensure!(
        encode_allocations == 0 && decode_allocations == 0,
        "the codec allocates"
    );
    let factor = ratio(encode, floor);
    println!("encode is {factor:.2} × the unchecked floor (bound: 2)");
    anyhow::ensure!(factor <= 2.0, "encode is slower than twice the floor");
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
