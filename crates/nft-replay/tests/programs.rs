//! What programs send is recorded, and replayed leads to the same ruleset.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, thread};

use nft_batch::{Connection, Errno};
use nft_replay::capture::Capture;
use nft_replay::play::{Place, PlayOptions, Player, Report, in_place};
use nft_replay::ruleset;
use nft_replay::session::{Outcome, Session};
use test_support::nft::{self, Nft};
use test_support::{in_new_netns, skip};

const NFT_REPLAY: &str = env!("CARGO_BIN_EXE_nft-replay");

fn run(program: impl AsRef<Path>, args: &[&str]) -> Output {
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
fn record(file: &Path, script: &str) -> Output {
    let file = file.to_str().unwrap();
    run(
        NFT_REPLAY,
        &["record", "-o", file, "--", "sh", "-ec", script],
    )
}

/// The ruleset as nft lists it, without what packets count.
fn listed(nft: &Path) -> String {
    let output = run(nft, &["-s", "list", "ruleset"]);
    String::from_utf8(output.stdout).unwrap()
}

/// Plays in a new namespace, after `before` was done there, and returns what nft lists then.
fn replayed(
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

fn differences(report: &Report) -> Vec<String> {
    let played = report.transactions.iter();
    played
        .map(|it| format!("#{} {:?}", it.number, it.verdict))
        .collect()
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name).to_str().unwrap().to_owned()
    }
}

const RULES: &str = r#"
table inet t {
	counter hits { }
	set plain { type ipv4_addr . inet_proto . inet_service; size 1000; elements = { 10.0.0.1 . tcp . 80, 10.0.0.2 . udp . 53 } }
	set nets { type ipv4_addr; flags interval; elements = { 10.1.0.0/16, 192.168.0.1-192.168.0.9 } }
	map targets { type inet_service : verdict; elements = { 80 : goto web, 443 : drop } }
	chain web {
		counter accept
	}
	chain incoming {
		type filter hook input priority 0; policy accept;
		ct state established,related accept
		ip saddr . meta l4proto . th dport @plain counter name "hits" accept comment "first"
		ip saddr @nets drop
		tcp dport vmap @targets
		ip daddr 10.0.0.0/8 meta mark set meta mark | 0x4000
		tcp dport { 8080, 9090 } reject
	}
}
table ip6 six {
	map endpoints { type ipv6_addr : ipv6_addr; elements = { fd00::1 : fd00::2 } }
	chain pre {
		type nat hook prerouting priority -100; policy accept;
		dnat to ip6 daddr map @endpoints
	}
}
"#;

/// Loads, adds, replaces, deletes by handle and by name, fails, flushes.
fn script(nft: &Nft, files: &Files) -> String {
    let rules = files.write("rules.nft", RULES);
    let bad = files.write(
        "bad.nft",
        "add element inet t plain { 10.0.0.9 . tcp . 9 }\nadd rule inet t nowhere accept\n",
    );
    let nft = nft.path.display();
    format!(
        r#"
nft() {{ {nft} "$@"; }}
handle() {{ nft -a list table inet t | sed -n "s/.*$1.* # handle \([0-9]*\)$/\1/p" | head -1; }}
nft -f {rules}
nft add element inet t plain '{{ 10.0.0.3 . tcp . 443 }}'
nft add rule inet t incoming ip saddr 10.9.9.9 accept
nft insert rule inet t incoming ip saddr 10.8.8.8 drop
first=$(handle 10.9.9.9)
nft replace rule inet t incoming handle $first ip saddr 10.7.7.7 drop
nft add rule inet t incoming position $first ip saddr 10.6.6.6 accept
nft delete rule inet t incoming handle $(handle 10.8.8.8)
nft delete element inet t plain '{{ 10.0.0.1 . tcp . 80 }}'
if nft -f {bad} 2>/dev/null; then exit 1; fi
nft add chain inet t late
nft delete chain inet t late
nft flush chain ip6 six pre
"#
    )
}

#[test]
fn what_nft_sends_leads_to_the_same_ruleset() {
    in_new_netns(|| {
        for nft in nft::versions() {
            let files = Files::new();
            let file = files.path("capture.pcapng");
            let script = script(&nft, &files);
            let (original, own) = in_place(&Place::Fresh, || {
                record(&file, &script);
                let own = ruleset::read(&mut Connection::open().unwrap()).unwrap();
                (listed(&nft.path), own)
            })
            .unwrap();
            let capture = Capture::open(&file).unwrap();
            assert_eq!(capture.damage, None);
            let session = Session::new(&capture);
            let outcomes: Vec<_> = session
                .transactions()
                .map(|(_, exchange)| exchange.outcome())
                .collect();
            let refused = outcomes
                .iter()
                .filter(|it| **it == Outcome::Refused)
                .count();
            assert_eq!(
                (outcomes.len(), refused),
                (12, 1),
                "nft {}: {outcomes:?}",
                nft.version
            );

            let (report, listed, read) = replayed(&capture, &nft.path, || {});
            assert!(
                report.agrees(),
                "nft {}: {:?}",
                nft.version,
                differences(&report)
            );
            assert_eq!(listed, original, "nft {}", nft.version);
            assert_eq!(read, own, "nft {}", nft.version);

            // All handles are others there, and are translated.
            let program = nft.path.clone();
            let (report, listed, read) = replayed(&capture, &nft.path, || {
                run(&program, &["add", "table", "inet", "t"]);
                for name in ["a", "b", "c"] {
                    run(&program, &["add", "chain", "inet", "t", name]);
                    run(&program, &["delete", "chain", "inet", "t", name]);
                }
            });
            assert!(
                report.agrees(),
                "nft {}: {:?}",
                nft.version,
                differences(&report)
            );
            assert_eq!(report.unknown_handles, 0, "nft {}", nft.version);
            assert_eq!(listed, original, "nft {}", nft.version);
            assert_eq!(read, own, "nft {}", nft.version);
        }
    });
}

