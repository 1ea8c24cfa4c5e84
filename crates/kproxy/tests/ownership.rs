//! Who may change our tables: everyone, one kproxy at a time, or only this process if so asked.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use nft_batch::Events;
use sandbox::{Running, Sandbox, sandboxed};

/// An nft command; its complaint, if it has one.
fn nft(commands: &str) -> Result<(), String> {
    let output = Command::new("nft").arg(commands).output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8(output.stderr).unwrap())
}

/// Starts `kproxy run` with more options, and its log.
fn start(sandbox: &Sandbox, more: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let source = format!("dir:{}", sandbox.folder().display());
    let args = [&["run", "--source", &source], more].concat();
    let mut command = sandbox.command(&args);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let log = BufReader::new(child.stderr.take().unwrap()).lines();
    (child, log.map(Result::unwrap))
}

#[test]
fn a_table_can_belong_to_the_process() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        let (child, mut log) = start(&sandbox, &["--table-owner"]);
        let running = Running(child);
        // The log says what follows.
        let said = log
            .find(|line| line.contains("belongs to this process"))
            .unwrap();
        assert!(
            said.contains("EPERM") && said.contains("kproxy cleanup"),
            "{said}"
        );
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        for edit in [
            "flush chain ip kube-proxy services",
            "delete table ip kube-proxy",
        ] {
            let refused = nft(edit).unwrap_err();
            assert!(refused.contains("Operation not permitted"), "{refused}");
        }
        // Reading is free, and changes go on.
        nft("list table ip kube-proxy").unwrap();
        sandbox.write_web("web.json", "10.1.0.2");
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);

        // Another one with state of its own, as if from another mount namespace.
        let elsewhere = tempfile::tempdir().unwrap();
        let folder = sandbox.folder().to_str().unwrap().to_owned();
        let source = format!("dir:{folder}");
        for command in [["apply", "-f", &folder], ["run", "--source", &source]] {
            let second = Command::new(env!("CARGO_BIN_EXE_kproxy"))
                .args(command)
                .args(["--no-node", "--state-dir"])
                .arg(elsewhere.path())
                .output()
                .unwrap();
            assert_eq!(second.status.code(), Some(1), "{second:?}");
            let why = String::from_utf8_lossy(&second.stderr);
            assert!(why.contains("is owned by another process"), "{why}");
        }
        let cleanup = sandbox.kproxy(&["cleanup"]);
        assert_eq!(cleanup.status.code(), Some(1), "{cleanup:?}");
        assert!(sandbox.route("10.96.0.10", 80).is_some());

        // It outlives its owner; whoever wants it without that flag is refused.
        let handle = sandbox.set_handle("services");
        assert_eq!(running.stop(), 0);
        assert!(sandbox.route("10.96.0.10", 80).is_some());
        let refused = nft("add table ip kube-proxy").unwrap_err();
        assert!(refused.contains("Operation not supported"), "{refused}");

        // The next process goes on where it ended, and owns it again.
        let (child, mut log) = start(&sandbox, &["--table-owner"]);
        let running = Running(child);
        // Of one family, then of the other.
        for _ in 0..2 {
            log.find(|line| line.contains("belongs to this process"))
                .unwrap();
        }
        assert!(nft("flush chain ip kube-proxy services").is_err());
        assert_eq!(sandbox.set_handle("services"), handle);
        assert_eq!(running.stop(), 0);

        // Without the option it goes on, too, and anyone may edit.
        let running = sandbox.start();
        sandbox.write_web("web.json", "10.1.0.3");
        let moved = Some("10.1.0.3:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
        assert_eq!(sandbox.set_handle("services"), handle);
        nft("add chain ip kube-proxy theirs").unwrap();
        assert_eq!(running.stop(), 0);
        assert!(sandbox.kproxy(&["cleanup"]).status.success());
        nft("add table ip kube-proxy").unwrap();
    });
}

#[test]
fn a_table_that_others_made_is_not_owned() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        nft("add table ip kube-proxy; add table inet kube-proxy; add chain ip kube-proxy x")
            .unwrap();
        let (child, mut log) = start(&sandbox, &["--table-owner"]);
        let running = Running(child);
        // The table that is not there yet will be.
        log.find(|line| line.contains("ip6 kube-proxy belongs to this process"))
            .unwrap();
        log.find(|line| line.contains("ip kube-proxy was made without an owner"))
            .unwrap();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        // A table of our name in another family is nobody's business of ours.
        nft("list table inet kube-proxy").unwrap();
        assert_eq!(running.stop(), 0);
    });
}

