//! What is shown of a recording of nft 1.0.6, made with `nft-replay record`.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a verdict")]

use nft_batch::record::Direction;
use nft_replay::capture::{Capture, Packet};
use nft_replay::session::{Outcome, Session};
use nft_replay::show::{self, Filter, JsonExchange, Options, Style};
use nft_replay::stat::Stat;
use nl_codec::msg::{
    Family, Flags, Head, Message, MsgType, NftMsg, put_batch_begin, put_batch_end,
};
use nl_codec::nft::Table;
use nl_codec::{Encoder as _, SliceCursor};

const RECORDING: &[u8] = include_bytes!("data/nft-1.0.6.pcapng");

fn recording() -> Capture {
    let capture = Capture::read(RECORDING).unwrap();
    assert_eq!(capture.damage, None);
    capture
}

/// `Options` may grow.
fn options(change: impl FnOnce(&mut Options)) -> Options {
    let mut options = Options::default();
    options.elements = 16;
    change(&mut options);
    options
}

fn text(capture: &Capture, options: &Options) -> String {
    let mut out = String::new();
    show::text(&Session::new(capture), options, |text| out += text);
    out
}

#[test]
fn in_the_manner_of_nft() {
    insta::assert_snapshot!(text(&recording(), &options(|_| {})));
}

#[test]
fn in_the_manner_of_netlink_debugging() {
    insta::assert_snapshot!(text(&recording(), &options(|it| it.style = Style::Netlink)));
}

#[test]
fn questions_too() {
    let shown = text(&recording(), &options(|it| it.queries = true));
    let headings: Vec<_> = shown
        .lines()
        .filter(|line| !line.starts_with(' '))
        .collect();
    insta::assert_snapshot!(headings.join("\n"));
}

#[test]
fn as_json() {
    let capture = recording();
    let session = Session::new(&capture);
    let options = options(|it| it.only = Some(2));
    let mut lines = Vec::new();
    show::walk(&session, &options, |exchange, catalog, messages| {
        let value = JsonExchange::new(exchange, catalog, messages, &options);
        lines.push(serde_json::to_string_pretty(&value).unwrap());
    });
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn statistics() {
    let capture = recording();
    insta::assert_snapshot!(Stat::of(&capture, &Session::new(&capture)).to_string());
}

#[test]
fn only_what_is_asked_for() {
    let capture = recording();
    let filtered = |change: &dyn Fn(&mut Filter)| {
        let shown = text(&capture, &options(|it| change(&mut it.filter)));
        let lines = shown.lines().filter(|line| line.starts_with("  "));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(filtered(&|it| it.set = Some("hairpin".to_owned())));
    insta::assert_snapshot!(filtered(&|it| it.service = "default/web".parse().ok()));
    insta::assert_snapshot!(filtered(&|it| it.service = "10.0.0.2:53".parse().ok()));
    assert_eq!(filtered(&|it| it.table = "ip6/kube".parse().ok()), "");
    let all = filtered(&|it| it.table = "ip/kube".parse().ok());
    assert_eq!(
        all.matches("kube").count(),
        filtered(&|_| {}).matches("kube").count()
    );
}

#[test]
fn outcomes_and_errors_are_found_in_the_replies() {
    let capture = recording();
    let session = Session::new(&capture);
    let outcomes: Vec<_> = session
        .transactions()
        .map(|(_, exchange)| exchange.outcome())
        .collect();
    let committed = Outcome::Committed;
    assert_eq!(
        outcomes,
        [committed, Outcome::Refused, committed, committed]
    );
    let refused = session.transactions().nth(1).unwrap().1;
    let (seq, refusal) = refused.errors().next().unwrap();
    assert_eq!(refused.refused(seq, &refusal), Some(2));
}

#[test]
fn a_recording_cut_anywhere_is_shown_as_far_as_it_goes() {
    let whole = recording();
    for len in 0..RECORDING.len() {
        let Ok(capture) = Capture::read(&RECORDING[..len]) else {
            continue;
        };
        assert!(whole.packets.starts_with(&capture.packets), "{len}");
        if len % 61 == 0 {
            let shown = text(&capture, &options(|it| it.queries = true));
            assert!(text(&whole, &options(|it| it.queries = true)).len() >= shown.len());
        }
    }
}

#[test]
fn what_is_not_understood_is_shown() {
    let mut buf = [0; 512];
    let mut cursor = SliceCursor::new(&mut buf);
    put_batch_begin(&mut cursor, 1, None).unwrap();
    let head = Head::nft(NftMsg::NEW_TABLE, Family::IPV4)
        .with_flags(Flags::CREATE)
        .with_seq(2);
    let mut message = Message::begin(&mut cursor, &head).unwrap();
    Table::named("t").encode_attrs(&mut *message).unwrap();
    message.put_attr_bytes(99, &[1, 2, 3]).unwrap();
    message.end().unwrap();
    // A message of a type that is not known.
    let head = Head::new(MsgType(0x0afe), Family::IPV4).with_seq(3);
    let mut message = Message::begin(&mut cursor, &head).unwrap();
    message.put_attr_bytes(1, b"x\0").unwrap();
    message.end().unwrap();
    put_batch_end(&mut cursor, 4, Flags::empty()).unwrap();
    let mut capture = Capture::default();
    capture
        .packets
        .push(Packet::new(Direction::ToKernel, cursor.written().to_vec()));
    for style in [Style::Nft, Style::Netlink] {
        let shown = text(&capture, &options(|it| it.style = style));
        assert!(shown.contains("attribute 99 = 010203"), "{shown}");
        assert!(shown.contains("attribute 1 = 7800"), "{shown}");
    }
    // And it is still there in a file.
    let mut file = Vec::new();
    capture.write(&mut file).unwrap();
    assert_eq!(
        Capture::read(file.as_slice()).unwrap().packets,
        capture.packets
    );
}
