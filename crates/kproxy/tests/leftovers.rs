//! Leftovers of kube-proxy's mode iptables, made with iptables itself: very many, and such that nothing here
//! can look into. (The real kube-proxy's: `tests/tests/leftovers.rs`.)
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use core::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use kproxy::leftovers::{Options, What, cleanup};
use kproxy::netns::Netns;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use svc_planner::plan::Family;
use test_support::in_new_netns;

use sandbox::{Running, sandboxed};

/// More than go in one transaction.
const SERVICES: usize = 2_500;

/// Runs a program in the calling thread's namespace.
fn run(program: &str, args: &[&str], input: &str) -> String {
    let mut command = Command::new(program);
    command
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {args:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}

fn options(expected: bool) -> Options {
    Options {
        expected,
        ..Options::default()
    }
}

/// Names of the chains that `program` shows and that begin with `KUBE-`.
fn chains(program: &str) -> Vec<String> {
    let saved = run(program, &[], "");
    let chains = saved.lines().filter_map(|line| line.strip_prefix(':'));
    let names = chains.map(|line| line.split(' ').next().unwrap().to_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with("KUBE-")).collect();
    // Tables come in the order in which they were used last.
    names.sort_unstable();
    names
}

#[test]
fn very_many_chains_go_in_parts() {
    in_new_netns(|| {
        let mut rules = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n".to_owned();
        for number in 0..SERVICES {
            writeln!(rules, ":KUBE-SVC-{number:016} - [0:0]").unwrap();
            writeln!(rules, ":KUBE-SEP-{number:016} - [0:0]").unwrap();
        }
        rules.push_str("-A PREROUTING -j KUBE-SERVICES\n");
        for number in 0..SERVICES {
            writeln!(rules, "-A KUBE-SERVICES -j KUBE-SVC-{number:016}").unwrap();
            writeln!(rules, "-A KUBE-SVC-{number:016} -j KUBE-SEP-{number:016}").unwrap();
        }
        rules.push_str("COMMIT\n");
        run("iptables-nft-restore", &["--noflush"], &rules);
        assert_eq!(chains("iptables-nft-save").len(), 2 * SERVICES + 1);
        for _ in 0..2 {
            assert_eq!(cleanup(&Netns::Current, options(true)).unwrap(), []);
            assert_eq!(chains("iptables-nft-save"), [""; 0]);
        }
    });
}

/// An element of somebody's map uses a chain, which no look at the rules can find.
#[test]
fn a_chain_that_a_map_of_others_uses_is_emptied_and_kept() {
    in_new_netns(|| {
        let rules = "*nat\n:PREROUTING ACCEPT [0:0]\n:KUBE-SERVICES - [0:0]\n\
                     :KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]\n:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]\n\
                     -A PREROUTING -j KUBE-SERVICES\n\
                     -A KUBE-SERVICES -d 10.96.0.1 -j KUBE-SVC-AAAAAAAAAAAAAAAA\n\
                     -A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA\nCOMMIT\n";
        run("iptables-nft-restore", &["--noflush"], rules);
        let map = "add map ip nat theirs { type ipv4_addr : verdict; }; \
                   add element ip nat theirs { 198.51.100.1 : goto KUBE-SVC-AAAAAAAAAAAAAAAA }";
        run("nft", &[map], "");
        for _ in 0..2 {
            assert_eq!(cleanup(&Netns::Current, options(true)).unwrap(), []);
            let listed = run("nft", &["list", "table", "ip", "nat"], "");
            let chains: Vec<_> = listed
                .lines()
                .filter_map(|line| line.trim().strip_prefix("chain KUBE-"))
                .collect();
            assert_eq!(chains, ["SVC-AAAAAAAAAAAAAAAA {"], "{listed}");
            let emptied = "chain KUBE-SVC-AAAAAAAAAAAAAAAA {\n\t}";
            assert!(listed.contains(emptied), "{listed}");
            assert!(
                listed.contains("goto KUBE-SVC-AAAAAAAAAAAAAAAA"),
                "{listed}"
            );
        }
    });
}

const LEGACY: &str = "\
*filter
:INPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
-A INPUT -j KUBE-FIREWALL
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
COMMIT
";
const FOLDER: &str = "/usr/sbin";

/// Legacy tables of others say nothing about a kube-proxy, and a process that has given up its privileges can
/// look into them as it did before: nothing is left. What comes back is removed again.
#[test]
fn legacy_tables_of_others_are_no_leftovers_and_what_comes_back_goes_again() {
    sandboxed(|sandbox| {
        let theirs = "*nat\n:DOCKER - [0:0]\n-A PREROUTING -j DOCKER\nCOMMIT\n";
        run("iptables-legacy-restore", &["--noflush"], theirs);
        let before = run("iptables-legacy-save", &[], "");
        sandbox.write_web("web.json", "10.0.0.1");
        let source = format!("dir:{}", sandbox.folder().display());
        let mut command = sandbox.command(&["run", "-v", "--source", &source]);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut until = |part: &str| {
            let told = log.find(|line| {
                let line = line.as_ref().unwrap();
                assert!(!line.contains("cannot remove"), "{line}");
                line.contains(part)
            });
            assert!(told.is_some(), "not told: {part}");
        };
        // One more look at each, after the first that came to nothing.
        until("leftovers of kube-proxy: none");
        for (tool, told) in [
            ("iptables-legacy", "left in legacy iptables (ip)"),
            ("iptables-nft", "left in iptables (ip)"),
            ("iptables-legacy", "left in legacy iptables (ip)"),
        ] {
            let restore = format!("{tool}-restore");
            let theirs = "*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n";
            run(&restore, &["--noflush"], theirs);
            until(told);
            assert_eq!(chains(&format!("{tool}-save")), [""; 0]);
        }
        let rules = |saved: &str| -> Vec<String> {
            let lines = saved.lines().filter(|line| line.starts_with("-A"));
            lines.map(str::to_owned).collect()
        };
        let after = run("iptables-legacy-save", &[], "");
        assert_eq!(rules(&after), rules(&before));
        assert_eq!(Running(process).stop(), 0);
    });
}

/// Has this thread, and what it starts, see nothing in the folder of iptables.
fn hide() {
    let none = None::<&str>;
    let mounted = mount(
        Some("none"),
        Path::new(FOLDER),
        Some("tmpfs"),
        MsFlags::empty(),
        none,
    );
    mounted.unwrap();
}

#[test]
fn what_nothing_here_can_look_into_is_told_with_a_command_that_works() {
    in_new_netns(|| {
        run("iptables-legacy-restore", &["--noflush"], LEGACY);
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(none, Path::new("/"), none, private, none).unwrap();
        hide();
        // It may be anybody's where nobody expects a kube-proxy in that mode.
        assert_eq!(cleanup(&Netns::Current, options(false)).unwrap(), []);
        let ignored = Options {
            ignore_legacy: true,
            ..options(true)
        };
        assert_eq!(cleanup(&Netns::Current, ignored).unwrap(), []);
        let left = cleanup(&Netns::Current, options(true)).unwrap();
        let [left] = left.as_slice() else {
            panic!("{left:?}");
        };
        assert_eq!(left.what, What::Legacy(Family::Ipv4));
        umount2(FOLDER, MntFlags::empty()).unwrap();
        assert_eq!(
            chains("iptables-legacy-save"),
            ["KUBE-FIREWALL", "KUBE-SERVICES"]
        );
        run("sh", &["-c", &left.command], "");
        assert_eq!(chains("iptables-legacy-save"), ["KUBE-FIREWALL"]);
        // It is still unknown, until the kubelet says where the node's rules are.
        hide();
        assert_eq!(cleanup(&Netns::Current, options(true)).unwrap().len(), 1);
        umount2(FOLDER, MntFlags::empty()).unwrap();
        run(
            "iptables-nft",
            &["-t", "mangle", "-N", "KUBE-IPTABLES-HINT"],
            "",
        );
        hide();
        assert_eq!(cleanup(&Netns::Current, options(true)).unwrap(), []);
        // The mount namespace goes with this thread.
    });
}