#[test]
fn a_second_one_waits_and_takes_over_without_a_change() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        let first = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        let handle = sandbox.set_handle("services");

        let (child, mut log) = start(&sandbox, &[]);
        let second = Running(child);
        log.find(|line| line.contains("taking over when it ends"))
            .unwrap();
        // A third one that is asked to end before its turn does.
        let (third, mut waiting) = start(&sandbox, &[]);
        waiting
            .find(|line| line.contains("taking over when it ends"))
            .unwrap();
        assert_eq!(Running(third).stop(), 0);

        assert_eq!(first.stop(), 0);
        log.find(|line| line.contains("has ended; taking over"))
            .unwrap();
        sandbox.write_web("web.json", "10.1.0.2");
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
        assert_eq!(sandbox.set_handle("services"), handle, "gone on with");
        assert_eq!(second.stop(), 0);
    });
}

/// B93: rules of others in the tables that iptables would use, and tables of our name in other families.
#[test]
fn native_rules_in_well_known_tables_are_left_alone() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let mut theirs = String::new();
        for family in ["ip", "ip6", "inet"] {
            for table in ["filter", "nat", "mangle"] {
                let table = format!("{family} {table}");
                theirs += &format!(
                    "add table {table}; \
                     add set {table} services {{ type inet_service; elements = {{ 22, 53 }}; }}; \
                     add chain {table} services; \
                     add rule {table} services tcp dport @services accept; \
                     add chain {table} INPUT {{ type filter hook input priority 0; policy drop; }}; \
                     add rule {table} INPUT ct state established accept; \
                     add chain {table} PREROUTING {{ type nat hook prerouting priority -100; }}; \
                     add rule {table} PREROUTING jump services;"
                );
            }
        }
        theirs += "add table inet kube-proxy; \
                   add chain inet kube-proxy services { type filter hook forward priority 0; }; \
                   add rule inet kube-proxy services counter packets 7 bytes 7 accept; \
                   add table arp kube-proxy; add table bridge kube-proxy;";
        nft(&theirs).unwrap();
        let listed = || {
            let output = Command::new("nft").args(["-s", "list", "ruleset"]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        // Without our own tables, which are the only ones of these two names.
        let others = || {
            let mut is_ours = false;
            let text = listed();
            let lines = text.lines().filter(|line| {
                if line.starts_with("table ") {
                    is_ours = ["table ip kube-proxy {", "table ip6 kube-proxy {"].contains(line);
                }
                !is_ours
            });
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let before = others();
        sandbox.write_web("web.json", "10.1.0.1");
        for endpoint in ["10.1.0.2", "10.1.0.3"] {
            let running = sandbox.start();
            sandbox.write_web("web.json", endpoint);
            let moved = Some(format!("{endpoint}:8080"));
            sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
            assert_eq!(running.stop(), 0);
            assert_eq!(others(), before);
        }
        assert!(listed().contains("table ip6 kube-proxy {"));
        assert!(sandbox.kproxy(&["cleanup"]).status.success());
        assert_eq!(listed().lines().collect::<Vec<_>>(), before);
    });
}

/// B88: what others did is in force no more, and the log says who it was.
#[test]
fn what_others_do_to_our_tables_is_put_right_and_logged() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        let (child, mut log) = start(&sandbox, &["-v"]);
        let running = Running(child);
        log.find(|line| line.contains("ip: in force")).unwrap();
        for edit in [
            "flush ruleset",
            "delete table ip kube-proxy",
            "flush chain ip kube-proxy nat-prerouting; delete chain ip kube-proxy nat-prerouting",
        ] {
            nft(edit).unwrap();
            let said = log
                .find(|line| line.contains("table ip kube-proxy was changed by"))
                .unwrap();
            assert!(
                said.contains("WARN") && said.contains("nft"),
                "{edit}: {said}"
            );
            sandbox.until(&mut events, |it| {
                let chain = it.nft(&["list", "chain", "ip", "kube-proxy", "nat-prerouting"]);
                let is_led = String::from_utf8_lossy(&chain.stdout).contains("jump services");
                is_led && it.endpoint("10.96.0.10", 80, 0).is_some()
            });
        }
        assert_eq!(running.stop(), 0);
    });
}
