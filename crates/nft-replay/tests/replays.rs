//! Replaying and what goes with it: bisecting, comparing, other tools' eyes.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod support;

use core::time::Duration;
use std::path::Path;
use std::process::Command;
use std::time::Instant;
use std::{fs, thread};

use nft_batch::Errno;
use nft_replay::capture::Capture;
use nft_replay::play::{Place, in_place};
use nft_replay::session::Session;
use support::{Files, NFT_REPLAY, has, newest, record, run};
use test_support::in_new_netns;

#[test]
fn tshark_reads_our_files() {
    if !has("tshark") {
        return;
    }
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let file = files.path("capture.pcapng");
        let mut elements: Vec<String> = Vec::new();
        for index in 0..40_000_u32 {
            let address = core::net::Ipv4Addr::from(0x0a00_0000 + index);
            elements.push(address.to_string());
        }
        let rules = files.write(
            "rules.nft",
            &format!(
                "table ip t {{\nset s {{\ntype ipv4_addr\nelements = {{ {} }}\n}}\n}}\n",
                elements.join(",")
            ),
        );
        record(&file, &format!("{} -f {rules}", nft.path.display()));
        let capture = Capture::open(&file).unwrap();
        let longest = capture
            .packets
            .iter()
            .map(|packet| packet.len)
            .max()
            .unwrap();
        assert!(longest > 262_144, "{longest} bytes fit one packet");
        let name = file.to_str().unwrap();
        let fields = [
            "-T",
            "fields",
            "-e",
            "frame.protocols",
            "-e",
            "frame.comment",
        ];
        let output = run("tshark", &[&["-r", name], &fields[..]].concat());
        let text = String::from_utf8(output.stdout).unwrap();
        let netfilter = text.lines().filter(|line| line.contains("netlink")).count();
        assert_eq!(netfilter, text.lines().count(), "{text}");
        assert!(text.lines().count() >= capture.packets.len());
        assert!(text.contains("nft-replay: port="), "{text}");
        assert!(text.contains(" offset="), "{text}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            !stderr.contains("damaged") && !stderr.contains("cut short"),
            "{stderr}"
        );

        // Back from wireshark's tools: what they write is read, and replays the same.
        let copy = files.path("copy.pcap");
        run(
            "tshark",
            &["-r", name, "-F", "pcap", "-w", copy.to_str().unwrap()],
        );
        let read = Capture::open(&copy).unwrap();
        assert_eq!(read.damage, None);
        assert!(read.packets.len() >= capture.packets.len());
    });
}

#[test]
fn bisect_finds_the_one_bad_operation() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let file = files.path("capture.pcapng");
        // One element is in the set already: nothing else is wrong.
        let mut rules = String::from(
            "add table ip t\nadd table ip other\nadd chain ip other c\nadd rule ip other c accept\n\
             add chain ip t c\nadd map ip t m { type ipv4_addr : inet_service; }\n\
             add element ip t m { 10.0.0.77 : 1 }\n",
        );
        for index in 0..30 {
            rules += &format!("add rule ip t c ip saddr 10.1.0.{index} accept\n");
        }
        let first = files.write("first.nft", &rules);
        let elements: Vec<String> = (0..100)
            .map(|index| format!("10.0.0.{index} : 80"))
            .collect();
        let second = files.write(
            "second.nft",
            &format!(
                "add rule ip t c drop\nadd element ip t m {{ {} }}\nadd chain ip t d\n",
                elements.join(", ")
            ),
        );
        let program = nft.path.display();
        record(
            &file,
            &format!(
                "{program} -f {first}; {program} add table ip6 six; {program} -f {second} || true"
            ),
        );
        let smallest = files.path("smallest.pcapng");
        let (name, out) = (file.to_str().unwrap(), smallest.to_str().unwrap());
        let output = run(NFT_REPLAY, &["run", name, "--bisect", out, "-o", "json"]);
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["errno"], "EEXIST", "{found}");
        assert_eq!(found["transaction"], 3, "{found}");
        // The table, the map, the row that is there, and the one that is refused.
        assert_eq!(found["messages"], 4, "{found}");
        let capture = Capture::open(&smallest).unwrap();
        let session = Session::new(&capture);
        let last = session.transactions().last().unwrap().1;
        let (_, refusal) = last.errors().next().unwrap();
        assert_eq!(refusal.errno, Errno::EEXIST);
        let shown = run(NFT_REPLAY, &["show", out]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("{ 10.0.0.77 : 80 }"), "{shown}");
        assert!(!shown.contains("10.0.0.76"), "{shown}");
        run(NFT_REPLAY, &["run", out]);

        let fine = files.path("fine.pcapng");
        record(&fine, &format!("{program} add table ip fine"));
        let output = Command::new(NFT_REPLAY)
            .args(["run", fine.to_str().unwrap(), "--bisect", out])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stderr).contains("nothing to bisect"));
    });
}

