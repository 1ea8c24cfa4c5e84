//! Recording and playing in private namespaces.
#![allow(dead_code, reason = "each test binary uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nft_batch::Connection;
use nft_replay::capture::Capture;
use nft_replay::play::{Place, PlayOptions, Player, Report, in_place};
use nft_replay::ruleset;
use nft_replay::session::Session;
use test_support::nft::{self, Nft};
use test_support::skip;

pub(crate) const NFT_REPLAY: &str = env!("CARGO_BIN_EXE_nft-replay");

pub(crate) fn run(program: impl AsRef<Path>, args: &[&str]) -> Output {
    let output = Command::new(program.as_ref()).args(args).output().unwrap();
    assert!(
        output.status.success(),
        "{} {args:?}: {}",
        program.as_ref().display(),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Records a shell script in the calling thread's namespace.
pub(crate) fn record(file: &Path, script: &str) -> Output {
    let file = file.to_str().unwrap();
    run(
        NFT_REPLAY,
        &["record", "-o", file, "--", "sh", "-ec", script],
    )
}

/// The ruleset as nft lists it, without what packets count.
pub(crate) fn listed(nft: &Path) -> String {
    let output = run(nft, &["-s", "list", "ruleset"]);
    String::from_utf8(output.stdout).unwrap()
}

/// Plays in a new namespace, after `before` was done there, and returns what nft lists then.
pub(crate) fn replayed(
    capture: &Capture,
    nft: &Path,
    before: impl FnOnce() + Send,
) -> (Report, String, String) {
    let session = Session::new(capture);
    in_place(&Place::Fresh, || {
        before();
        let mut player = Player::open(PlayOptions::default()).unwrap();
        let report = player.play(&session, |_| true).unwrap();
        let own = ruleset::read(&mut Connection::open().unwrap()).unwrap();
        (report, listed(nft), own)
    })
    .unwrap()
}

pub(crate) fn differences(report: &Report) -> Vec<String> {
    let played = report.transactions.iter();
    played
        .map(|it| format!("#{} {:?}", it.number, it.verdict))
        .collect()
}

pub(crate) struct Files(tempfile::TempDir);

impl Files {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }
}

/// The newest nft there is.
pub(crate) fn newest() -> Option<Nft> {
    nft::versions().pop()
}

pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(&format!("no {program}"));
    }
    found
}
