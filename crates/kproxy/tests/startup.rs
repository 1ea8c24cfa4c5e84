//! What the program sets up and gives up when it starts, in private namespaces.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use kproxy::netns::Netns;
use kproxy::startup::{ConntrackSettings, Settings, StartupError, initialize};
use nft_batch::Events;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use rustix::thread::set_thread_uid;
use serde_json::Value as Json;
use test_support::in_new_netns;

use sandbox::{Running, Sandbox, sandboxed};

/// linux/capability.h.
const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
/// Somebody.
const NOBODY: u32 = 65_534;

/// Runs `test` with a Service that has one endpoint.
fn serving(test: impl FnOnce(Sandbox) + Send + 'static) {
    sandboxed(|sandbox| {
        sandbox.write_web("web.json", "10.0.0.1");
        test(sandbox);
    });
}

fn is_served(sandbox: &mut Sandbox) -> bool {
    sandbox.endpoint("10.96.0.10", 80, 0).as_deref() == Some("10.0.0.1:8080")
}

/// The values of a line of `/proc/PID/task/*/status`, of all threads.
fn statuses(process: &Running, field: &str) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", process.0.id())).unwrap();
    tasks
        .map(|task| {
            let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(field));
            line.unwrap().trim().to_owned()
        })
        .collect()
}

/// All threads keep these capabilities, and cannot gain any.
fn assert_confined(process: &Running, capabilities: u64) {
    let only = |text: String| BTreeSet::from([text]);
    assert_eq!(
        statuses(process, "CapEff:"),
        only(format!("{capabilities:016x}"))
    );
    assert_eq!(
        statuses(process, "CapPrm:"),
        only(format!("{capabilities:016x}"))
    );
    assert_eq!(statuses(process, "CapInh:"), only(format!("{:016x}", 0)));
    assert_eq!(statuses(process, "CapAmb:"), only(format!("{:016x}", 0)));
    assert_eq!(statuses(process, "NoNewPrivs:"), only("1".to_owned()));
    // A filter.
    assert_eq!(statuses(process, "Seccomp:"), only("2".to_owned()));
}

#[test]
fn all_threads_give_up_what_they_do_not_need() {
    serving(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let running = sandbox.start();
        sandbox.until(&mut events, is_served);
        assert!(statuses(&running, "Name:").len() > 1, "several threads");
        assert_confined(&running, NET_ADMIN | NET_BIND_SERVICE);
        let bound = format!("{:016x}", NET_ADMIN | NET_BIND_SERVICE);
        assert_eq!(statuses(&running, "CapBnd:"), BTreeSet::from([bound]));
        assert_eq!(running.stop(), 0);
    });
}

/// As kube-proxy: what a container runtime starts it with would not do for many health check node ports.
#[test]
fn it_may_open_as_many_files_as_its_limit_can_be_raised_to() {
    serving(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let source = format!("dir:{}", sandbox.folder().display());
        let state = tempfile::tempdir().unwrap();
        let mut command = Command::new("prlimit");
        command
            .args(["--nofile=64:4000", "--"])
            .arg(env!("CARGO_BIN_EXE_kproxy"))
            .args(["run", "--seccomp=kill", "--no-node", "--source", &source])
            .arg("--state-dir")
            .arg(state.path())
            .stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        sandbox.until(&mut events, is_served);
        let limits = fs::read_to_string(format!("/proc/{}/limits", running.0.id())).unwrap();
        let files = limits.lines().find(|it| it.starts_with("Max open files"));
        let numbers: Vec<_> = files.unwrap().split_whitespace().skip(3).collect();
        assert_eq!(numbers, ["4000", "4000", "files"], "{limits}");
        assert_eq!(running.stop(), 0);
    });
}

