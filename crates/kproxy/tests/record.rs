//! `--record`: what kproxy sends is taken down, and replays to the same ruleset.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use std::fs;
use std::path::Path;

use nft_batch::Connection;
use nft_replay::capture::Capture;
use nft_replay::play::{Place, PlayOptions, Player, in_place};
use nft_replay::ruleset;
use nft_replay::session::{Outcome, Session};
use sandbox::{sandboxed, service, slice};

/// Plays a capture in a namespace of its own: the kernel must say what it said, and the ruleset
/// come to the one that is returned.
fn replayed(capture: &Capture) -> String {
    let session = Session::new(capture);
    in_place(&Place::Fresh, || {
        let mut player = Player::open(PlayOptions::default()).unwrap();
        let report = player.play(&session, |_| true).unwrap();
        assert!(report.agrees(), "{:?}", report.transactions);
        ruleset::read(&mut Connection::open().unwrap()).unwrap()
    })
    .unwrap()
}

fn open(file: &Path) -> Capture {
    let capture = Capture::open(file).unwrap();
    assert_eq!(capture.damage, None);
    capture
}

#[test]
fn what_is_applied_is_recorded() {
    sandboxed(|mut sandbox| {
        let recordings = tempfile::tempdir().unwrap();
        let mut all = Capture::default();
        let endpoints: [&[&str]; 3] = [
            &["10.244.0.5"],
            &["10.244.0.5", "10.244.0.6"],
            &["10.244.0.6"],
        ];
        for (round, endpoints) in endpoints.iter().enumerate() {
            let objects = [
                service("web", "10.96.0.10"),
                slice("web", endpoints),
                service("empty", "10.96.0.11"),
            ];
            sandbox.write_json("web.json", &objects);
            let file = recordings.path().join(format!("{round}.pcapng"));
            sandbox.apply(&["--record", file.to_str().unwrap(), "--wait-deferred"]);
            let capture = open(&file);
            assert!(capture.sections[0].application.starts_with("kproxy "));
            assert!(capture.sections[0].os.starts_with("Linux "));
            let session = Session::new(&capture);
            assert!(session.transactions().count() > 0);
            for (_, exchange) in session.transactions() {
                assert_eq!(exchange.outcome(), Outcome::Committed);
                assert!(exchange.packet.took.is_some());
            }
            all.append(capture);
        }
        let own = ruleset::read(&mut sandbox.connection).unwrap();
        assert!(own.contains("10.96.0.10"), "{own}");
        assert_eq!(replayed(&all), own);
    });
}

#[test]
fn a_recording_is_a_ring_of_two_files() {
    sandboxed(|sandbox| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ring.pcapng");
        let older = folder.path().join("ring.pcapng.1");
        let name = file.to_str().unwrap();
        let many = |count: u32| {
            let objects: Vec<_> = (0..count)
                .flat_map(|index| {
                    let name = format!("web-{index}");
                    let [.., high, low] = index.to_be_bytes();
                    [
                        service(&name, &format!("10.97.{high}.{low}")),
                        slice(&name, &[&format!("10.244.{high}.{low}")]),
                    ]
                })
                .collect();
            sandbox.write_json("web.json", &objects);
        };
        many(1);
        sandbox.apply(&["--record", name, "--record-limit", "1"]);
        assert!(!older.exists());
        // The one before is kept at a start.
        many(2);
        sandbox.apply(&["--record", name, "--record-limit", "1"]);
        assert!(older.exists());
        // Half a MiB each is not enough for all of this.
        many(20_000);
        sandbox.apply(&["--record", name, "--record-limit", "1"]);
        let lengths = [&file, &older].map(|file| fs::metadata(file).unwrap().len());
        // A datagram is not divided among files.
        assert!(lengths.iter().sum::<u64>() < 6 << 20, "{lengths:?}");
        for file in [&file, &older] {
            open(file);
        }

        let output = sandbox.kproxy(&[
            "apply",
            "-f",
            sandbox.folder().to_str().unwrap(),
            "--record",
            "/no/such/folder/file",
        ]);
        assert_eq!(output.status.code(), Some(1));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            stderr.contains("cannot record to /no/such/folder/file"),
            "{stderr}"
        );
    });
}
