//! A recording that cannot be written any more. Alone in its program: tracing waits for all children.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod support;

use std::io;
use std::os::unix::net::UnixStream;
use std::process::Command;

use nft_replay::session::Session;
use nft_replay::trace::{self, Ended, TraceError};
use support::{Files, NFT_REPLAY, newest};
use test_support::in_new_netns;

/// As when the disk is full: a firewall that is being loaded is not to be left half loaded.
#[test]
fn a_program_goes_on_when_nothing_can_be_recorded_any_more() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let nft = nft.path.display();
        let script =
            format!("{nft} add table ip a; {nft} add table ip b; {nft} list tables; exit 7");
        let mut command = Command::new(NFT_REPLAY);
        command.args(["traced-program", "--", "sh", "-c", &script]);
        let files = Files::new();
        let out = std::fs::File::create(files.path("out")).unwrap();
        command.stdout(out);
        let (stop, _asked) = UnixStream::pair().unwrap();
        let mut capture = nft_replay::capture::Capture::default();
        let ended = trace::run(&mut command, stop, |packet| {
            if capture.packets.len() == 3 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            capture.packets.push(packet);
            Ok(())
        });
        match ended {
            Err(TraceError::Sink { ended, .. }) => assert_eq!(ended, Ended::Code(7)),
            other => panic!("{other:?}"),
        }
        assert_eq!(Session::new(&capture).transactions().count(), 0);
        let listed = std::fs::read_to_string(files.path("out")).unwrap();
        assert_eq!(listed, "table ip a\ntable ip b\n");
    });
}
