//! Captures: pcapng and pcap. What can be read of one is shown, counted and written again, and is
//! then read as the same.

use nft_replay::capture::Capture;
use nft_replay::session::Session;
use nft_replay::show::{self, Options, Style};
use nft_replay::stat::Stat;

pub(crate) fn run(input: &[u8]) {
    let capture = match Capture::read(input) {
        Ok(capture) => capture,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let held: usize = capture.packets.iter().map(|it| it.bytes.len()).sum();
    assert!(held <= input.len(), "{held} bytes of {}", input.len());
    let session = Session::new(&capture);
    for style in [Style::Nft, Style::Netlink] {
        let mut options = Options::default();
        options.style = style;
        options.queries = true;
        options.elements = 8;
        show::text(&session, &options, |text| {
            core::hint::black_box(text.len());
        });
    }
    core::hint::black_box(format!("{:?}", Stat::of(&capture, &session)));
    let mut written = Vec::new();
    if let Err(error) = capture.write(&mut written) {
        panic!("cannot be written: {error}");
    }
    match Capture::read(written.as_slice()) {
        Ok(again) => {
            let bytes = |capture: &Capture| -> Vec<Vec<u8>> {
                capture.packets.iter().map(|it| it.bytes.clone()).collect()
            };
            assert_eq!(again.damage, None);
            assert_eq!(bytes(&again), bytes(&capture));
        }
        // A file without a packet says nothing of its link type.
        Err(error) => assert!(capture.packets.is_empty(), "not what was written: {error}"),
    }
}