#[test]
fn another_user_with_one_capability_will_do() {
    serving(|mut sandbox| {
        let state = tempfile::tempdir().unwrap();
        chown(state.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(sandbox.folder(), fs::Permissions::from_mode(0o755)).unwrap();
        // The program is in a folder that only its owner may enter.
        let program = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .unwrap();
        let kproxy = program.path().join("kproxy");
        fs::copy(env!("CARGO_BIN_EXE_kproxy"), &kproxy).unwrap();
        let mut events = Events::open().unwrap();
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .args(["--inh-caps=-all,+net_admin", "--ambient-caps=+net_admin"])
            .args(["--bounding-set=-all,+net_admin", "--"])
            .arg(&kproxy)
            .args(["run", "--seccomp=kill", "--no-node", "--state-dir"])
            .arg(state.path())
            .args(["--source", &format!("dir:{}", sandbox.folder().display())])
            .stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        sandbox.until(&mut events, is_served);
        assert_confined(&running, NET_ADMIN);
        let uids = BTreeSet::from([format!("{NOBODY}\t{NOBODY}\t{NOBODY}\t{NOBODY}")]);
        assert_eq!(statuses(&running, "Uid:"), uids);
        assert_eq!(running.stop(), 0);
        let saved = fs::read_dir(state.path()).unwrap().count();
        assert!(saved > 0, "it keeps its state");
    });
}

#[test]
fn it_can_keep_everything() {
    serving(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let running = sandbox.run_node(&["--no-node", "--keep-capabilities"]);
        sandbox.until(&mut events, is_served);
        let own = fs::read_to_string("/proc/thread-self/status").unwrap();
        let own = own.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let own = BTreeSet::from([own.unwrap().trim().to_owned()]);
        assert_eq!(statuses(&running, "CapEff:"), own);
        assert_eq!(running.stop(), 0);
    });
}

