//! What programs send is recorded, and replayed leads to the same ruleset.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod support;

use std::process::Command;

use nft_batch::Connection;
use nft_replay::capture::Capture;
use nft_replay::play::{Place, PlayOptions, Player, in_place};
use nft_replay::ruleset;
use nft_replay::session::{Outcome, Session};
use support::{Files, NFT_REPLAY, differences, has, listed, newest, record, replayed, run};
use test_support::in_new_netns;
use test_support::nft::{self, Nft};

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
