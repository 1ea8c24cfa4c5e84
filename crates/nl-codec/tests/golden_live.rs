//! The committed golden bytes against what the nft releases at hand send today.
//!
//! `KPROXY_RECORD=all cargo test -p nl-codec --test golden_live` writes the golden files anew;
//! `KPROXY_RECORD=set` only the file of that name.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, mpsc};
use std::thread;

use test_support::golden::{Case, Golden, message_name, messages, sorted, with_plain_list_types};
use test_support::nft::{self, Nft};
use test_support::{has_netns, in_new_netns, skip};

mod any;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The messages of interest that `nft` sends for `case`, in a namespace of its own; empty when this
/// release cannot express it. What the kernel answers does not matter.
fn record(nft: &Nft, case: &Case) -> Vec<Vec<u8>> {
    let (send, receive) = mpsc::channel();
    let (nft, case) = (nft.clone(), case.clone());
    in_new_netns(move || {
        let together = nft.load(&case.setup.join("\n")).unwrap();
        if !together.status.success() {
            // Some of it is beyond this release or kernel; the rest may do.
            for line in &case.setup {
                nft.load(line).unwrap();
            }
        }
        let (datagrams, _) = nft.record(&(case.nft.join("\n") + "\n")).unwrap();
        let all = datagrams.iter().flat_map(|datagram| messages(datagram));
        let kept = all.filter(|message| match case.keep.as_slice() {
            [] => is_change(message_name(message)),
            keep => keep.iter().any(|name| name == message_name(message)),
        });
        send.send(kept.collect::<Vec<_>>()).unwrap();
    });
    receive.recv().unwrap_or_default()
}

fn is_change(name: &str) -> bool {
    ["NEW", "DEL", "DESTROY"]
        .iter()
        .any(|verb| name.starts_with(verb))
}

/// Whether recording is possible; says why not.
fn can_record() -> bool {
    let strace = std::process::Command::new("strace").arg("-V").output();
    if strace.is_err() {
        skip("no strace to see what nft sends");
    }
    strace.is_ok()
}

fn write_anew(golden: &mut Golden, releases: &[Nft]) {
    for case in &mut golden.cases {
        let recorded: Vec<_> = releases
            .iter()
            .skip_while(|nft| !case.min.is_empty() && nft.version != case.min)
            .map(|nft| (nft.version.as_str(), record(nft, case)))
            .filter(|(_, messages)| !messages.is_empty())
            .collect();
        let since = recorded.first();
        // The bytes are from the release most machines have, or the first that can.
        let from = recorded
            .iter()
            .find(|(version, _)| *version == "1.0.6")
            .or(since);
        case.since = since.map_or("none", |(version, _)| version).to_owned();
        case.from = from.map_or("none", |(version, _)| version).to_owned();
        case.messages = from
            .map(|(_, messages)| messages.clone())
            .unwrap_or_default();
    }
    golden.save().unwrap();
}

#[test]
fn nft_still_sends_the_committed_bytes() {
    if !can_record() || !has_netns() {
        return;
    }
    let releases = nft::versions();
    if let Ok(which) = std::env::var("KPROXY_RECORD") {
        for mut golden in Golden::load_all(&folder()).unwrap() {
            if which == "all" || which == golden.name() {
                write_anew(&mut golden, &releases);
            }
        }
        return;
    }
    // The short form asks one release for each case, the long form all that can express it.
    let long = std::env::var_os("KPROXY_LONG").is_some();
    let files = Mutex::new(Golden::load_all(&folder()).unwrap());
    let wrong = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(golden) = files.lock().unwrap().pop() else {
                        return;
                    };
                    for case in &golden.cases {
                        let asked = releases
                            .iter()
                            .skip_while(|nft| nft.version != case.since)
                            .filter(|nft| long || nft.version == case.from);
                        let found = asked.filter_map(|nft| check(nft, case)).collect::<Vec<_>>();
                        let named = found.iter().map(|why| format!("{}: {why}", golden.name()));
                        wrong.lock().unwrap().extend(named);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with what `nft` sends for `case` today: not what is committed as from that release,
/// or not understood.
fn check(nft: &Nft, case: &Case) -> Option<String> {
    let sent = record(nft, case);
    let name = format!("{}, nft {}", case.name, nft.version);
    if nft.version == case.from && sent != case.messages {
        return Some(format!("{name}: {sent:02x?}"));
    }
    for message in &sent {
        let expected = sorted(&with_plain_list_types(message));
        let rebuilt = any::rebuild(message).map(|rebuilt| sorted(&rebuilt));
        if rebuilt.as_ref() != Ok(&expected) {
            return Some(format!("{name}: {rebuilt:02x?} from {expected:02x?}"));
        }
    }
    None
}