/// The newest nft there is.
fn newest() -> Option<Nft> {
    nft::versions().pop()
}

fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok();
    if !found {
        skip(&format!("no {program}"));
    }
    found
}

#[test]
fn what_iptables_sends_leads_to_the_same_ruleset() {
    if !has("iptables-nft") {
        return;
    }
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let file = files.path("capture.pcapng");
        let restore = files.write(
            "rules",
            "*filter\n:INPUT ACCEPT [0:0]\n:mine - [0:0]\n-A INPUT -s fd00::/64 -j mine\n\
             -A mine -p tcp --dport 80 -m comment --comment hello -j ACCEPT\nCOMMIT\n",
        );
        let script = format!(
            "iptables-nft -A INPUT -s 10.0.0.0/8 -p tcp --dport 22 -j ACCEPT\n\
             iptables-nft -t nat -A POSTROUTING -m statistic --mode random --probability 0.5 -j MASQUERADE\n\
             iptables-nft -I INPUT 1 -m conntrack --ctstate ESTABLISHED -j ACCEPT\n\
             iptables-nft -D INPUT -s 10.0.0.0/8 -p tcp --dport 22 -j ACCEPT\n\
             ip6tables-nft-restore {restore}\n"
        );
        let save = |program: &str| {
            let output = run(program, &[]);
            let text = String::from_utf8(output.stdout).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            lines.collect::<Vec<_>>().join("\n")
        };
        let saved = || (save("iptables-nft-save"), save("ip6tables-nft-save"));
        record(&file, &script);
        let original = saved();
        let capture = Capture::open(&file).unwrap();
        let session = Session::new(&capture);
        let (report, again) = in_place(&Place::Fresh, || {
            let mut player = Player::open(PlayOptions::default()).unwrap();
            (player.play(&session, |_| true).unwrap(), saved())
        })
        .unwrap();
        assert!(report.agrees(), "{:?}", differences(&report));
        assert_eq!(again, original);
        assert!(original.0.contains("MASQUERADE"), "{}", original.0);
        let shown = run(NFT_REPLAY, &["show", file.to_str().unwrap()]);
        let shown = String::from_utf8(shown.stdout).unwrap();
        assert!(shown.contains("xt match \"comment\""), "{shown}");
        drop(nft);
    });
}

#[test]
fn threads_and_children_are_followed_and_exit_codes_kept() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let file = files.path("capture.pcapng");
        let nft = nft.path.display();
        let script = format!(
            "for i in 1 2 3 4 5 6; do {nft} add table ip t$i & done; wait; \
             (sh -c '{nft} add table ip inner'); exit 7"
        );
        let file_name = file.to_str().unwrap();
        let output = Command::new(NFT_REPLAY)
            .args(["record", "-o", file_name, "--", "sh", "-c", &script])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let capture = Capture::open(&file).unwrap();
        let session = Session::new(&capture);
        let committed = session
            .transactions()
            .filter(|(_, exchange)| exchange.outcome() == Outcome::Committed)
            .count();
        assert_eq!(committed, 7);
        let processes: std::collections::HashSet<_> = session
            .transactions()
            .map(|(_, exchange)| exchange.packet.process)
            .collect();
        assert_eq!(processes.len(), 7);
        assert!(capture.sections[0].os.starts_with("Linux "));

        let output = Command::new(NFT_REPLAY)
            .args(["record", "-o", file_name, "--", "/no/such/program"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        let output = Command::new(NFT_REPLAY)
            .args(["record", "-o", file_name, "--", "sh", "-c", "kill -9 $$"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(137), "{output:?}");
    });
}

/// Many batches of one process that goes on, as firewalld has them: nft -i reads commands from a pipe.
#[test]
fn a_long_running_program_with_many_batches() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        let file = files.path("capture.pcapng");
        let mut commands =
            String::from("add table inet firewalld\nadd chain inet firewalld zone\n");
        for index in 0..50 {
            commands += &format!(
                "add rule inet firewalld zone tcp dport {} accept\n",
                1000 + index
            );
        }
        commands += "add set inet firewalld ports { type inet_service; }\n";
        commands += "quit\n";
        let input = files.write("commands", &commands);
        let program = nft.path.display();
        record(&file, &format!("{program} -i < {input}"));
        let original = listed(&nft.path);
        assert_eq!(original.matches("dport").count(), 50, "{original}");
        let capture = Capture::open(&file).unwrap();
        let (report, listed, _) = replayed(&capture, &nft.path, || {});
        assert!(report.agrees(), "{:?}", differences(&report));
        assert!(
            report.transactions.len() >= 50,
            "{}",
            report.transactions.len()
        );
        assert_eq!(listed, original);
    });
}

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
