//! The examples do what they say.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a verdict")]

use nft_replay::play::{Place, in_place};

#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/recording_overhead.rs"]
mod recording_overhead;
#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/replay_a_capture.rs"]
mod replay_a_capture;

#[test]
fn a_capture_is_replayed() {
    if !test_support::has_netns() {
        return;
    }
    let capture = replay_a_capture::recorded().unwrap();
    let (lines, agrees) = replay_a_capture::replay(&capture).unwrap();
    assert!(agrees, "{lines:?}");
    assert!(!lines.is_empty());
    for line in lines {
        assert!(
            line.contains(" committed in ") && line.ends_with(", as recorded"),
            "{line}"
        );
    }
}

#[test]
fn what_recording_costs_is_measured() {
    if !test_support::has_netns() {
        return;
    }
    let size = recording_overhead::Size {
        rounds: 1,
        small: 20,
        rows: 1_000,
    };
    let lines = in_place(&Place::Fresh, || {
        recording_overhead::measure(size).map_err(|error| error.to_string())
    });
    let lines = lines.unwrap().unwrap();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("one row replaced: "), "{lines:?}");
    assert!(lines[1].starts_with("1000 rows loaded: "), "{lines:?}");
    for line in lines {
        let (_, ratio) = line.rsplit_once("ratio ").unwrap();
        assert!(ratio.parse::<f64>().unwrap() > 0.0, "{line}");
    }
}