#[test]
fn rulesets_of_two_captures_are_compared() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let program = nft.path.display();
        let (one, other) = (files.path("one"), files.path("other"));
        // The same by another way, and then one rule more.
        let make = |file: &Path, script: String| {
            in_place(&Place::Fresh, || record(file, &script)).unwrap();
        };
        make(
            &one,
            format!(
                "{program} 'add table ip t; add chain ip t c; add rule ip t c tcp dport {{ 1, 2 }} drop'"
            ),
        );
        make(
            &other,
            format!(
                "{program} add table ip t; {program} add chain ip t gone; {program} delete chain ip t gone; \
                 {program} 'add chain ip t c; add rule ip t c tcp dport {{ 2, 1 }} drop'"
            ),
        );
        let diff = |one: &Path, other: &Path| {
            Command::new(NFT_REPLAY)
                .args([
                    "run",
                    one.to_str().unwrap(),
                    "--diff",
                    other.to_str().unwrap(),
                ])
                .output()
                .unwrap()
        };
        let output = diff(&one, &other);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        make(
            &other,
            format!(
                "{program} 'add table ip t; add chain ip t c; add rule ip t c tcp dport {{ 1, 3 }} drop'"
            ),
        );
        let output = diff(&one, &other);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            text.contains("-\t\tmeta l4proto tcp tcp dport { 1, 2 } drop"),
            "{text}"
        );
        assert!(
            text.contains("+\t\tmeta l4proto tcp tcp dport { 1, 3 } drop"),
            "{text}"
        );
    });
}

#[test]
fn a_replay_that_goes_otherwise_says_so() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let file = files.path("capture.pcapng");
        let program = nft.path.display();
        record(
            &file,
            &format!("{program} create table ip t; {program} list ruleset >/dev/null"),
        );
        let name = file.to_str().unwrap();
        // The table is there already in this namespace.
        let output = Command::new(NFT_REPLAY)
            .args(["run", name, "--live", "--yes", "-o", "json"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let differences = &summary["transactions"][0]["differences"];
        assert_eq!(differences[0], "message 1: recorded no error, here EEXIST");
        // Without --yes, and nobody to ask, nothing is sent.
        let output = Command::new(NFT_REPLAY)
            .args(["run", name, "--live"])
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        // A namespace of its own, several times, with a command in the end.
        let output = run(
            NFT_REPLAY,
            &[
                "run",
                name,
                "--times",
                "3",
                "--",
                nft.path.to_str().unwrap(),
                "list",
                "tables",
            ],
        );
        assert_eq!(String::from_utf8_lossy(&output.stdout), "table ip t\n");
        // By its path.
        let path = format!("/proc/self/task/{}/ns/net", nix::unistd::gettid());
        let here = fs::read_link(&path).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        thread::scope(|scope| {
            let (ready, is_ready) = std::sync::mpsc::channel();
            scope.spawn(move || {
                nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
                let id = nix::unistd::gettid();
                ready
                    .send(format!("/proc/{}/task/{id}/ns/net", std::process::id()))
                    .unwrap();
                let _ = receiver.recv();
            });
            let other = is_ready.recv().unwrap();
            assert_ne!(fs::read_link(&other).unwrap(), here);
            run(NFT_REPLAY, &["run", name, "--netns", &other]);
            let output = Command::new(NFT_REPLAY)
                .args(["run", name, "--netns", &other])
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(2), "{output:?}");
            drop(sender);
        });
    });
}

#[test]
fn pauses_are_kept_when_asked_for() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let file = files.path("capture.pcapng");
        let program = nft.path.display();
        record(
            &file,
            &format!("{program} add table ip t; sleep 0.5; {program} add table ip u"),
        );
        let name = file.to_str().unwrap();
        let started = Instant::now();
        run(NFT_REPLAY, &["run", name, "--pace", "recorded"]);
        assert!(started.elapsed() >= Duration::from_millis(500));
        // What was sent and said here is a capture, too.
        let copy = files.path("copy.pcapng");
        run(NFT_REPLAY, &["run", name, "--save", copy.to_str().unwrap()]);
        let (old, new) = (Capture::open(&file).unwrap(), Capture::open(&copy).unwrap());
        let sent = |capture: &Capture| -> Vec<usize> {
            let session = Session::new(capture);
            let lengths = session.transactions().map(|(_, exchange)| exchange.len());
            lengths.collect()
        };
        assert_eq!(sent(&old), sent(&new));
    });
}