#[test]
fn the_root_file_system_may_be_read_only() {
    serving(|mut sandbox| {
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let change = |flags| {
            let none = None::<&str>;
            mount(none, Path::new("/"), none, flags, none)
        };
        change(MsFlags::MS_REC | MsFlags::MS_PRIVATE).unwrap();
        change(MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY).unwrap();
        let probe = fs::write("/kproxy-may-not-write-here", "");
        assert_eq!(
            probe.unwrap_err().kind(),
            std::io::ErrorKind::ReadOnlyFilesystem
        );
        let mut events = Events::open().unwrap();
        let source = format!("dir:{}", sandbox.folder().display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_kproxy"));
        command
            .args(["run", "--seccomp=kill", "--no-node", "--source", &source])
            .args(["--state-dir", "/kproxy-state"])
            .stderr(Stdio::null());
        let running = Running(command.spawn().unwrap());
        sandbox.until(&mut events, is_served);
        assert_eq!(running.stop(), 0);
        // The sandbox is to be removed.
        change(MsFlags::MS_REMOUNT | MsFlags::MS_BIND).unwrap();
    });
}

/// A setting of the calling thread's network namespace.
fn conntrack(name: &str) -> u64 {
    let path = format!("/proc/sys/net/netfilter/nf_conntrack_{name}");
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

#[test]
fn settings_of_the_network_namespace_are_made_and_those_of_the_host_reported() {
    in_new_netns(|| {
        let mut settings = Settings {
            conntrack: ConntrackSettings {
                max_per_core: 1,
                min: 1,
                tcp_established_timeout: Duration::from_secs(4321),
                tcp_close_wait_timeout: Duration::from_secs(321),
                tcp_be_liberal: true,
                udp_timeout: Duration::from_secs(21),
                udp_stream_timeout: Duration::from_secs(123),
            },
            oom_score_adj: None,
        };
        let before = conntrack("max");
        assert_eq!(initialize(&Netns::Current, &settings).unwrap(), []);
        let found = [
            "tcp_timeout_established",
            "tcp_timeout_close_wait",
            "tcp_be_liberal",
            "udp_timeout",
            "udp_timeout_stream",
            "max",
        ];
        assert_eq!(
            found.map(conntrack),
            [4321, 321, 1, 21, 123, before],
            "{found:?}"
        );
        // The host's alone, which this namespace may only read.
        settings.conntrack.max_per_core = u32::MAX;
        if before < 1 << 20 {
            let error = initialize(&Netns::Current, &settings).unwrap_err();
            assert!(
                matches!(&error, StartupError::Setting { path, .. } if path.ends_with("nf_conntrack_max")),
                "{error}"
            );
        }
        // Done by somebody with privileges, and found right by one without: `--init-only`, then the proxy.
        settings.conntrack.max_per_core = 1;
        set_thread_uid(rustix::fs::Uid::from_raw(NOBODY)).unwrap();
        assert_eq!(initialize(&Netns::Current, &settings).unwrap(), []);
        settings.conntrack.udp_timeout = Duration::from_secs(22);
        let error = initialize(&Netns::Current, &settings).unwrap_err();
        assert!(
            error.to_string().contains("udp_timeout to 22 (it is 21)"),
            "{error}"
        );
    });
}

/// A hash table that is too small and cannot be made larger is told to those who watch the cluster, too.
#[test]
fn a_small_hash_table_becomes_an_event_of_the_node() {
    in_new_netns(|| {
        Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let small = folder.path().join("hashsize");
        fs::write(&small, "5\n").unwrap();
        unshare(CloneFlags::CLONE_NEWNS).unwrap();
        let none = None::<&str>;
        let change = |from: Option<&Path>, to: &Path, flags| {
            mount(from, to, none, flags, none).unwrap();
        };
        change(None, Path::new("/"), MsFlags::MS_REC | MsFlags::MS_PRIVATE);
        let shown = Path::new("/sys/module/nf_conntrack/parameters/hashsize");
        change(Some(&small), shown, MsFlags::MS_BIND);
        let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
        change(None, shown, read_only);

        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let master = format!("--master=http://{}", server.local_addr().unwrap());
        let (events, told) = channel();
        thread::spawn(move || {
            for connection in server.incoming() {
                let events = events.clone();
                thread::spawn(move || take_events(&connection.unwrap(), &events));
            }
        });
        let mut command = Command::new(env!("CARGO_BIN_EXE_kproxy"));
        command
            .args(["--seccomp=kill", "--hostname-override=node-a", &master])
            .args(["--conntrack-max-per-core=1", "--conntrack-min=100"])
            .arg("--state-dir")
            .arg(folder.path())
            .stderr(Stdio::null());
        let _running = Running(command.spawn().unwrap());
        let event = loop {
            let event = told.recv_timeout(Duration::from_secs(60)).unwrap();
            if event["reason"] == "readOnlySysFS" {
                break event;
            }
        };
        assert_eq!(event["type"], "Warning", "{event}");
        assert_eq!(event["action"], "StartKubeProxy", "{event}");
        assert_eq!(event["regarding"]["kind"], "Node", "{event}");
        assert_eq!(event["regarding"]["name"], "node-a", "{event}");
        let note = event["note"].as_str().unwrap();
        assert!(
            note.contains("hashsize") && note.contains("it is 5"),
            "{note}"
        );
    });
}

/// An API server that takes Events and has nothing else.
fn take_events(connection: &TcpStream, events: &Sender<Json>) -> Option<()> {
    let mut reader = BufReader::new(connection);
    loop {
        let (mut first, mut length) = (String::new(), 0);
        reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
            let line = line.trim().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let is_event = first.starts_with("POST ") && first.contains("/events");
        if is_event {
            events.send(serde_json::from_slice(&body).ok()?).ok()?;
        }
        let status = if is_event { "201 Created" } else { "503 Later" };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        let mut writer = connection;
        writer.write_all(answer.as_bytes()).ok()?;
    }
}

#[test]
fn without_the_capability_it_says_which_is_missing() {
    serving(|sandbox| {
        let mut command = Command::new("setpriv");
        command
            .args(["--bounding-set=-net_admin", "--inh-caps=-all", "--"])
            .arg(env!("CARGO_BIN_EXE_kproxy"))
            .args(["run", "--no-node", "--source"])
            .arg(format!("dir:{}", sandbox.folder().display()));
        let output = command.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("CAP_NET_ADMIN"), "{said}");
    });
}
